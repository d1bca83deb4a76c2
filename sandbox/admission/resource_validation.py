"""Validation of container resources: names, quantities, requests against limits. Pure.

Names in the kubernetes.io domain count as native: they may be overcommitted, so a request without a
limit, a request below the limit and fractions are legal. Any other domain names an extended
resource: whole numbers, and the limit must exist and equal the request.
"""

from collections.abc import Mapping
from typing import Final

from koord.api import quantity
from koord.api.quantity import InvalidQuantity, QuantityText
from sandbox.admission.fields import FieldError, forbidden, invalid, required, unsupported
from sandbox.admission.metadata_validation import qualified_name_problem
from sandbox.admission.request import JsonObject

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_ELSEWHERE: Final = ("storage", "pods", "services", "secrets", "configmaps")
"""Standard names, but of volumes, nodes and quotas."""
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"
QUANTITY_RULE: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def is_native(name: str) -> bool:
    """No domain, or one that contains kubernetes.io/ (kubernetes.io/batch-cpu)."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """A countable resource of somebody's own domain (example.com/gpu)."""
    return not is_native(name) and not name.startswith("requests.")


def may_overcommit(name: str) -> bool:
    """Whether a request may differ from its limit, or stand without one."""
    return is_native(name) and not name.startswith(_HUGE_PAGES)


def validate_resources(resources: JsonObject, path: str) -> list[FieldError]:
    """A container's `resources`, e.g. at spec.containers[0].resources."""
    limits: Mapping[str, QuantityText] = resources.get("limits") or {}
    requests: Mapping[str, QuantityText] = resources.get("requests") or {}
    errors = _validate_list(limits, f"{path}.limits")
    for name, wanted in requests.items():
        wrong = _validate_entry(name, wanted, f"{path}.requests")
        errors += wrong or _compare(name, wanted, limits.get(name), path)
    named = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in named) and not named & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors


def validate_pod_level(resources: JsonObject, path: str) -> list[FieldError]:
    """`spec.resources`, which takes cpu, memory and huge pages only."""
    errors = [
        unsupported(f"{path}.{part}[{name}]", name, ("cpu", _HUGE_PAGES, "memory"))
        for part in ("limits", "requests")
        for name in resources.get(part) or {}
        if name not in _POD_LEVEL and not name.startswith(_HUGE_PAGES)
    ]
    return errors or validate_resources(resources, path)


def validate_overhead(amounts: Mapping[str, QuantityText], path: str) -> list[FieldError]:
    """A pod's overhead: names as in containers, non-negative quantities."""
    return _validate_list(amounts, path)


def validate_node_amounts(amounts: Mapping[str, QuantityText], path: str) -> list[FieldError]:
    """A node's capacity or allocatable: quantities only, the paths written as the API server does there."""
    return [error for name, amount in amounts.items() for error in _validate_amount(name, amount, f"{path}.{name}")]


def _validate_list(amounts: Mapping[str, QuantityText], path: str) -> list[FieldError]:
    return [error for name, amount in amounts.items() for error in _validate_entry(name, amount, path)]


def _validate_entry(name: str, amount: QuantityText, path: str) -> list[FieldError]:
    here = f"{path}[{name}]"
    problem = _name_problem(name)
    named = [invalid(here, name, problem)] if problem else []
    return named + _validate_amount(name, amount, here)


def _validate_amount(name: str, amount: QuantityText, path: str) -> list[FieldError]:
    try:
        nano = quantity.nano(amount)
    except InvalidQuantity:
        return [invalid(path, amount, QUANTITY_RULE)]
    errors = []
    if nano < 0:
        errors.append(invalid(path, amount, "must be greater than or equal to 0"))
    if is_extended(name) and nano % quantity.NANO:
        errors.append(invalid(path, amount, "must be an integer"))
    return errors


def _name_problem(name: str) -> str:
    if problem := qualified_name_problem(name):
        return problem
    if "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
        where = "for containers" if name in _ELSEWHERE else "type or fully qualified"
        return f"must be a standard resource {where}"
    if not is_native(name) and not is_extended(name):
        return "doesn't follow extended resource name standard"
    return ""


def _compare(name: str, wanted: QuantityText, limit: QuantityText | None, path: str) -> list[FieldError]:
    if limit is None:
        if may_overcommit(name):
            return []
        return [required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    try:
        request_nano, limit_nano = quantity.nano(wanted), quantity.nano(limit)
    except InvalidQuantity:
        return []  # already reported where the limit is checked
    if request_nano != limit_nano and not may_overcommit(name):
        return [invalid(f"{path}.requests", wanted, f"must be equal to {name} limit of {limit}")]
    if request_nano > limit_nano:
        return [invalid(f"{path}.requests", wanted, f"must be less than or equal to {name} limit of {limit}")]
    return []
