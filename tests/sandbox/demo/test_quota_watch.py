import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.demo.quota_watch import QuotaWatch, as_steps, first_cut_s


@pytest.mark.parametrize(
    ("changes", "cut"),
    [
        ([(0.0, 1.8), (10.95, 1.2)], 0.95),
        ([(0.0, None), (10.3, 1.2)], 0.3),
        ([(0.0, 1.8), (10.2, 1.79), (10.4, 1.76), (11.0, 1.2)], 1.0),
        ([(0.0, 1.8), (9.0, 1.7), (9.5, 1.8), (10.1, 1.68), (10.2, 1.5)], 0.2),
        ([(0.0, 1.2), (5.0, 1.8), (10.1, 1.5)], 0.1),
        ([(0.0, 1.8)], None),
        ([(0.0, 1.8), (11.0, None)], None),
        ([], None),
    ],
)
def test_the_first_cut_is_the_first_quota_clearly_below_all_recent_ones(changes, cut):
    found = first_cut_s(changes, 10.0, 2)
    assert found == (None if cut is None else pytest.approx(cut))


quotas = st.lists(
    st.tuples(st.floats(0, 20), st.none() | st.floats(0.02, 2)), max_size=30, unique_by=lambda item: item[0]
).map(sorted)


@given(changes=quotas)
def test_a_cut_lies_after_the_step_and_is_a_change_that_was_seen(changes):
    found = first_cut_s(changes, 10.0, 2)
    if found is not None:
        assert found > 0
        assert any(moment == pytest.approx(10 + found) and quota <= 1.9 for moment, quota in changes)


@given(changes=quotas.filter(bool))
def test_steps_for_drawing_cover_the_whole_stretch(changes):
    points = as_steps(changes, 5.0, 15.0, 10.0)
    assert points[0][0] == -5.0
    assert points[-1][0] == 5.0
    assert [moment for moment, _ in points] == sorted(moment for moment, _ in points)


async def test_the_watch_keeps_every_change_of_a_file(tmp_path):
    file = tmp_path / "cpu.cfs_quota_us"
    file.write_text("-1\n")
    watch = QuotaWatch(file, 100_000)
    watch.start()
    for text in ("150000\n", "90000\n"):
        await asyncio.sleep(0.1)
        file.write_text(text)
    await asyncio.sleep(0.1)
    changes = await watch.stop()
    # A write is not atomic on a plain file: the emptied file may be seen, which reads as no limit.
    assert [quota for _, quota in changes if quota is not None] == [1.5, 0.9]
    assert changes[0][1] is None


async def test_a_quota_file_that_is_not_there_is_no_change(tmp_path):
    watch = QuotaWatch(tmp_path / "missing", 100_000)
    watch.start()
    assert await watch.stop() == []
