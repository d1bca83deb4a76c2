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


def read_amounts(resources: ResourceList) -> Amounts:
    """cpu and memory of a resource list; a missing name is 0. Raises InvalidQuantity."""
    return Amounts(cpu_nano(resources), memory_nano(resources))


# Reports bring thousands of different numbers a second, nearly all written as "<digits>m" cores or "<digits>" bytes:
# these two spellings skip the general parser and its memory of texts, which such numbers would only wash out.


def cpu_nano(resources: ResourceList) -> int:
    """cpu of a resource list in nano-cores; 0 when missing. Raises InvalidQuantity."""
    written = resources.get(names.CPU, 0)
    if type(written) is str and written[-1:] == "m" and written[:-1].isdecimal() and len(written) < _PLAIN_CHARS:
        return int(written[:-1]) * NANO_PER_MILLI
    return quantity.nano(written)


def memory_nano(resources: ResourceList) -> int:
    """memory of a resource list in nano-bytes; 0 when missing. Raises InvalidQuantity."""
    written = resources.get(names.MEMORY, 0)
    if type(written) is str and written.isdecimal() and len(written) < _PLAIN_CHARS:
        return int(written) * NANO
    return quantity.nano(written)


def ceil_div(numerator: int, denominator: int) -> int:
    """Division rounded up."""
    return -(-numerator // denominator)


def _split(nano: int, parts: int) -> int:
    return ceil_div(ceil_div(nano, NANO_PER_MILLI), parts) * NANO_PER_MILLI
