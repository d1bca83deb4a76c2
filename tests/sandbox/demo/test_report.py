import json
import re
from datetime import UTC, datetime
from html import escape
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.demo import plots, report, svg, table
from sandbox.demo.result import DemoResult, PhaseName, to_json

AT = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)
VOID = {"meta", "br"}


class TagBalance(HTMLParser):
    """Fails on a closing tag that does not close the innermost open one."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def not_measured(result):
    return DemoResult(False, "not root", result.machine, 1, 400, samples=result.samples, pods=result.pods)


def test_the_report_is_one_file_that_loads_nothing(result):
    page = report.render(result, AT)
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|<script|<link", page)


@pytest.mark.parametrize("measured", [True, False])
def test_the_report_is_well_formed_and_escapes_what_it_shows(result, measured):
    page = report.render(result if measured else not_measured(result), AT)
    balance = TagBalance()
    balance.feed(page)
    assert balance.open == []
    assert "A &lt;plausible&gt; &amp; quoted processor" in page
    assert "<plausible>" not in page


def test_the_report_says_what_was_found_where_and_how(result):
    page = report.render(result, AT)
    for text in (
        escape(table.headline(result)),
        "950 ms",
        "killed by SIGKILL",
        "kubernetes.io/batch-cpu: 300",
        "6.18.0",
    ):
        assert text in page
    assert page.count("<svg") == 6
    assert "prefers-color-scheme: dark" in page


def test_every_plot_is_well_formed_svg_within_its_box(result):
    drawings = [
        plots.latency_tail(result),
        plots.round_ratios(result),
        plots.cpu_over_time(result),
        plots.batch_cpu_over_time(result),
        plots.step_quota(result.step, 2),
        plots.step_latency(result.step),
    ]
    for drawing in drawings:
        root = ElementTree.fromstring(drawing)
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for element in root.iter():
            for pair in element.attrib.get("points", "").split():
                x, y = map(float, pair.split(","))
                assert 0 <= x <= width
                assert 0 <= y <= height


def test_plots_of_nothing_are_left_out(result):
    empty = not_measured(msgspec.structs.replace(result, samples=()))
    assert "<svg" not in report.render(empty, AT)
    assert "Nothing was measured: not root" in report.render(empty, AT)


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-3, 1e6))
def test_linear_ticks_are_within_the_range_evenly_spaced_and_few(low, span):
    ticks = svg.linear_ticks(low, low + span)
    slack = 1e-9 * (1 + span + abs(low))
    assert all(low - slack <= tick <= low + span + slack for tick in ticks)
    assert len(ticks) <= 14


@given(low=st.floats(1e-3, 1e3), factor=st.floats(3, 1e5))
def test_log_ticks_are_within_the_range(low, factor):
    ticks = svg.log_ticks(low, low * factor)
    assert all(low * 0.99 <= tick <= low * factor * 1.01 for tick in ticks)
    assert ticks == sorted(set(ticks))


@given(value=st.floats(-1e9, 1e9))
def test_a_scale_keeps_values_outside_its_range_at_its_edge(value):
    scale = svg.Scale(1, 100, 10, 200, log=True)
    assert 10 <= scale(value) <= 200


def test_the_table_has_a_cell_for_every_phase_and_no_batch_for_alone(result):
    rows = {row.title: row.cells for row in table.rows(result)}
    assert rows["p99 relative to alone"][0] == "1.00 ×"
    assert rows["of the CPU that the service left idle"][0] == table.NOT_MEASURED
    assert all(len(cells) == 3 for cells in rows.values())


def test_noise_is_told_in_the_headline_of_the_figures(result):
    noisy = msgspec.structs.replace(result.rounds[0], noise=("koord: somebody else",))
    told = table.noise_note(msgspec.structs.replace(result, rounds=(noisy, *result.rounds[1:])))
    assert "NOT quiet" in told
    assert "somebody else" in told
    assert "quiet in all 5 rounds" in table.noise_note(result)


def test_the_json_has_the_promised_keys_and_types(result):
    document = json.loads(json.dumps(to_json(result)))
    assert document["measured"] is True
    assert [phase["name"] for phase in document["phases"]] == ["alone", "plain", "koord"]
    for phase in document["phases"]:
        for key in ("cpu_use_ratio", "ls_p50_ms", "ls_p99_ms", "ls_requests", "batch_work"):
            assert isinstance(phase[key], int | float), key
    assert document["ls_p99_ratio_plain"] > document["ls_p99_ratio_koord"] >= 1
    assert 0.9 < document["be_share_of_idle"] <= 1
    assert all(isinstance(milli, int) for milli in document["batch_cpu_milli"])
    assert document["reaction_ms"] == 950.0


def test_what_was_not_measured_is_null_in_the_json(result):
    document = to_json(not_measured(result))
    assert document["measured"] is False
    for key in ("ls_p99_ratio_plain", "ls_p99_ratio_koord", "be_share_of_idle", "reaction_ms"):
        assert document[key] is None
    assert all(phase["ls_p99_ms"] is None and phase["batch_work"] is None for phase in document["phases"])
    assert document["batch_cpu_milli"]


def test_ratios_come_from_pairs_of_the_same_round(result):
    bases = {PhaseName.ALONE: 4.0, PhaseName.PLAIN: 8.0, PhaseName.KOORD: 4.4}

    def slowed(item, factor):
        phases = {
            str(name): msgspec.structs.replace(item.phase(name), p99_ms=factor * base) for name, base in bases.items()
        }
        return msgspec.structs.replace(item, **phases)

    slow = [slowed(item, factor) for item, factor in zip(result.rounds, (1, 1, 3, 9, 27), strict=True)]
    document = to_json(msgspec.structs.replace(result, rounds=tuple(slow)))
    assert document["ls_p99_ratio_plain"] == 2.0
    assert document["ls_p99_ratio_koord"] == 1.1
