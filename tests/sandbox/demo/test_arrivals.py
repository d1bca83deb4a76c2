from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.demo.arrivals import NS_PER_S, Step, parse_step, poisson_arrivals


def test_the_same_seed_gives_the_same_arrivals_and_another_seed_others():
    steps = [Step(400, 2)]
    assert poisson_arrivals(steps, 7) == poisson_arrivals(steps, 7)
    assert poisson_arrivals(steps, 7) != poisson_arrivals(steps, 8)


@settings(max_examples=30)
@given(rate=st.floats(1, 500), duration=st.floats(0.1, 5), seed=st.integers(0, 2**32))
def test_arrivals_ascend_and_stay_within_the_duration(rate, duration, seed):
    arrivals = poisson_arrivals([Step(rate, duration)], seed)
    assert all(earlier <= later for earlier, later in pairwise(arrivals))
    assert all(0 <= arrival < duration * NS_PER_S for arrival in arrivals)


def test_the_mean_rate_and_the_spread_are_those_of_a_poisson_process():
    arrivals = poisson_arrivals([Step(1000, 50)], 3)
    assert len(arrivals) == pytest.approx(50_000, rel=0.02)
    gaps = [(later - earlier) / NS_PER_S for earlier, later in pairwise(arrivals)]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert variance**0.5 == pytest.approx(mean, rel=0.05)


def test_the_rate_steps_where_the_steps_say():
    arrivals = poisson_arrivals([Step(100, 10), Step(700, 10)], 1)
    before = sum(arrival < 10 * NS_PER_S for arrival in arrivals)
    assert before == pytest.approx(1000, rel=0.1)
    assert len(arrivals) - before == pytest.approx(7000, rel=0.05)


@pytest.mark.parametrize("text", ["", "400", "400:", ":4", "x:4", "400:0", "-1:4", "nan:4", "400:inf", "0:1"])
def test_a_bad_step_is_refused_with_what_is_allowed(text):
    with pytest.raises(ValueError, match="allowed"):
        parse_step(text)


def test_a_step_reads_back_as_it_was_written():
    assert parse_step(str(Step(412.5, 8))) == Step(412.5, 8)
