import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.demo.statistics import median, median_of_ratios, percentile, ratio, survival_curve, windows

numbers = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=300)


@given(values=numbers, percent=st.floats(0.1, 100))
def test_a_percentile_occurred_and_covers_at_least_its_share(values, percent):
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100 - 1e-9
    assert sum(value < found for value in values) < len(values) * percent / 100 + 1e-9


def test_percentiles_of_a_hundred_values_are_those_values():
    values = list(range(1, 101))
    assert [percentile(values, p) for p in (1, 50, 99, 100)] == [1, 50, 99, 100]


@pytest.mark.parametrize("percent", [0, -1, 100.1])
def test_a_percentile_outside_its_range_is_refused(percent):
    with pytest.raises(ValueError, match="allowed"):
        percentile([1.0], percent)


def test_a_percentile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 99)


@given(values=numbers)
def test_the_median_has_as_many_values_on_each_side(values):
    middle = median(values)
    assert sum(value < middle for value in values) <= len(values) / 2
    assert sum(value > middle for value in values) <= len(values) / 2


def test_ratios_are_paired_before_the_median_is_taken():
    # The medians alone (3 and 2) would give 1.5; each pair says 2.
    assert median_of_ratios([(2, 1), (4, 2), (20, 10)]) == 2


def test_a_ratio_needs_both_numbers_and_a_positive_base():
    assert ratio(None, 1) is None
    assert ratio(1, None) is None
    assert ratio(1, 0) is None
    assert median_of_ratios([(1, None)]) is None
    assert median([]) is None


@given(values=st.lists(st.floats(0, 1e4), min_size=2, max_size=500))
def test_the_percentile_plot_ascends_in_value_and_descends_in_share(values):
    curve = survival_curve(values)
    assert [value for value, _ in curve] == sorted(value for value, _ in curve)
    assert [share for _, share in curve] == sorted((share for _, share in curve), reverse=True)
    assert curve[-1] == (max(values), 1 / len(values))


def test_windows_take_a_percentile_of_each_and_leave_empty_ones_out():
    assert windows([0.1, 0.2, 2.5], [1.0, 3.0, 7.0], 1.0, 100) == [(0.5, 3.0), (2.5, 7.0)]
