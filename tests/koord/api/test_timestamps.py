import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import timestamps


@pytest.mark.parametrize("text", ["2026-01-01T12:00:00Z", "2026-01-01T13:00:00+01:00", "2026-01-01T12:00:00.000000Z"])
def test_one_moment_in_any_zone_is_the_same_number(text: str) -> None:
    assert timestamps.parse_rfc3339(text) == 1767268800.0


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01T12:00:00", "2026-13-01T12:00:00Z"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        timestamps.parse_rfc3339(text)


@given(st.integers(0, 4102444800))
def test_whole_seconds_survive_their_text(epoch_s: int) -> None:
    assert timestamps.parse_rfc3339(timestamps.format_rfc3339(epoch_s)) == epoch_s
    assert timestamps.parse_rfc3339(timestamps.format_rfc3339_micro(epoch_s + 0.25)) == epoch_s + 0.25
