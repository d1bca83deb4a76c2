"""Validation of where a pod may go: tolerations and affinity; and of label selectors. Pure."""

from typing import Final

from sandbox.admission.fields import FieldError, forbidden, invalid, required, unsupported
from sandbox.admission.metadata_validation import (
    label_value_problem,
    qualified_name_problem,
    validate_labels,
)
from sandbox.admission.request import JsonObject

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_TERMS: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERENCES: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_selector(selector: JsonObject | None, path: str) -> list[FieldError]:
    """A label selector; absent is fine."""
    selector = selector or {}
    errors = validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        errors += _validate_requirement(requirement, f"{path}.matchExpressions[{index}]", _LABEL_OPERATORS)
    return errors


def validate_tolerations(tolerations: list[JsonObject], path: str) -> list[FieldError]:
    """Keys, operators, effects and seconds of tolerations."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        here = f"{path}[{index}]"
        key, value = toleration.get("key") or "", toleration.get("value") or ""
        operator, effect = toleration.get("operator") or "Equal", toleration.get("effect") or ""
        if key and (problem := qualified_name_problem(key)):
            errors.append(invalid(f"{here}.key", key, problem))
        if not key and operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            errors.append(invalid(f"{here}.operator", operator, detail))
        if operator not in ("Equal", "Exists"):
            errors.append(unsupported(f"{here}.operator", operator, ("Equal", "Exists")))
        elif operator == "Exists" and value:
            errors.append(invalid(f"{here}.operator", value, "value must be empty when `operator` is 'Exists'"))
        elif problem := label_value_problem(value):
            errors.append(invalid(f"{here}.operator", value, problem))
        if effect and effect not in EFFECTS:
            errors.append(unsupported(f"{here}.effect", effect, EFFECTS))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            errors.append(invalid(f"{here}.effect", effect, detail))
    return errors


def validate_affinity(affinity: JsonObject, path: str) -> list[FieldError]:
    """Node affinity, pod affinity and pod anti-affinity."""
    errors = _validate_node_affinity(affinity.get("nodeAffinity") or {}, f"{path}.nodeAffinity")
    for key in ("podAffinity", "podAntiAffinity"):
        errors += _validate_pod_affinity(affinity.get(key) or {}, f"{path}.{key}")
    return errors


def _validate_node_affinity(affinity: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    must = affinity.get(_TERMS)
    if must is not None:
        terms_path = f"{path}.{_TERMS}.nodeSelectorTerms"
        terms = must.get("nodeSelectorTerms") or []
        if not terms:
            errors.append(required(terms_path, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            errors += _validate_node_term(term, f"{terms_path}[{index}]")
    for index, preference in enumerate(affinity.get(_PREFERENCES) or ()):
        here = f"{path}.{_PREFERENCES}[{index}]"
        errors += _validate_weight(preference, here)
        errors += _validate_node_term(preference.get("preference") or {}, f"{here}.preference")
    return errors


def _validate_node_term(term: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        errors += _validate_requirement(requirement, f"{path}.matchExpressions[{index}]", _NODE_OPERATORS)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        here = f"{path}.matchFields[{index}]"
        operator = requirement.get("operator") or ""
        if operator not in ("In", "NotIn"):
            errors.append(invalid(f"{here}.operator", operator, "not a valid selector operator"))
        elif len(requirement.get("values") or ()) != 1:
            detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            errors.append(required(f"{here}.values", detail))
        if requirement.get("key") != "metadata.name":
            errors.append(invalid(f"{here}.key", requirement.get("key", ""), "not a valid field selector key"))
    return errors


def _validate_requirement(requirement: JsonObject, path: str, operators: tuple[str, ...]) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator not in operators:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif operator in ("In", "NotIn") and not values:
        errors.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(f"{path}.values", detail))
    elif operator in ("Gt", "Lt") and len(values) != 1:
        errors.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    if problem := qualified_name_problem(requirement.get("key") or ""):
        errors.append(invalid(f"{path}.key", requirement.get("key", ""), problem))
    return errors


def _validate_pod_affinity(affinity: JsonObject, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, term in enumerate(affinity.get(_TERMS) or ()):
        errors += _validate_pod_term(term, f"{path}.{_TERMS}[{index}]")
    for index, preference in enumerate(affinity.get(_PREFERENCES) or ()):
        here = f"{path}.{_PREFERENCES}[{index}]"
        errors += _validate_weight(preference, here)
        errors += _validate_pod_term(preference.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")
    return errors


def _validate_pod_term(term: JsonObject, path: str) -> list[FieldError]:
    errors = validate_selector(term.get("labelSelector"), f"{path}.labelSelector")
    errors += validate_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    key = term.get("topologyKey") or ""
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    elif problem := qualified_name_problem(key):
        errors.append(invalid(f"{path}.topologyKey", key, problem))
    return errors


def _validate_weight(preference: JsonObject, path: str) -> list[FieldError]:
    weight = preference.get("weight") or 0
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]
