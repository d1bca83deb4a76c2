"""A pair of cpu and memory amounts, exact: cpu in nano-cores, memory in nano-bytes (as koord.api.quantity)."""

from typing import NamedTuple

from koord.api import names, quantity
from koord.api.objects import ResourceList
from koord.api.quantity import NANO_PER_MILLI


class Amounts(NamedTuple):
    """cpu in nano-cores, memory in nano-bytes."""

    cpu: int
    memory: int

    def plus(self, other: "Amounts") -> "Amounts":
        """The sum per resource."""
        return Amounts(self.cpu + other.cpu, self.memory + other.memory)

    def at_least(self, other: "Amounts") -> "Amounts":
        """The larger one per resource."""
        return Amounts(max(self.cpu, other.cpu), max(self.memory, other.memory))

    def split(self, parts: int) -> "Amounts":
        """An even share, rounded up to a thousandth of the unit (milli-core, milli-byte)."""
        return Amounts(_split(self.cpu, parts), _split(self.memory, parts))


ZERO = Amounts(0, 0)


def read_amounts(resources: ResourceList) -> Amounts:
    """cpu and memory of a resource list; a missing name is 0. Raises InvalidQuantity."""
    cpu = resources.get(names.CPU)
    memory = resources.get(names.MEMORY)
    return Amounts(0 if cpu is None else quantity.nano(cpu), 0 if memory is None else quantity.nano(memory))


def ceil_div(numerator: int, denominator: int) -> int:
    """Division rounded up."""
    return -(-numerator // denominator)


def _split(nano: int, parts: int) -> int:
    return ceil_div(ceil_div(nano, NANO_PER_MILLI), parts) * NANO_PER_MILLI
