"""What a pod asks of its node: the scheduling total over containers, init containers, sidecars and overhead."""

from collections.abc import Iterable

from koord.api import names, quantity
from koord.api.objects import Container, PodSpec, ResourceList

_POD_LEVEL = (names.CPU, names.MEMORY)


def _parsed(resources: ResourceList) -> dict[str, int]:
    return {name: quantity.nano(amount) for name, amount in resources.items()}


def _add(totals: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        totals[name] = totals.get(name, 0) + amount


def _raise_to(totals: dict[str, int], floor: dict[str, int]) -> None:
    for name, amount in floor.items():
        totals[name] = max(totals.get(name, 0), amount)


def _total(containers: Iterable[Container], inits: Iterable[Container], field: str) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in containers:
        _add(total, _parsed(getattr(container.resources, field)))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in inits:
        own = _parsed(getattr(container.resources, field))
        if container.is_sidecar:
            _add(sidecars, own)
            _raise_to(peak, sidecars)
        else:
            during = dict(sidecars)
            _add(during, own)
            _raise_to(peak, during)
    _add(total, sidecars)
    _raise_to(total, peak)
    return total


def requests_nano(spec: PodSpec) -> dict[str, int]:
    """Requests per resource name in nano units, as kube-scheduler counts them (Kubernetes' PodRequests).

    Sum of containers and sidecars, at least the peak of the init phase (an init container runs beside the
    sidecars declared before it); pod-level cpu, memory and hugepages replace that sum; overhead comes on top.
    Raises InvalidQuantity.
    """
    total = _total(spec.containers, spec.init_containers, "requests")
    if spec.resources is not None:
        for name, amount in _parsed(spec.resources.requests).items():
            if name in _POD_LEVEL or name.startswith("hugepages-"):
                total[name] = amount
    _add(total, _parsed(spec.overhead))
    return total


def limits_nano(spec: PodSpec) -> dict[str, int]:
    """Limits per resource name in nano units, summed like the requests; a container without one adds nothing.

    Raises InvalidQuantity.
    """
    total = _total(spec.containers, spec.init_containers, "limits")
    if spec.resources is not None:
        for name, amount in _parsed(spec.resources.limits).items():
            if name in _POD_LEVEL or name.startswith("hugepages-"):
                total[name] = amount
    _add(total, {name: amount for name, amount in _parsed(spec.overhead).items() if name in total})
    return total
