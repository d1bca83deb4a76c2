"""Validation of pods and pod templates with the API server's rules and words. Pure.

Documents have been decoded before: JSON types are right, only values can be wrong.
"""

import copy
from typing import Final

from sandbox.admission.container_validation import validate_containers
from sandbox.admission.fields import FieldError, duplicate, forbidden, invalid, required, unsupported
from sandbox.admission.metadata_validation import (
    label_problem,
    qualified_name_problem,
    subdomain_problem,
    validate_labels,
)
from sandbox.admission.request import JsonObject
from sandbox.admission.resource_validation import validate_overhead, validate_pod_level
from sandbox.admission.scheduling_validation import validate_affinity, validate_tolerations

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_SUBDOMAINS: Final = ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName", "schedulerName")
_LABELS: Final = ("hostname", "subdomain")
_UPDATE_RULE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def validate_pod(pod: JsonObject) -> list[FieldError]:
    """A whole new pod, beyond its metadata."""
    return validate_pod_spec(pod.get("spec") or {}, "spec")


def validate_pod_spec(spec: JsonObject, path: str) -> list[FieldError]:
    """A pod spec at `path` (spec, or spec.template.spec)."""
    volumes, errors = _validate_volumes(spec.get("volumes") or [], f"{path}.volumes")
    errors += validate_containers(spec, path, volumes)
    errors += _validate_choices(spec, path)
    errors += _validate_names(spec, path)
    errors += validate_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    errors += validate_tolerations(spec.get("tolerations") or [], f"{path}.tolerations")
    errors += validate_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    errors += _validate_spread(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")
    errors += validate_pod_level(spec.get("resources") or {}, f"{path}.resources")
    errors += validate_overhead(spec.get("overhead") or {}, f"{path}.overhead")
    return errors


def validate_pod_update(pod: JsonObject, old: JsonObject) -> list[FieldError]:
    """An update of the pod itself: nearly all of the spec is fixed once it is made."""
    spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    errors = _validate_update_of_tolerations(spec, old_spec)
    errors += _validate_update_of_deadline(spec, old_spec)
    plain = _with_mutable_parts(spec, old_spec)
    changed = sorted(key for key in {*plain, *old_spec} if plain.get(key) != old_spec.get(key))
    if changed:
        errors.append(forbidden("spec", f"{_UPDATE_RULE}: changed: {', '.join(changed)}"))
    return errors


def _with_mutable_parts(spec: JsonObject, old: JsonObject) -> JsonObject:
    """The new spec with everything that may change set back to the old values."""
    plain = copy.deepcopy(spec)
    for key in ("containers", "initContainers"):
        for container, old_container in zip(plain.get(key) or (), old.get(key) or (), strict=False):
            container["image"] = old_container.get("image")
    for key in ("activeDeadlineSeconds", "tolerations"):
        _set_back(plain, old, key)
    if (old.get("terminationGracePeriodSeconds") or 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        _set_back(plain, old, "terminationGracePeriodSeconds")
    gates, old_gates = spec.get("schedulingGates") or [], old.get("schedulingGates") or []
    if all(gate in old_gates for gate in gates):
        _set_back(plain, old, "schedulingGates")
    if "ephemeralContainers" in old:
        _set_back(plain, old, "ephemeralContainers")
    return plain


def _set_back(spec: JsonObject, old: JsonObject, key: str) -> None:
    spec.pop(key, None)
    if key in old:
        spec[key] = old[key]


def _validate_update_of_tolerations(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    kept = [_without_seconds(toleration) for toleration in spec.get("tolerations") or ()]
    missing = [item for item in old.get("tolerations") or () if _without_seconds(item) not in kept]
    if missing:
        return [forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")]
    return validate_tolerations(spec.get("tolerations") or [], "spec.tolerations")


def _without_seconds(toleration: JsonObject) -> JsonObject:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _validate_update_of_deadline(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    new_s, old_s = spec.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    if old_s is not None and (new_s is None or new_s > old_s):
        return [invalid("spec.activeDeadlineSeconds", new_s, "must be less than or equal to previous value")]
    return []


def _validate_choices(spec: JsonObject, path: str) -> list[FieldError]:
    errors = []
    for key, allowed in (
        ("restartPolicy", RESTART_POLICIES),
        ("dnsPolicy", _DNS_POLICIES),
        ("preemptionPolicy", _PREEMPTION_POLICIES),
    ):
        value = spec.get(key)
        if value is not None and value not in allowed:
            errors.append(unsupported(f"{path}.{key}", value, allowed))
    deadline_s = spec.get("activeDeadlineSeconds")
    if deadline_s is not None and not 1 <= deadline_s <= 2**31 - 1:
        detail = "must be between 1 and 2147483647, inclusive"
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline_s, detail))
    return errors


def _validate_names(spec: JsonObject, path: str) -> list[FieldError]:
    rules = dict.fromkeys(_SUBDOMAINS, subdomain_problem) | dict.fromkeys(_LABELS, label_problem)
    errors = [
        invalid(f"{path}.{key}", spec[key], problem)
        for key, rule in rules.items()
        if spec.get(key) and (problem := rule(spec[key]))
    ]
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if problem := qualified_name_problem(gate.get("name") or ""):
            errors.append(invalid(f"{path}.schedulingGates[{index}]", gate.get("name", ""), problem))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared"))
    return errors


def _validate_volumes(volumes: list[JsonObject], path: str) -> tuple[set[str], list[FieldError]]:
    names: set[str] = set()
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        name, here = volume.get("name") or "", f"{path}[{index}]"
        if not name:
            errors.append(required(f"{here}.name"))
        elif problem := label_problem(name):
            errors.append(invalid(f"{here}.name", name, problem))
        elif name in names:
            errors.append(duplicate(f"{here}.name", name))
        names.add(name)
        extra = [key for key in volume if key != "name"][1:]
        errors += [forbidden(f"{here}.{key}", "may not specify more than 1 volume type") for key in extra]
    return names, errors


def _validate_spread(constraints: list[JsonObject], path: str) -> list[FieldError]:
    errors = []
    for index, constraint in enumerate(constraints):
        here = f"{path}[{index}]"
        if (constraint.get("maxSkew") or 0) <= 0:
            errors.append(invalid(f"{here}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
        if not constraint.get("topologyKey"):
            errors.append(required(f"{here}.topologyKey", "can not be empty"))
        action = constraint.get("whenUnsatisfiable") or ""
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            errors.append(unsupported(f"{here}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
    return errors
