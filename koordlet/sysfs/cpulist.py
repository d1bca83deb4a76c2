"""The kernel's list format for CPUs and NUMA nodes: `0-3,8`."""

from collections.abc import Iterable


def parse(text: str) -> frozenset[int]:
    """The members of a list; empty text is the empty set. Raises ValueError on anything else."""
    members: set[int] = set()
    for part in text.strip().split(","):
        if not part:
            continue
        first, dash, last = part.partition("-")
        members.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(members)


def render(members: Iterable[int]) -> str:
    """The shortest list, ascending: {0,1,2,8} is `0-2,8`."""
    runs: list[list[int]] = []
    for member in sorted(set(members)):
        if runs and member == runs[-1][1] + 1:
            runs[-1][1] = member
        else:
            runs.append([member, member])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)
