"""The webhook's numbers. Label values are closed sets, never names of objects; counters start at zero."""

from prometheus_client import Counter, Gauge, Histogram

from webhook.decision import Reason, Verdict

HTTP_STATUSES = (200, 400, 408, 413, 415)
OTHER_OPERATION = "other"
OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT", OTHER_OPERATION)

REQUESTS = Counter("koord_webhook_requests_total", "Reviews answered, by HTTP status.", ["status"])
SECONDS = Histogram(
    "koord_webhook_request_seconds",
    "Time from the whole request being read to its answer being encoded.",
    buckets=(0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.02, 0.1, 0.5, 1.0),
)
DECISIONS = Counter(
    "koord_webhook_decisions_total",
    "Decisions about pods to mutate, by operation, result (allowed, refused) and reason.",
    ["operation", "result", "reason"],
)
ANSWER_BYTES = Histogram(
    "koord_webhook_patched_answer_bytes",
    "Size of the answers that carry a patch, in bytes; the patch in it is base64.",
    buckets=(512, 1024, 2048, 4096, 8192, 16384, 65536, 262144),
)
JUDGEMENTS = Counter(
    "koord_webhook_judgements_total", "Objects judged, by resource and reason.", ["resource", "reason"]
)
OUTCOMES = Counter(
    "koord_webhook_profile_outcomes_total", "What became of profiles that matched a pod, by verdict.", ["verdict"]
)
PROFILES = Gauge("koord_webhook_profiles", "Profiles known, by state (sound, faulty).", ["state"])
REGISTERED = Gauge("koord_webhook_registered", "1 while the API server is known to call this webhook and trust it.")
CERTIFICATE_EXPIRY = Gauge(
    "koord_webhook_certificate_expiry_timestamp_seconds", "When the certificate that is served expires."
)
CONNECTIONS_CLOSED = Counter(
    "koord_webhook_connections_closed_total", "Connections closed by us, by reason.", ["reason"]
)
FAILURES = Counter(
    "koord_webhook_failures_total",
    "Failures of the loops beside the serving, by loop (registration, certificate, namespace, reading).",
    ["loop"],
)

BY_STATUS = {status: REQUESTS.labels(str(status)) for status in HTTP_STATUSES}
BY_DECISION = {
    (operation, is_allowed, reason): DECISIONS.labels(operation, "allowed" if is_allowed else "refused", reason.value)
    for operation in OPERATIONS
    for is_allowed in (True, False)
    for reason in Reason
}
BY_VERDICT = {verdict: OUTCOMES.labels(verdict.value) for verdict in (Verdict.APPLIED, Verdict.LOST_DRAW)}


def count_decision(operation: str, is_allowed: bool, reason: Reason) -> None:
    """Count one decision; an operation that Kubernetes does not know counts as "other"."""
    child = BY_DECISION.get((operation, is_allowed, reason)) or BY_DECISION[OTHER_OPERATION, is_allowed, reason]
    child.inc()


for _reason in ("too-many", "no-headers"):
    CONNECTIONS_CLOSED.labels(_reason)
for _loop in ("registration", "certificate", "namespace", "reading"):
    FAILURES.labels(_loop)
