"""Durations as Go writes them ("1h30m", "300ms"), which is how Kubernetes objects carry them."""

import re
from fractions import Fraction

_MICRO_SIGNS = ("us", "µs", "μs")
_UNIT_NS = {
    "ns": 1,
    **dict.fromkeys(_MICRO_SIGNS, 10**3),
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_LIMIT_NS = 2**63


def parse_ns(text: str) -> int:
    """Nanoseconds. Raises ValueError for anything Go's ParseDuration refuses, also beyond +-292 years."""
    sign, body = (-1, text[1:]) if text[:1] == "-" else (1, text.removeprefix("+"))
    if body == "0":
        return 0
    position, total = 0, Fraction(0)
    while position < len(body):
        part = _PART.match(body, position)
        if part is None:
            raise ValueError(f'invalid duration "{text}"')
        total += Fraction(part[1] if part[1][-1] != "." else part[1] + "0") * _UNIT_NS[part[2]]
        position = part.end()
    if not body or total >= _LIMIT_NS:
        raise ValueError(f'invalid duration "{text}"')
    return sign * int(total)


def render(duration_ns: int) -> str:
    """Go's canonical text: 300000000000 is "5m0s", 1500000 is "1.5ms", 0 is "0s"."""
    if duration_ns == 0:
        return "0s"
    sign, left = ("-", -duration_ns) if duration_ns < 0 else ("", duration_ns)
    if left < 10**9:
        for unit, size in (("ms", 10**6), ("µs", 10**3), ("ns", 1)):
            if left >= size:
                return f"{sign}{_decimal(left, size)}{unit}"
    minutes, rest_ns = divmod(left, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    text = f"{_decimal(rest_ns, 10**9)}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else f"{sign}{text}"


def _decimal(amount: int, unit: int) -> str:
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")
