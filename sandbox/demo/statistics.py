"""Percentiles, medians and paired ratios of what the demo measured. Pure.

Phases are compared within a round (a pair measured seconds apart) and the median of the per-round ratios
is the result: a machine that is slow for a minute then slows both halves of a pair.
"""

import math
from collections.abc import Iterable, Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest-rank percentile: the smallest value that `percent` per cent of all do not exceed.

    A value that occurred, not an interpolation. Raises ValueError without values or outside (0, 100].
    """
    if not values:
        raise ValueError("percentile of no values")
    if not 0 < percent <= 100:
        raise ValueError(f"percentile {percent}: allowed: above 0, at most 100")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def median(values: Iterable[float]) -> float | None:
    """The middle value, the mean of the two middle ones, or None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def ratio(value: float | None, base: float | None) -> float | None:
    """value/base, or None where either is missing or the base is not positive."""
    if value is None or base is None or base <= 0:
        return None
    return value / base


def median_of_ratios(pairs: Iterable[tuple[float | None, float | None]]) -> float | None:
    """The median of value/base over (value, base) pairs that have both."""
    ratios = (ratio(value, base) for value, base in pairs)
    return median(item for item in ratios if item is not None)


def survival_curve(values: Sequence[float], points: int = 120) -> list[tuple[float, float]]:
    """(value, share of all values above it) along the tail, log-spaced in the share: a percentile plot.

    Shares run from about 1 down to 1/len(values); at most `points` pairs; values ascend, shares descend.
    """
    ordered = sorted(values)
    count = len(ordered)
    if count < 2:
        return []
    curve: list[tuple[float, float]] = []
    last_rank = -1
    for index in range(points):
        share = count ** -(index / (points - 1))
        rank = min(count - 1, math.floor(count * (1 - share)))
        if rank != last_rank:
            curve.append((ordered[rank], (count - rank) / count))
            last_rank = rank
    return curve


def windows(
    moments: Sequence[float], values: Sequence[float], width: float, percent: float
) -> list[tuple[float, float]]:
    """(middle of the window, percentile of the values in it) for windows of `width`; empty ones left out."""
    buckets: dict[int, list[float]] = {}
    for moment, value in zip(moments, values, strict=True):
        buckets.setdefault(int(moment // width), []).append(value)
    return [((key + 0.5) * width, percentile(buckets[key], percent)) for key in sorted(buckets)]
