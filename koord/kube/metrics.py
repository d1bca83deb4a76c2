"""Numbers about the way to the API server. Labels are kinds, verbs and codes only."""

from prometheus_client import Counter, Gauge

REQUESTS = Counter(
    "koord_kube_requests_total",
    "Requests to the API server, by method and HTTP code (0: no answer).",
    ["method", "code"],
)
UNDECODABLE = Counter(
    "koord_kube_undecodable_objects_total",
    "Objects that did not fit their struct and were left at their last good state, by resource.",
    ["resource"],
)
STORE_OBJECTS = Gauge("koord_kube_store_objects", "Objects held by watching stores, by resource.", ["resource"])
STORE_EVENTS = Counter("koord_kube_store_changes_total", "Changes seen by stores, by resource.", ["resource"])
STORE_LISTS = Counter(
    "koord_kube_store_lists_total", "Times a store listed its collection, by resource.", ["resource"]
)
STORE_FAILURES = Counter(
    "koord_kube_store_failures_total",
    "Times a store's list or watch failed and was begun again, by resource and reason.",
    ["resource", "reason"],
)
STORE_CONTACT = Gauge(
    "koord_kube_store_last_contact_timestamp_seconds",
    "When a store last heard from the API server, by resource.",
    ["resource"],
)
SUBSCRIBER_FAILURES = Counter(
    "koord_kube_store_subscriber_failures_total", "Exceptions of change callbacks, by resource.", ["resource"]
)
LEADING = Gauge("koord_kube_leading", "1 while this process holds the lease, by lease.", ["lease"])
EVENTS = Counter(
    "koord_kube_events_total",
    "Kubernetes Events, by what became of them: sent, folded, dropped, failed.",
    ["outcome"],
)
