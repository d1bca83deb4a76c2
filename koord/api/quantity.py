"""Kubernetes quantities as exact integers.

A quantity text denotes a number with a resolution of one nano unit; finer digits round away from zero, as the
API server does. Everything here works on Python integers, so no value is ever touched by floating point.
"""

import re
from functools import lru_cache
from typing import Literal

Family = Literal["decimal", "binary", "exponent"]
QuantityText = str | int | float

NANO = 1_000_000_000
NANO_PER_MILLI = 1_000_000

_TEXT = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:([eE][+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?")
_DECIMAL_POWER = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_POWER = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_DESCENDING = tuple(sorted(_DECIMAL_POWER.items(), key=lambda item: -item[1]))
_BINARY_DESCENDING = tuple(sorted(_BINARY_POWER.items(), key=lambda item: -item[1]))
_MAX_DIGITS = 64  # a longer text is an attack or an accident, never a resource
_MAX_EXPONENT = 40


class InvalidQuantity(ValueError):  # noqa: N818
    """The text is not a Kubernetes quantity."""

    def __init__(self, text: object) -> None:
        shown = str(text)[:_MAX_DIGITS]
        suffixes = "n u m k M G T P E Ki Mi Gi Ti Pi Ei"
        super().__init__(f'invalid quantity "{shown}": allowed: a number, with at most one of {suffixes}')
        self.text = text


@lru_cache(maxsize=65536)
def _parse(text: str) -> tuple[int, Family]:
    match = _TEXT.fullmatch(text)
    if match is None or len(text) > _MAX_DIGITS:
        raise InvalidQuantity(text)
    sign, whole, fraction, exponent, suffix = match.groups()
    fraction = fraction or ""
    digits = whole + fraction
    if not digits:
        raise InvalidQuantity(text)
    mantissa = int(digits)
    power10 = 9 - len(fraction)  # in nano units
    binary_factor = 1
    family: Family = "decimal"
    if exponent:
        family = "exponent"
        power10 += int(exponent[1:])
        if abs(power10) > _MAX_EXPONENT + _MAX_DIGITS:
            raise InvalidQuantity(text)
    elif suffix in _BINARY_POWER:
        family = "binary"
        binary_factor = 1 << _BINARY_POWER[suffix]
    else:
        power10 += _DECIMAL_POWER[suffix or ""]
    scaled = mantissa * binary_factor
    scaled = scaled * 10**power10 if power10 >= 0 else _ceil_div(scaled, 10**-power10)
    return (-scaled if sign == "-" else scaled), family


def _ceil_div(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)


def nano(quantity: QuantityText) -> int:
    """The exact value in nano units (1 cpu = 10**9, 1 byte = 10**9).

    Raises InvalidQuantity. Numbers, which YAML manifests may hold, are read by their shortest decimal text.
    """
    if isinstance(quantity, str):
        return _parse(quantity)[0]
    if isinstance(quantity, bool):
        raise InvalidQuantity(quantity)
    if isinstance(quantity, int):
        return quantity * NANO
    return _parse(repr(quantity))[0]


def milli(quantity: QuantityText) -> int:
    """The value in thousandths, rounded up (cpu: milli-cores). Raises InvalidQuantity."""
    return _ceil_div(nano(quantity), NANO_PER_MILLI)


def value(quantity: QuantityText) -> int:
    """The value in whole units, rounded up (memory: bytes). Raises InvalidQuantity."""
    return _ceil_div(nano(quantity), NANO)


def family(quantity: QuantityText) -> Family:
    """The family of suffixes the text uses, which a derived quantity keeps. Raises InvalidQuantity."""
    return _parse(quantity)[1] if isinstance(quantity, str) else "decimal"


def format_nano(amount: int, family: Family = "decimal") -> str:
    """The canonical text of an amount in nano units.

    Decimal: the largest suffix that keeps the mantissa an integer. Binary: likewise among Ki..Ei, but an
    amount below 1024 or not a whole number falls back to decimal. Exponent: `12e6`.
    """
    if amount == 0:
        return "0"
    if family == "binary":
        units, rest = divmod(amount, NANO)
        if rest == 0 and abs(units) >= 1024:
            for suffix, power in _BINARY_DESCENDING:
                if units % (1 << power) == 0:
                    return f"{units >> power}{suffix}"
            return str(units)
    for suffix, power in _DECIMAL_DESCENDING:
        unit = 10 ** (power + 9)
        if amount % unit == 0:
            if family == "exponent":
                return f"{amount // unit}e{power}" if power else str(amount // unit)
            return f"{amount // unit}{suffix}"
    raise AssertionError("every integer is a multiple of one nano unit")


def format_milli(amount_milli: int, family: Family = "decimal") -> str:
    """The canonical text of an amount in thousandths."""
    return format_nano(amount_milli * NANO_PER_MILLI, family)


def format_value(amount: int, family: Family = "decimal") -> str:
    """The canonical text of an amount in whole units."""
    return format_nano(amount * NANO, family)


def canonical(quantity: QuantityText) -> str:
    """The text the API server would store. Raises InvalidQuantity."""
    return format_nano(nano(quantity), family(quantity))
