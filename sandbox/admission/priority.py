"""Priority admission: spec.priority and preemptionPolicy follow from spec.priorityClassName.

Runs before the mutating webhooks and again after them, and refuses a pod whose numbers disagree
with its class. It also keeps the number of global default classes at one.
"""

from dataclasses import dataclass
from typing import Final

from sandbox.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest, JsonObject, Reader
from sandbox.apiserver.status import forbidden

GROUP: Final = "scheduling.k8s.io"
PLURAL: Final = "priorityclasses"
BUILT_IN: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
PREEMPT_LOWER: Final = "PreemptLowerPriority"


@dataclass(frozen=True)
class _Resolved:
    class_name: str
    value: int
    policy: str


def admit_priority(request: AdmissionRequest, obj: JsonObject | None, reader: Reader) -> None:
    """Resolve a pod's class into `obj`, in place; check a PriorityClass. Raises StatusError 403."""
    if obj is None or request.subresource or request.operation == DELETE:
        return
    if (request.kind.group, request.kind.plural) == (GROUP, PLURAL):
        _check_single_default(obj, reader)
    elif (request.kind.group, request.kind.plural) == ("", "pods"):
        spec = obj["spec"]
        if request.operation == CREATE:
            _admit_new(spec, _resolve(spec, obj, reader), _shown_name(obj))
        elif request.operation == UPDATE:
            _keep_old(spec, (request.old_object or {}).get("spec") or {})


def _shown_name(pod: JsonObject) -> str:
    metadata = pod.get("metadata") or {}
    return str(metadata.get("name") or metadata.get("generateName") or "")


def _resolve(spec: JsonObject, pod: JsonObject, reader: Reader) -> _Resolved:
    name = spec.get("priorityClassName") or ""
    if not name:
        return _default_class(reader)
    found = reader.read(GROUP, PLURAL, "", name)
    if found is not None:
        return _Resolved(name, int(found.get("value", 0)), found.get("preemptionPolicy") or PREEMPT_LOWER)
    if name in BUILT_IN:
        return _Resolved(name, BUILT_IN[name], PREEMPT_LOWER)
    raise forbidden("", "pods", _shown_name(pod), f"no PriorityClass with name {name} was found")


def _default_class(reader: Reader) -> _Resolved:
    """The global default with the lowest value, as the API server breaks a tie; else plain zero."""
    defaults = [item for item in reader.read_all(GROUP, PLURAL) if item.get("globalDefault")]
    if not defaults:
        return _Resolved("", 0, PREEMPT_LOWER)
    lowest = min(defaults, key=lambda item: int(item.get("value", 0)))
    policy = lowest.get("preemptionPolicy") or PREEMPT_LOWER
    return _Resolved(lowest["metadata"]["name"], int(lowest.get("value", 0)), policy)


def _admit_new(spec: JsonObject, resolved: _Resolved, shown_name: str) -> None:
    given = spec.get("priority")
    if given is not None and given != resolved.value:
        raise forbidden(
            "", "pods", shown_name,
            f"the integer value of priority ({given}) must not be provided in pod spec; priority admission "
            f"controller computed {resolved.value} from the given PriorityClass name",
        )  # fmt: skip
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy != resolved.policy:
        raise forbidden(
            "", "pods", shown_name,
            f"the string value of PreemptionPolicy ({policy}) must not be provided in pod spec; priority admission "
            f"controller computed {resolved.policy} from the given PriorityClass name",
        )  # fmt: skip
    if resolved.class_name:
        spec["priorityClassName"] = resolved.class_name
    spec["priority"] = resolved.value
    spec["preemptionPolicy"] = resolved.policy


def _keep_old(spec: JsonObject, old_spec: JsonObject) -> None:
    for key in ("priority", "preemptionPolicy"):
        if spec.get(key) is None and old_spec.get(key) is not None:
            spec[key] = old_spec[key]


def _check_single_default(obj: JsonObject, reader: Reader) -> None:
    if not obj.get("globalDefault"):
        return
    name = obj["metadata"].get("name")
    for other in reader.read_all(GROUP, PLURAL):
        if other.get("globalDefault") and other["metadata"]["name"] != name:
            raise forbidden(
                GROUP, PLURAL, name or "",
                f"PriorityClass {other['metadata']['name']} is already marked as default. "
                "Only one default can exist",
            )  # fmt: skip
