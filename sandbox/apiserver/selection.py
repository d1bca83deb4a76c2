"""Label and field selectors of a request, compiled to one predicate over documents. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from koord.api import selectors
from sandbox.apiserver import jsonpath, status
from sandbox.apiserver.kinds import Kind

JsonObject = dict[str, Any]
Field = Callable[[JsonObject], str]


def _path(*keys: str) -> Field:
    def read(document: JsonObject) -> str:
        found: Any = document
        for key in keys:
            if not isinstance(found, dict):
                return ""
            found = found.get(key)
        return _text(found)

    return read


def _text(found: object) -> str:
    if found is None:
        return ""
    if isinstance(found, bool):
        return "true" if found else "false"
    return str(found)


_INVOLVED = {
    f"involvedObject.{member}": _path("involvedObject", member)
    for member in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
}
_REGARDING = {
    f"regarding.{member}": _path("involvedObject", member)
    for member in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
}
_EVENT = {
    "reason": _path("reason"),
    "type": _path("type"),
    "source": lambda document: (
        _text((document.get("source") or {}).get("component")) or _text(document.get("reportingComponent"))
    ),
    "reportingComponent": _path("reportingComponent"),
}
_FIELDS: dict[tuple[str, str], dict[str, Field]] = {
    ("", "pods"): {
        "spec.nodeName": _path("spec", "nodeName"),
        "spec.restartPolicy": _path("spec", "restartPolicy"),
        "spec.schedulerName": _path("spec", "schedulerName"),
        "spec.serviceAccountName": _path("spec", "serviceAccountName"),
        "spec.hostNetwork": lambda document: "true" if (document.get("spec") or {}).get("hostNetwork") else "false",
        "status.phase": _path("status", "phase"),
        "status.podIP": _path("status", "podIP"),
        "status.nominatedNodeName": _path("status", "nominatedNodeName"),
    },
    ("", "nodes"): {
        "spec.unschedulable": lambda document: _text((document.get("spec") or {}).get("unschedulable") or False)
    },
    ("", "namespaces"): {"status.phase": _path("status", "phase")},
    ("", "secrets"): {"type": _path("type")},
    ("", "services"): {"spec.clusterIP": _path("spec", "clusterIP"), "spec.type": _path("spec", "type")},
    ("", "replicationcontrollers"): {"status.replicas": _path("status", "replicas")},
    ("", "events"): {**_INVOLVED, **_EVENT},
    ("events.k8s.io", "events"): {**_REGARDING, **_EVENT, "reportingController": _path("reportingComponent")},
    ("apps", "replicasets"): {"status.replicas": _path("status", "replicas")},
    ("batch", "jobs"): {
        "status.successful": lambda document: _text((document.get("status") or {}).get("succeeded", 0))
    },
}


@dataclass(frozen=True)
class Selection:
    """A compiled pair of selectors. `name` is the object that metadata.name pins down, "" for none."""

    labels: selectors.Selector | None
    fields: tuple[tuple[Field, bool, str], ...]
    name: str = ""

    @property
    def everything(self) -> bool:
        """Whether nothing is filtered out."""
        return self.labels is None and not self.fields

    def matches(self, document: JsonObject) -> bool:
        """Whether a stored document is selected."""
        for read, equal, wanted in self.fields:
            if (read(document) == wanted) is not equal:
                return False
        return self.labels is None or self.labels.matches(document["metadata"].get("labels") or {})


def compile_selection(kind: Kind, label_selector: str, field_selector: str) -> Selection:
    """Compile the texts of a request. Raises StatusError 400 for what cannot be parsed or is not supported."""
    labels = None
    if label_selector:
        try:
            labels = selectors.parse_selector_text(label_selector)
        except selectors.InvalidSelector as error:
            raise status.bad_request(f"unable to parse requirement: {error}") from None
    terms = parse_fields(field_selector)
    fields = []
    name = ""
    for key, equal, wanted in terms:
        fields.append((_field(kind, key), equal, wanted))
        if key == "metadata.name" and equal:
            name = wanted
    return Selection(labels, tuple(fields), name)


def _field(kind: Kind, key: str) -> Field:
    if key == "metadata.name":
        return _path("metadata", "name")
    if key == "metadata.namespace" and kind.namespaced:
        return _path("metadata", "namespace")
    read = _FIELDS.get((kind.group, kind.plural), {}).get(key)
    if read is None and f".{key}" in kind.selectable_fields:
        path = jsonpath.compile_path(f".{key}")
        return lambda document: _text(next(iter(path(document)), None))
    if read is None:
        raise status.bad_request(f"field label not supported: {key}")
    return read


def parse_fields(text: str) -> list[tuple[str, bool, str]]:
    """Terms (field, equal, value) of a field selector. Raises StatusError 400."""
    terms = []
    for part in _split(text):
        for operator, equal in (("!=", False), ("==", True), ("=", True)):
            key, found, value = part.partition(operator)
            if found:
                terms.append((key.strip(), equal, _unescape(value)))
                break
        else:
            raise status.bad_request(f"invalid field selector: {part!r}; can't understand it")
    return terms


def _split(text: str) -> list[str]:
    parts, current, escaped = [], "", False
    for char in text:
        if char == "," and not escaped:
            parts.append(current)
            current = ""
            continue
        escaped = char == "\\" and not escaped
        current += char
    parts.append(current)
    return [part for part in parts if part.strip()]


def _unescape(text: str) -> str:
    return text.replace("\\,", ",").replace("\\=", "=").replace("\\\\", "\\")
