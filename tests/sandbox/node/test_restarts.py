"""When containers are started again."""

import pytest

from sandbox.node import restarts


@pytest.mark.parametrize(
    ("policy", "exit_code", "again"),
    [
        ("Always", 0, True),
        ("Always", 1, True),
        ("OnFailure", 0, False),
        ("OnFailure", 137, True),
        ("Never", 1, False),
        ("Never", 0, False),
    ],
)
def test_the_policy_decides_whether(policy: str, exit_code: int, again: bool) -> None:
    assert restarts.decide(policy, exit_code, 1.0, 0).again is again


def test_the_first_restart_is_at_once_and_the_next_ones_wait_ever_longer() -> None:
    crashes, delays = 0, []
    for _ in range(9):
        restart = restarts.decide("Always", 1, 1.0, crashes)
        delays.append(restart.delay_s)
        crashes = restart.crashes
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_a_long_run_forgives() -> None:
    assert restarts.decide("Always", 1, 600.0, 7) == restarts.Restart(0.0, 1)
