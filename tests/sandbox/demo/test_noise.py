import msgspec

from sandbox.demo.noise import NoiseLimits, choose_rounds, judge
from sandbox.demo.result import CpuUse, Phase, PhaseName, Round

QUIET = CpuUse(
    2, 8, service=0.4, batch=1.4, generator=0.02, components=0.03, cluster=0.05, outside=0.02, steal=0, idle=0.08
)


def make_phase(name, **changes):
    errors = changes.pop("errors", 0)
    cpu = msgspec.structs.replace(QUIET, **changes)
    return Phase(name, 0.0, cpu, p50_ms=1.2, p99_ms=4.4, requests=3200, errors=errors, batch_work=100)


def make_round(alone=None, plain=None, koord=None):
    return Round(
        make_phase(PhaseName.ALONE, **(alone or {})),
        make_phase(PhaseName.PLAIN, **(plain or {})),
        make_phase(PhaseName.KOORD, **(koord or {})),
    )


LIMITS = NoiseLimits()


def test_a_quiet_round_has_no_noise():
    assert judge(make_round(), LIMITS).noise == ()


def test_foreign_load_is_named_with_its_phase_and_amount():
    (reason,) = judge(make_round(koord={"outside": 0.5}), LIMITS).noise
    assert "koord" in reason
    assert "0.50" in reason


def test_steal_is_noise():
    (reason,) = judge(make_round(alone={"steal": 0.1}), LIMITS).noise
    assert "hypervisor" in reason


def test_failed_requests_are_noise_except_beside_plain_batch_where_they_are_the_result():
    assert judge(make_round(plain={"errors": 9}), LIMITS).noise == ()
    assert len(judge(make_round(koord={"errors": 9}), LIMITS).noise) == 1


def test_foreign_load_beside_failed_requests_of_the_plain_phase_is_still_noise():
    (reason,) = judge(make_round(plain={"errors": 9, "outside": 1.0}), LIMITS).noise
    assert "outside" in reason


def test_noisy_rounds_are_discarded_when_enough_quiet_ones_remain():
    rounds = [judge(make_round(alone={"outside": use}), LIMITS) for use in (0.0, 0.5, 0.01, 0.9)]
    kept, discarded = choose_rounds(rounds, 2)
    assert kept == [rounds[0], rounds[2]]
    assert discarded == [rounds[1], rounds[3]]


def test_without_enough_quiet_rounds_the_least_noisy_count_and_say_so():
    rounds = [judge(make_round(alone={"outside": use}), LIMITS) for use in (0.9, 0.5, 0.01)]
    kept, discarded = choose_rounds(rounds, 2)
    assert kept == [rounds[1], rounds[2]]
    assert kept[0].noise
    assert discarded == [rounds[0]]
