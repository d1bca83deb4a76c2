"""Network shares of resource-qos-config: percentages or amounts, never both, and no more than there is."""

from __future__ import annotations

from typing import Any, Final

from koord.api import quantity
from koord.api.quantity import InvalidQuantity
from koord.slo_config.schema import Fragment

_CLASSES: Final = ("lsrClass", "lsClass", "beClass")
_DIRECTIONS: Final = ("ingress", "egress")
_NO_BANDWIDTH: Final = 0


def network_errors(strategy: Fragment, total_bandwidth: str | int | float = _NO_BANDWIDTH) -> dict[str, str]:
    """What is wrong with one strategy's networkQOS: path to a sentence.

    total_bandwidth: of the nodes it is for, bits per second; 0 means unknown, and amounts are then not summed
    against it. Percentages are of that total and may sum to 100.
    """
    found: dict[str, str] = {}
    for direction in _DIRECTIONS:
        requests = []
        for name in _CLASSES:
            network = strategy.get(name, {}).get("networkQOS", {})
            for field in (f"{direction}Request", f"{direction}Limit"):
                if field in network and (problem := _problem(network[field])):
                    found[f"NetworkQOS.{name}.{field}"] = problem
            if f"{direction}Request" in network:
                requests.append(network[f"{direction}Request"])
        if not found and requests and (problem := _sum_problem(requests, total_bandwidth)):
            found[f"NetworkQOS.{direction}Request"] = problem
    return found


def _problem(value: Any) -> str:
    if isinstance(value, int):
        return "" if 0 <= value <= 100 else f"is {value}: allowed: a percentage from 0 to 100, or a quantity"
    try:
        amount = quantity.nano(value)
    except InvalidQuantity:
        amount = -1
    return "" if amount >= 0 else f'is "{value}": allowed: a percentage from 0 to 100, or a quantity such as "50M"'


def _sum_problem(requests: list[Any], total_bandwidth: str | int | float) -> str:
    percentages = [value for value in requests if isinstance(value, int)]
    if percentages and len(percentages) != len(requests):
        return "only one type can be used in a strategy: percentages for all classes, or quantities for all"
    if percentages:
        total = sum(percentages)
        return f"the classes' percentages sum to {total}, already over 100" if total > 100 else ""
    amount, available = sum(map(quantity.nano, requests)), quantity.nano(total_bandwidth)
    if available and amount > available:
        shown = quantity.format_nano(amount)
        limit = f"total net bandwidth over total network bandwidth {total_bandwidth}"
        return f"the classes' requests sum to {shown}: {limit}"
    return ""
