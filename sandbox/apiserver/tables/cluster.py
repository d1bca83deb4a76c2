"""How the core group's kinds but pods are printed. Pure."""

from collections.abc import Sequence
from typing import Any

from sandbox.apiserver.tables.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Layout,
    age,
    labels_text,
    member,
    name_of,
    since,
    wide,
)

JsonObject = dict[str, Any]

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _node(node: JsonObject, now: float) -> Sequence[object]:
    addresses = {entry.get("type"): entry.get("address") for entry in member(node, "status", "addresses") or ()}
    info = member(node, "status", "nodeInfo") or {}
    return (
        name_of(node),
        _node_status(node),
        _roles(node),
        age(node, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    )


def _node_status(node: JsonObject) -> str:
    ready = [entry for entry in member(node, "status", "conditions") or () if entry.get("type") == "Ready"]
    words = ["Ready" if entry.get("status") == "True" else "NotReady" for entry in ready] or ["Unknown"]
    if member(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(node: JsonObject) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    if labels.get(_ROLE_LABEL):
        roles.add(labels[_ROLE_LABEL])
    return ",".join(sorted(role for role in roles if role)) or NONE


def _namespace(namespace: JsonObject, now: float) -> Sequence[object]:
    return name_of(namespace), member(namespace, "status", "phase"), age(namespace, now)


def _service(service: JsonObject, now: float) -> Sequence[object]:
    spec = service.get("spec") or {}
    kind = spec.get("type", "ClusterIP")
    return (
        name_of(service),
        kind,
        spec.get("clusterIP") or NONE,
        _external(service, kind),
        _ports(spec),
        age(service, now),
        labels_text(spec.get("selector")),
    )


def _external(service: JsonObject, kind: str) -> str:
    spec = service.get("spec") or {}
    given = ",".join(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return spec.get("externalName") or NONE
    if kind == "LoadBalancer":
        ingress = member(service, "status", "loadBalancer", "ingress") or ()
        found = ",".join(entry.get("ip") or entry.get("hostname") or "" for entry in ingress)
        return ",".join(text for text in (found, given) if text) or "<pending>"
    return given or NONE


def _ports(spec: JsonObject) -> str:
    texts = []
    for port in spec.get("ports") or ():
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or NONE


def _endpoints(document: JsonObject, now: float) -> Sequence[object]:
    texts = []
    for subset in document.get("subsets") or ():
        ports = [entry.get("port") for entry in subset.get("ports") or ()] or [None]
        for address in subset.get("addresses") or ():
            texts += [f"{address.get('ip')}:{port}" if port else address.get("ip", "") for port in ports]
    shown = ",".join(texts[:3]) + (f" + {len(texts) - 3} more..." if len(texts) > 3 else "")
    return name_of(document), shown or NONE, age(document, now)


def _config_map(document: JsonObject, now: float) -> Sequence[object]:
    count = len(document.get("data") or {}) + len(document.get("binaryData") or {})
    return name_of(document), count, age(document, now)


def _secret(document: JsonObject, now: float) -> Sequence[object]:
    return name_of(document), document.get("type", ""), len(document.get("data") or {}), age(document, now)


def _event(event: JsonObject, now: float) -> Sequence[object]:
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime")
    last = (
        member(event, "series", "lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("deprecatedLastTimestamp")
        or first
    )
    involved = event.get("involvedObject") or event.get("regarding") or {}
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    count = member(event, "series", "count") or event.get("count") or event.get("deprecatedCount") or 1
    host = source.get("host") or event.get("reportingInstance") or ""
    return (
        since(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}",
        involved.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (event.get("message") or event.get("note") or "").strip(),
        since(first, now),
        count,
        name_of(event),
    )


def _volume(document: JsonObject, now: float) -> Sequence[object]:
    spec, claim = document.get("spec") or {}, member(document, "spec", "claimRef") or {}
    return (
        name_of(document),
        member(spec, "capacity", "storage") or "",
        _access(spec),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _terminating(document, member(document, "status", "phase")),
        f"{claim.get('namespace')}/{claim.get('name')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        member(document, "status", "reason") or "",
        age(document, now),
        spec.get("volumeMode") or UNSET,
    )


def _claim(document: JsonObject, now: float) -> Sequence[object]:
    spec, bound = document.get("spec") or {}, member(document, "spec", "volumeName")
    return (
        name_of(document),
        _terminating(document, member(document, "status", "phase")),
        bound or "",
        (member(document, "status", "capacity", "storage") or "") if bound else "",
        _access(document.get("status") or {}) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        age(document, now),
        spec.get("volumeMode") or UNSET,
    )


def _access(holder: JsonObject) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in holder.get("accessModes") or ())


def _terminating(document: JsonObject, phase: object) -> object:
    return "Terminating" if document["metadata"].get("deletionTimestamp") else phase


def _quota(document: JsonObject, now: float) -> Sequence[object]:
    requests: list[str] = []
    limits: list[str] = []
    hard, used = member(document, "status", "hard") or {}, member(document, "status", "used") or {}
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return name_of(document), ", ".join(requests), ", ".join(limits), age(document, now)


LAYOUTS: dict[tuple[str, str], Layout] = {
    ("", "nodes"): Layout(
        (
            NAME,
            Column("Status"),
            Column("Roles"),
            AGE,
            Column("Version"),
            wide("Internal-IP"),
            wide("External-IP"),
            wide("OS-Image"),
            wide("Kernel-Version"),
            wide("Container-Runtime"),
        ),
        _node,
    ),
    ("", "namespaces"): Layout((NAME, Column("Status"), AGE), _namespace),
    ("", "services"): Layout(
        (NAME, Column("Type"), Column("Cluster-IP"), Column("External-IP"), Column("Port(s)"), AGE, wide("Selector")),
        _service,
    ),
    ("", "endpoints"): Layout((NAME, Column("Endpoints"), AGE), _endpoints),
    ("", "configmaps"): Layout((NAME, Column("Data", "integer"), AGE), _config_map),
    ("", "secrets"): Layout((NAME, Column("Type"), Column("Data", "integer"), AGE), _secret),
    ("", "events"): Layout(
        (
            Column("Last Seen"),
            Column("Type"),
            Column("Reason"),
            Column("Object"),
            wide("Subobject"),
            wide("Source"),
            Column("Message"),
            wide("First Seen"),
            Column("Count", "integer", priority=1),
            Column("Name", format="name", priority=1),
        ),
        _event,
    ),
    ("", "persistentvolumes"): Layout(
        (
            NAME,
            Column("Capacity"),
            Column("Access Modes"),
            Column("Reclaim Policy"),
            Column("Status"),
            Column("Claim"),
            Column("StorageClass"),
            Column("VolumeAttributesClass"),
            Column("Reason"),
            AGE,
            wide("VolumeMode"),
        ),
        _volume,
    ),
    ("", "persistentvolumeclaims"): Layout(
        (
            NAME,
            Column("Status"),
            Column("Volume"),
            Column("Capacity"),
            Column("Access Modes"),
            Column("StorageClass"),
            Column("VolumeAttributesClass"),
            AGE,
            wide("VolumeMode"),
        ),
        _claim,
    ),
    ("", "resourcequotas"): Layout((NAME, Column("Request"), Column("Limit"), AGE), _quota),
}
LAYOUTS["events.k8s.io", "events"] = LAYOUTS["", "events"]
