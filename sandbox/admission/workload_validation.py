"""Validation of workloads, budgets, classes and other built-in kinds, beyond their metadata. Pure."""

import re
from typing import Final

import msgspec

from koord.api.selectors import InvalidSelector, LabelSelector, compile_selector
from sandbox.admission.fields import FieldError, FieldErrorKind, forbidden, invalid, required, unsupported
from sandbox.admission.metadata_validation import (
    label_problem,
    label_value_problem,
    qualified_name_problem,
    validate_annotations,
    validate_labels,
)
from sandbox.admission.pod_validation import RESTART_POLICIES, validate_pod_spec
from sandbox.admission.request import JsonObject
from sandbox.admission.resource_validation import validate_node_amounts
from sandbox.admission.scheduling_validation import EFFECTS, validate_selector

_PERCENT = re.compile(r"[0-9]+%")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PERCENT_RULE: Final = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%')"
)
_CONFIG_KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_COUNTS: Final = ("replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
_CRON_FIELDS: Final = (5, 6)
MAX_USER_PRIORITY: Final = 1_000_000_000
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_UNHEALTHY: Final = ("AlwaysAllow", "IfHealthyBudget")
IMMUTABLE: Final = "field is immutable"


def validate_template(template: JsonObject, path: str, restart_policies: tuple[str, ...]) -> list[FieldError]:
    """A pod template, and the restart policies that its owner can live with."""
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    errors = validate_labels(metadata.get("labels"), f"{path}.metadata.labels")
    errors += validate_annotations(metadata.get("annotations"), f"{path}.metadata.annotations")
    errors += validate_pod_spec(spec, f"{path}.spec")
    policy = spec.get("restartPolicy")
    if policy not in restart_policies and policy in RESTART_POLICIES and len(restart_policies) > 1:
        valid = ", ".join(f'"{allowed}"' for allowed in restart_policies)
        errors.append(required(f"{path}.spec.restartPolicy", f"valid values: {valid}"))
    elif policy not in restart_policies:
        errors.append(unsupported(f"{path}.spec.restartPolicy", policy, restart_policies))
    return errors


def validate_replicated(obj: JsonObject, word: str = "deployment") -> list[FieldError]:
    """ReplicaSets and their like: a selector that finds the template's pods. `word` names the kind in errors."""
    spec = obj.get("spec") or {}
    errors = _natural(spec, _COUNTS, "spec")
    template = spec.get("template") or {}
    errors += _validate_own_selector(spec.get("selector"), template, word)
    errors += validate_template(template, "spec.template", ("Always",))
    return errors


def validate_replicated_update(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """The selector of a workload never changes."""
    selector = (obj.get("spec") or {}).get("selector")
    if selector != (old.get("spec") or {}).get("selector"):
        return [invalid("spec.selector", selector, IMMUTABLE)]
    return []


def validate_deployment(obj: JsonObject) -> list[FieldError]:
    """A Deployment's own parts and those of every replicated workload."""
    strategy = (obj.get("spec") or {}).get("strategy") or {}
    errors = validate_replicated(obj)
    kind = strategy.get("type")
    if kind not in ("Recreate", "RollingUpdate"):
        errors.append(unsupported("spec.strategy", strategy, ("Recreate", "RollingUpdate")))
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate" and rolling is not None:
        detail = "may not be specified when strategy `type` is 'Recreate'"
        errors.append(forbidden("spec.strategy.rollingUpdate", detail))
    elif rolling:
        path = "spec.strategy.rollingUpdate"
        errors += _int_or_percent(rolling.get("maxUnavailable"), f"{path}.maxUnavailable", most_percent=100)
        errors += _int_or_percent(rolling.get("maxSurge"), f"{path}.maxSurge")
        if not errors and _is_zero(rolling.get("maxUnavailable")) and _is_zero(rolling.get("maxSurge")):
            detail = "may not be 0 when `maxSurge` is 0"
            errors.append(invalid(f"{path}.maxUnavailable", rolling.get("maxUnavailable"), detail))
    return errors


def validate_stateful_set(obj: JsonObject) -> list[FieldError]:
    """A StatefulSet."""
    errors = validate_replicated(obj, "statefulset")
    policy = (obj.get("spec") or {}).get("podManagementPolicy")
    if policy not in ("OrderedReady", "Parallel"):
        errors.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    return errors


def validate_daemon_set(obj: JsonObject) -> list[FieldError]:
    """A DaemonSet."""
    return validate_replicated(obj, "daemonset")


def validate_job(obj: JsonObject) -> list[FieldError]:
    """A Job."""
    return _validate_job_spec(obj.get("spec") or {}, "spec")


def validate_job_update(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """A Job's selector, template and completions are fixed once it exists, unless it never ran."""
    spec, old_spec = obj.get("spec") or {}, old.get("spec") or {}
    fixed = ["selector", "completionMode"]
    suspended = old_spec.get("suspend") and not (old.get("status") or {}).get("startTime")
    if not suspended:
        fixed += ["template", "completions"]
    return [invalid(f"spec.{key}", spec.get(key), IMMUTABLE) for key in fixed if spec.get(key) != old_spec.get(key)]


def validate_job_status(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """A Job ends only when its pods have ended and been counted; counters never go back."""
    status, old_status = obj.get("status") or {}, old.get("status") or {}
    errors = [
        invalid(f"status.{key}", status.get(key, 0), f"cannot decrease the {key} counter")
        for key in ("failed", "succeeded")
        if status.get(key, 0) < old_status.get(key, 0)
    ]
    true = {entry["type"] for entry in status.get("conditions") or () if entry.get("status") == "True"}
    for final, announcement in (("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")):
        if final in true and announcement not in true:
            detail = f"cannot set {final}=True condition without the {announcement}=true condition"
            errors.append(FieldError(FieldErrorKind.INVALID, "status.conditions", None, detail))
    if true & {"Complete", "Failed"}:
        errors += [
            invalid(f"status.{key}", status[key], f"{key}>0 is invalid for finished job")
            for key in ("active", "terminating")
            if status.get(key)
        ]
        if any((status.get("uncountedTerminatedPods") or {}).values()):
            path = "status.uncountedTerminatedPods"
            errors.append(invalid(path, status["uncountedTerminatedPods"], "must be empty for finished job"))
    return errors


def validate_cron_job(obj: JsonObject) -> list[FieldError]:
    """A CronJob."""
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    schedule = spec.get("schedule") or ""
    if not schedule:
        errors.append(required("spec.schedule"))
    elif not schedule.startswith("@") and len(schedule.split()) not in _CRON_FIELDS:
        detail = f"expected exactly 5 fields, found {len(schedule.split())}: [{schedule}]"
        errors.append(invalid("spec.schedule", schedule, detail))
    policy = spec.get("concurrencyPolicy")
    if policy not in ("Allow", "Forbid", "Replace"):
        errors.append(unsupported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace")))
    errors += _validate_job_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")
    return errors


def validate_budget(obj: JsonObject) -> list[FieldError]:
    """A PodDisruptionBudget."""
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        errors.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
    for key in ("minAvailable", "maxUnavailable"):
        errors += _int_or_percent(spec.get(key), f"spec.{key}", most_percent=100)
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _UNHEALTHY:
        errors.append(unsupported("spec.unhealthyPodEvictionPolicy", policy, _UNHEALTHY))
    errors += validate_selector(spec.get("selector"), "spec.selector")
    return errors


def validate_priority_class(obj: JsonObject) -> list[FieldError]:
    """A PriorityClass."""
    name, value = (obj.get("metadata") or {}).get("name") or "", obj.get("value") or 0
    errors: list[FieldError] = []
    if name.startswith("system-") and name not in ("system-node-critical", "system-cluster-critical"):
        detail = "priority class names with 'system-' prefix are reserved for system use only. error: "
        errors.append(forbidden("metadata.name", f"{detail}{name} is not a known system priority class"))
    elif value > MAX_USER_PRIORITY and not name.startswith("system-"):
        detail = f"maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}"
        errors.append(forbidden("value", detail))
    policy = obj.get("preemptionPolicy")
    if policy is not None and policy not in _PREEMPTION:
        errors.append(unsupported("preemptionPolicy", policy, _PREEMPTION))
    return errors


def validate_priority_class_update(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Value and policy are fixed: pods carry copies of them."""
    errors = []
    if (obj.get("value") or 0) != (old.get("value") or 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    if obj.get("preemptionPolicy") != old.get("preemptionPolicy"):
        errors.append(invalid("preemptionPolicy", obj.get("preemptionPolicy"), IMMUTABLE))
    return errors


def validate_service(obj: JsonObject) -> list[FieldError]:
    """A Service's type, ports and selector."""
    spec = obj.get("spec") or {}
    kinds = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
    errors: list[FieldError] = []
    if spec.get("type") not in kinds:
        errors.append(unsupported("spec.type", spec.get("type"), kinds))
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        errors.append(required("spec.ports"))
    for index, port in enumerate(ports):
        here = f"spec.ports[{index}]"
        name = port.get("name") or ""
        if not name and len(ports) > 1:
            errors.append(required(f"{here}.name"))
        elif name and (problem := label_problem(name)):
            errors.append(invalid(f"{here}.name", name, problem))
        if not 1 <= (port.get("port") or 0) <= 65535:
            errors.append(invalid(f"{here}.port", port.get("port", 0), "must be between 1 and 65535, inclusive"))
    errors += validate_labels(spec.get("selector"), "spec.selector")
    return errors


def validate_data_keys(obj: JsonObject) -> list[FieldError]:
    """Keys of ConfigMaps and Secrets."""
    return [
        invalid(f"{part}[{key}]", key, problem)
        for part in ("data", "binaryData", "stringData")
        for key in obj.get(part) or {}
        if (problem := _key_problem(key))
    ]


def _key_problem(key: str) -> str:
    if len(key) > 253:
        return "must be no more than 253 characters"
    if key in (".", ".."):
        return f"must not be '{key}'"
    return "" if _CONFIG_KEY.fullmatch(key) else _CONFIG_KEY_RULE


def validate_data_update(obj: JsonObject, old: JsonObject) -> list[FieldError]:
    """Nothing changes in an object that was declared immutable."""
    if not old.get("immutable"):
        return []
    errors = []
    if not obj.get("immutable"):
        errors.append(forbidden("immutable", "field is immutable when `immutable` is set"))
    changed = [part for part in ("data", "binaryData") if obj.get(part) != old.get(part)]
    return errors + [forbidden(part, "field is immutable when `immutable` is set") for part in changed]


def validate_node(obj: JsonObject) -> list[FieldError]:
    """A Node's taints and amounts. The API server tells of taints as if they were in metadata."""
    errors: list[FieldError] = []
    seen: list[tuple[str, str]] = []
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or ()):
        here = f"metadata.taints[{index}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        if problem := qualified_name_problem(key):
            errors.append(invalid(f"{here}.key", key, problem))
        if problem := label_value_problem(taint.get("value") or ""):
            errors.append(invalid(f"{here}.value", taint["value"], problem))
        if not effect:
            errors.append(required(f"{here}.effect"))
        elif effect not in EFFECTS:
            errors.append(unsupported(f"{here}.effect", effect, EFFECTS))
        if (key, effect) in seen:
            detail = "taints must be unique by key and effect pair"
            errors.append(FieldError(FieldErrorKind.DUPLICATE, here, taint, detail))
        seen.append((key, effect))
    status = obj.get("status") or {}
    for part in ("capacity", "allocatable"):
        errors += validate_node_amounts(status.get(part) or {}, f"status.{part}")
    return errors


def _validate_job_spec(spec: JsonObject, path: str) -> list[FieldError]:
    errors = _natural(spec, ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"), path)
    if spec.get("selector") is not None:
        errors += validate_selector(spec["selector"], f"{path}.selector")
    mode = spec.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        errors.append(unsupported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed" and spec.get("completions") is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    errors += validate_template(spec.get("template") or {}, f"{path}.template", ("OnFailure", "Never"))
    return errors


def _validate_own_selector(selector: JsonObject | None, template: JsonObject, word: str) -> list[FieldError]:
    labels = (template.get("metadata") or {}).get("labels") or {}
    mismatch = invalid("spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`")
    if selector is None:
        return [required("spec.selector"), mismatch]
    errors = validate_selector(selector, "spec.selector")
    if errors:
        return [*errors, invalid("spec.selector", selector, "invalid label selector")]
    parsed = msgspec.convert(selector, LabelSelector)
    if parsed.is_empty():
        return [invalid("spec.selector", selector, f"empty selector is invalid for {word}")]
    try:
        matches = compile_selector(parsed).matches(labels)
    except InvalidSelector as error:
        return [invalid("spec.selector", selector, str(error))]
    return [] if matches else [mismatch]


def _natural(spec: JsonObject, keys: tuple[str, ...], path: str) -> list[FieldError]:
    return [
        invalid(f"{path}.{key}", spec[key], "must be greater than or equal to 0")
        for key in keys
        if spec.get(key) is not None and spec[key] < 0
    ]


def _int_or_percent(value: int | str | None, path: str, *, most_percent: int | None = None) -> list[FieldError]:
    if value is None:
        return []
    if isinstance(value, int):
        return [invalid(path, value, "must be greater than or equal to 0")] if value < 0 else []
    if not _PERCENT.fullmatch(value):
        return [invalid(path, value, _PERCENT_RULE)]
    if most_percent is not None and int(value[:-1]) > most_percent:
        return [invalid(path, value, f"must not be greater than {most_percent}%")]
    return []


def _is_zero(value: int | str | None) -> bool:
    return value in (0, "0%")
