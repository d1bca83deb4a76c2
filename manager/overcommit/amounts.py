"""A pair of cpu and memory amounts, exact: cpu in nano-cores, memory in nano-bytes (as koord.api.quantity)."""

from typing import NamedTuple

from koord.api import names, quantity
from koord.api.objects import ResourceList
from koord.api.quantity import NANO, NANO_PER_MILLI

_PLAIN_CHARS = 20


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


class Offer(NamedTuple):
    """Amounts of one tier as nodes show them: cpu in milli-cores, memory in bytes."""

    cpu: int
    memory: int

    def minus(self, other: "Offer") -> "Offer":
        """The difference per resource, never below 0."""
        return Offer(max(self.cpu - other.cpu, 0), max(self.memory - other.memory, 0))

    def plus(self, other: "Offer") -> "Offer":
        """The sum per resource."""
        return Offer(self.cpu + other.cpu, self.memory + other.memory)

    def at_most(self, other: "Offer") -> "Offer":
        """The smaller one per resource."""
        return Offer(min(self.cpu, other.cpu), min(self.memory, other.memory))


NO_OFFER = Offer(0, 0)


def to_offer(amounts: Amounts) -> Offer:
    """Nano units as milli-cores and bytes, rounded up."""
    return Offer(ceil_div(amounts.cpu, NANO_PER_MILLI), ceil_div(amounts.memory, NANO))


def read_amounts(resources: ResourceList) -> Amounts:
    """cpu and memory of a resource list; a missing name is 0. Raises InvalidQuantity."""
    return Amounts(*read_pair(resources))


def read_pair(resources: ResourceList) -> tuple[int, int]:
    """As `read_amounts`, as a plain pair, for loops over every pod of a report. Raises InvalidQuantity.

    Reports bring thousands of different numbers a second, nearly all written as "<digits>m" cores and "<digits>"
    bytes: these spellings skip the general parser and its memory of texts, which they would only wash out.
    """
    cpu, memory = resources.get(names.CPU, 0), resources.get(names.MEMORY, 0)
    if type(cpu) is str and cpu[-1:] == "m" and len(cpu) < _PLAIN_CHARS and (digits := cpu[:-1]).isdecimal():
        cpu_nano = int(digits) * NANO_PER_MILLI
    else:
        cpu_nano = quantity.nano(cpu)
    if type(memory) is str and len(memory) < _PLAIN_CHARS and memory.isdecimal():
        return cpu_nano, int(memory) * NANO
    return cpu_nano, quantity.nano(memory)


def ceil_div(numerator: int, denominator: int) -> int:
    """Division rounded up."""
    return -(-numerator // denominator)


def _split(nano: int, parts: int) -> int:
    return ceil_div(ceil_div(nano, NANO_PER_MILLI), parts) * NANO_PER_MILLI
