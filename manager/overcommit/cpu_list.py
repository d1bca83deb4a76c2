"""Linux cpu lists ("0-3,8") as the reservation annotation writes them."""

_MAX_CPU = 1 << 20  # far above any machine; keeps a typo from allocating memory


def count_cpus(text: str) -> int:
    """How many distinct CPUs the list names. Raises ValueError for what is not a cpu list."""
    seen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f'invalid cpu list "{text}": allowed: numbers and ranges such as "0-3,8"')
        low = int(first)
        high = int(last) if dash else low
        if high < low or high > _MAX_CPU:
            raise ValueError(f'invalid cpu list "{text}": bad range "{part}"')
        seen.update(range(low, high + 1))
    return len(seen)
