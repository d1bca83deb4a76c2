"""ClusterColocationProfiles, judged when they are written: one that can never match, cannot be applied, or makes pods
that the API server or the pod rules refuse, is refused itself, with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from koord.api import names
from koord.api.objects import JsonObject, PriorityClass
from koord.api.priority import BANDS, band_of_value
from koord.api.profiles import ClusterColocationProfile, ClusterColocationProfileSpec
from koord.api.qos import QoSClass
from koord.api.selectors import LabelSelector, Requirement, key_problem, value_problem
from koord.api.strategic_merge import StrategicMergeError, merge_schema, strategic_merge
from webhook.judgement import ALLOWED, FieldError, Judgement, Reason, forbidden, invalid, refusal
from webhook.profiles import compile_profile
from webhook.validation.pods import BANDS_OF

_POD_SCHEMA = merge_schema("v1", "Pod")
_ANY_POD: JsonObject = {"metadata": {"name": "any"}, "spec": {"containers": [{"name": "any"}]}}


def judge_profile(
    new: ClusterColocationProfile,
    old: ClusterColocationProfile | None,
    classes: Mapping[str, PriorityClass],
) -> Judgement:
    """Judge a creation or an update; an update that leaves the spec as it was, or finishes a deletion, passes."""
    if old is not None and (new.spec == old.spec or new.metadata.deletion_timestamp is not None):
        return Judgement(True, Reason.UNCHANGED)
    spec, warnings = new.spec, tuple(_warnings(new.spec, classes))
    compiled = compile_profile(new)
    errors = [
        invalid(problem.field, str(problem.value), f"allowed: {problem.allowed}") for problem in compiled.problems
    ]
    errors += _selector_errors(spec)
    errors += _class_errors(spec, classes)
    errors += _map_errors(spec)
    if compiled.patch is not None and (problem := _patch_problem(compiled.patch)):
        errors.append(invalid("spec.patch", msgspec.json.encode(compiled.patch).decode(), problem))
    if errors:
        return refusal(Reason.INVALID_PROFILE, errors, warnings, code=422)
    return Judgement(True, Reason.VALID, warnings=warnings) if warnings else ALLOWED


def _selector_errors(spec: ClusterColocationProfileSpec) -> Iterator[FieldError]:
    for field, selector in (("namespaceSelector", spec.namespace_selector), ("selector", spec.selector)):
        if selector is not None and (problem := contradiction(selector)):
            yield forbidden(f"spec.{field}", f"matches nothing: {problem}")


def contradiction(selector: LabelSelector) -> str:
    """Why no labels at all can satisfy the selector, or ""."""
    wanted: dict[str, set[str]] = {key: {value} for key, value in (selector.match_labels or {}).items()}
    expressions = selector.match_expressions or ()
    for requirement in expressions:
        if requirement.operator == "In":
            values = set(requirement.values)
            wanted[requirement.key] = wanted.get(requirement.key, values) & values
    for requirement in expressions:
        if requirement.operator == "NotIn" and requirement.key in wanted:
            wanted[requirement.key] -= set(requirement.values)
    for key, values in wanted.items():
        if not values:
            return f"no value of label {key} satisfies all requirements"
    return _existence_contradiction(wanted.keys(), expressions)


def _existence_contradiction(valued: Iterable[str], expressions: tuple[Requirement, ...]) -> str:
    present = set(valued) | {one.key for one in expressions if one.operator == "Exists"}
    absent = {one.key for one in expressions if one.operator == "DoesNotExist"}
    both = sorted(present & absent)
    return f"label {both[0]} must be both present and absent" if both else ""


def _class_errors(spec: ClusterColocationProfileSpec, classes: Mapping[str, PriorityClass]) -> Iterator[FieldError]:
    if spec.qos_class and spec.qos_class not in tuple(QoSClass):
        yield invalid("spec.qosClass", spec.qos_class, f"allowed: {', '.join(QoSClass)}")
        return
    if spec.koordinator_priority is not None and spec.koordinator_priority < 0:
        detail = f"becomes label {names.LABEL_PRIORITY}, whose value cannot begin with a minus: 0 or above"
        yield invalid("spec.koordinatorPriority", str(spec.koordinator_priority), detail)
    found = classes.get(spec.priority_class_name)
    if not spec.qos_class or found is None:
        return
    qos, band = QoSClass(spec.qos_class), band_of_value(found.value)
    if qos in BANDS_OF and band not in BANDS_OF[qos]:
        ranges = " or ".join(f"{BANDS[one].lowest}-{BANDS[one].highest}" for one in BANDS_OF[qos])
        detail = f"value {found.value} does not go with qosClass {qos}: allowed: classes of value {ranges}"
        yield invalid("spec.priorityClassName", spec.priority_class_name, detail)


def _map_errors(spec: ClusterColocationProfileSpec) -> Iterator[FieldError]:
    for key, value in spec.labels.items():
        if problem := key_problem(key) or value_problem(value):
            yield invalid(f"spec.labels[{key}]", value, problem)
    for key in spec.annotations:
        if problem := key_problem(key.lower()):
            yield invalid("spec.annotations", key, problem)
    for field, mapping in (
        ("labelKeysMapping", spec.label_keys_mapping),
        ("annotationKeysMapping", spec.annotation_keys_mapping),
    ):
        for source, target in mapping.items():
            if problem := key_problem(source) or key_problem(target):
                yield invalid(f"spec.{field}[{source}]", target, problem)
    for key, suffix in spec.label_suffixes.items():
        if problem := key_problem(key) or value_problem(f"x{suffix}"):
            yield invalid(f"spec.labelSuffixes[{key}]", suffix, problem)


def _patch_problem(patch: JsonObject) -> str:
    """Why a pod cannot take the patch, tried on the least pod there is."""
    assert _POD_SCHEMA is not None
    try:
        strategic_merge(_ANY_POD, patch, _POD_SCHEMA)
    except StrategicMergeError as error:
        return str(error)
    return ""


def _warnings(spec: ClusterColocationProfileSpec, classes: Mapping[str, PriorityClass]) -> Iterator[str]:
    name = spec.priority_class_name
    if name and name not in classes:
        yield f"spec.priorityClassName: there is no PriorityClass {name}: matching pods are refused until there is"
    if spec.probability in (0, "0%"):
        yield "spec.probability: 0: the profile applies to no pod"
    if (spec.selector is None or spec.selector.is_empty()) and (
        spec.namespace_selector is None or spec.namespace_selector.is_empty()
    ):
        yield "spec: without selectors the profile applies to the pods of all namespaces but the protected ones"
