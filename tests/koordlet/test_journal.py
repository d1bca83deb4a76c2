"""The journal through crashes, history and damage."""

from pathlib import Path

import pytest

from koordlet.sysfs.journal import Entry, Journal
from koordlet.sysfs.knobs import Knob

KEY = ("kubepods/besteffort", Knob.QUOTA)


def entries(path: Path, boot: str = "b") -> dict[tuple[str, Knob], Entry]:
    journal = Journal(str(path), boot)
    try:
        return dict(journal.entries)
    finally:
        journal.close()


def test_the_original_and_the_last_written_texts_survive(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), "b")
    for number in range(5):
        journal.record({KEY: Entry("suppress", "-1", (str(number), str(number + 1)))})
    journal.close()
    assert entries(tmp_path) == {KEY: Entry("suppress", "-1", ("4", "5"))}


def test_dropped_files_are_forgotten(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), "b")
    journal.record({KEY: Entry("suppress", "-1", ("1",))})
    journal.drop([KEY])
    journal.close()
    assert entries(tmp_path) == {}


@pytest.mark.parametrize("damage", [b'{"op":"own","gro', b"\x00\x00\xff", b'{"op":"later","knob":"quota"}\n[]\n'])
def test_a_torn_or_unknown_line_hurts_no_other(tmp_path: Path, damage: bytes) -> None:
    journal = Journal(str(tmp_path), "b")
    journal.record({KEY: Entry("suppress", "-1", ("1",))})
    journal.close()
    with journal.path.open("ab") as file:
        file.write(damage)
    assert entries(tmp_path) == {KEY: Entry("suppress", "-1", ("1",))}


def test_history_does_not_pile_up(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), "b")
    for number in range(10_000):
        journal.record({KEY: Entry("suppress", "-1", (str(number),))})
    assert journal.path.stat().st_size < 400_000
    journal.close()
    assert entries(tmp_path)[KEY].wrote == ("9999",)


def test_another_boot_makes_it_void(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), "b")
    journal.record({KEY: Entry("suppress", "-1", ("1",))})
    journal.close()
    assert entries(tmp_path, "c") == {}
    assert entries(tmp_path, "b") == {}, "and it stays void"
