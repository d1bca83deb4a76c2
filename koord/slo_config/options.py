"""What Koord adds to the colocation strategy, under `extensions.koord`; nothing of it is on by default but the
graded end of stale reports.

    "extensions": {"koord": {
        "jointLedger": true,
        "peak": {"percentile": "p95", "sigmas": 3, "prodPeak": true, "windowMinutes": 30},
        "damping": {"growthPercentPerMinute": 10, "stabilizationSeconds": 300},
        "staleReports": {"mode": "graded", "holdSeconds": 180}}}

Koordinator keeps `extensions` as free-form data, so a configuration with this block works there as without it.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from koord.slo_config.schema import Record, Scalar

KOORD: Final = "koord"
"""The key below `extensions`."""

PERCENTILES: Final = ("p50", "p90", "p95", "p99")
STALE_MODES: Final = ("graded", "cliff")
_SECONDS_PER_DAY: Final = 24 * 3600
_MINUTES_PER_DAY: Final = 24 * 60

OPTIONS: Final = Record(
    {
        "jointLedger": Scalar("bool"),
        "peak": Record(
            {
                "percentile": Scalar("string", one_of=PERCENTILES),
                "sigmas": Scalar("float", 0, 10),
                "prodPeak": Scalar("bool"),
                "windowMinutes": Scalar("int", 1, _MINUTES_PER_DAY),
            }
        ),
        "damping": Record(
            {
                "growthPercentPerMinute": Scalar("float", 0, 100),
                "stabilizationSeconds": Scalar("int", 0, _SECONDS_PER_DAY),
            }
        ),
        "staleReports": Record(
            {
                "mode": Scalar("string", one_of=STALE_MODES),
                "holdSeconds": Scalar("int", 0, _SECONDS_PER_DAY),
            }
        ),
    }
)


class _Option(msgspec.Struct, frozen=True, rename="camel"):
    """One block of options."""


class Peak(_Option, frozen=True):
    """How the coming peak of protected usage is estimated: the largest of what is switched on here.

    percentile: of the node usage over a reported window, "" for off. sigmas: mean plus so many standard deviations,
    of the reported window and of the averages reported within `window_minutes`; 0 for off. prod_peak: at least what
    the agent predicts (prodPeakMetric). window_minutes: the longest reported window that is looked at.
    """

    percentile: str = ""
    sigmas: float = 0.0
    prod_peak: bool = False
    window_minutes: int = 30

    @property
    def is_on(self) -> bool:
        """Whether anything is estimated."""
        return bool(self.percentile) or self.sigmas > 0 or self.prod_peak


class Damping(_Option, frozen=True):
    """How fast an amount may grow. Shrinking is never damped.

    growth_percent_per_minute: of the node's capacity; 0 for any speed. stabilization_seconds: an amount grows only
    to the smallest one calculated within so long; 0 for no such wait.
    """

    growth_percent_per_minute: float = 0.0
    stabilization_seconds: int = 0

    @property
    def is_on(self) -> bool:
        """Whether growth is slowed."""
        return self.growth_percent_per_minute > 0 or self.stabilization_seconds > 0


class StaleReports(_Option, frozen=True):
    """What happens between a node's last report and degradeTimeMinutes later.

    graded: full amounts for `hold_seconds` (None: three report intervals), then less and less, down to what running
    pods hold, then none. cliff: full amounts until the end, as Koordinator.
    """

    mode: Literal["graded", "cliff", ""] = "graded"
    hold_seconds: int | None = None


class Options(_Option, frozen=True):
    """All of them."""

    joint_ledger: bool = False
    peak: Peak = Peak()
    damping: Damping = Damping()
    stale_reports: StaleReports = StaleReports()


NO_OPTIONS: Final = Options()


def options_of(extensions: Mapping[str, Any]) -> Options:
    """The options in a strategy's extensions, as its schema has read them."""
    return msgspec.convert(extensions.get(KOORD, {}), Options)
