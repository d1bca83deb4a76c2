"""Whether and when a container that ended is started again. Pure."""

from dataclasses import dataclass

FIRST_DELAY_S = 10.0
LONGEST_DELAY_S = 300.0
FORGET_AFTER_S = 600.0
"""A container that ran this long starts again as if it had never ended."""


@dataclass(frozen=True)
class Restart:
    """What to do after the end of a container. `delay_s`: how long it must stay down; None: for ever."""

    delay_s: float | None
    crashes: int

    @property
    def again(self) -> bool:
        """Whether the container is started again at all."""
        return self.delay_s is not None


def decide(policy: str, exit_code: int, ran_s: float, crashes: int) -> Restart:
    """After an end with `exit_code`, `crashes` ends in a row before it, having run for `ran_s` seconds.

    Always restarts after any end, OnFailure after a non-zero exit code, Never not at all. The first restart is at
    once; each further one waits 10 s, 20 s, ... up to 300 s, until a run lasts ten minutes.
    """
    if policy == "Never" or (policy == "OnFailure" and exit_code == 0):
        return Restart(None, crashes)
    if ran_s >= FORGET_AFTER_S:
        crashes = 0
    delay_s = 0.0 if crashes == 0 else min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(crashes - 1, 10))
    return Restart(delay_s, crashes + 1)
