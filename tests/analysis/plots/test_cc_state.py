# SPDX-License-Identifier: MIT
"""What a congestion control says of itself: every name in its unit, every state a band."""

import gzip
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from synthetic import check_texts, drawn, loaded

from gostlab.analysis.load.cc_state import CcStateHistory, read_cc_states
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.plots import cc_state
from gostlab.analysis.report import page_data

# Dozens of figures: `make test` has them, `make fast` does not.
pytestmark = pytest.mark.slow

CYCLE = {"DOWN": 0.3, "CRUISE": 1.9, "REFILL": 2.0, "UP": 2.3}  # until when, of 2.3 s


def state_at(t: float) -> str:
    """BBR's, about as it goes over 20 s."""
    if t < 0.8:
        return "STARTUP" if t < 0.6 else "DRAIN"
    if t % 5 > 4.8:
        return "PROBE_RTT"
    return next(word for word, end in CYCLE.items() if (t - 0.8) % 2.3 < end)


def rows(flow: str = "flow1", sockets: int = 0, step_s: float = 0.02) -> Iterator[dict[str, Any]]:
    """Of 20 s, as tcp_bbr3.c gives them, less some."""
    for index in range(int(20 / step_s)):
        t = round(index * step_s, 6)
        state = state_at(t)
        bound = 140 + int(20 * math.sin(t))
        for socket in range(max(1, sockets)):
            yield {
                "t_s": t,
                "flow": flow,
                **({"socket": f"10.0.0.1:{socket}"} if sockets else {}),
                "state": state,
                "ack_phase": "INIT",
                "max_bw_bps": 95e6,
                "bw_bps": 95e6 if t < 10 or state in ("UP", "REFILL") else 80e6,
                "bw_shortterm_bps": -1 if t < 10 or state in ("UP", "REFILL") else 80e6,
                "inflight_longterm_pkts": -1 if t < 3 else bound,
                "inflight_shortterm_pkts": -1,
                "min_rtt_us": 10_000,
                "probe_rtt_min_delay_us": 10_100,
                "pacing_gain": 125 if state == "UP" else 100,
                "cwnd_gain": 225 if state == "UP" else 200,
                "cwnd_pkts": 40 if state == "PROBE_RTT" else 165,
                "inflight_pkts": 40 if state == "PROBE_RTT" else 80 + 30 * (state == "UP"),
                "max_inflight_pkts": 165,
                "bw_probe_wait_us": 2_300_000,
            }


def written(results: Path, *told: dict[str, Any], name: str = "run", **changes: Any) -> RunFolder:
    """A run whose flow said that of itself."""
    run = synthetic.description(
        cc="bbr3",
        tunnel="direct",
        duration_s=20.0,
        rtt_ms=10.0,
        factors={"cc": "bbr3", **changes.pop("factors", {})},
        **changes,
    )
    folder = synthetic.write_run(results, run, name=name)
    synthetic.write_states(folder, told)
    return loaded(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return written(tmp_path_factory.mktemp("results"), *rows())


def only(run: RunFolder) -> CcStateHistory:
    (state,) = read_cc_states(run)
    return state


def lines(figure: Figure, panel: int) -> dict[str, Any]:
    return {str(line.get_label()): line for line in figure.axes[panel].lines}


def test_names_are_shown_in_their_units_the_first_of_each(run: RunFolder) -> None:
    figure = cc_state.plot_state(run, only(run))
    named = [set(lines(figure, panel)) for panel in range(4)]
    assert named == [
        {"max_bw", "bw", "bw_shortterm"},
        {"inflight_longterm", "inflight_shortterm (never set)", "cwnd", "inflight"},
        {"min_rtt", "probe_rtt_min_delay"},
        {"pacing_gain", "cwnd_gain"},
    ]
    assert np.nanmax(lines(figure, 0)["max_bw"].get_ydata()) == pytest.approx(95.0)
    assert np.nanmax(lines(figure, 2)["min_rtt"].get_ydata()) == pytest.approx(10.0)


def test_what_is_not_set_is_a_gap(run: RunFolder) -> None:
    line = lines(cc_state.plot_state(run, only(run)), 1)["inflight_longterm"]
    unset = np.isnan(line.get_ydata())
    assert unset[line.get_xdata() < 2.9].all() and not unset[line.get_xdata() > 3.1].any()


def test_every_state_is_a_band_for_as_long_as_it_lasted(run: RunFolder) -> None:
    figure = cc_state.plot_state(run, only(run))
    bands = {
        str(each.get_label()).removeprefix("state "): each
        for each in figure.axes[0].collections
        if isinstance(each, PolyCollection)
    }
    assert list(bands) == ["STARTUP", "DRAIN", "DOWN", "CRUISE", "REFILL", "UP", "PROBE_RTT"]
    edges = bands["STARTUP"].get_paths()[0].vertices[:, 0]
    assert edges.min() == 0 and edges.max() == pytest.approx(0.6)
    assert len(bands["PROBE_RTT"].get_paths()) == 4
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(bands)


def test_a_peak_of_a_few_samples_leaves_the_rest_readable(tmp_path: Path) -> None:
    told = [dict(row) for row in rows()]
    told[1]["cwnd_pkts"] = 9000
    seen = written(tmp_path, *told)
    assert cc_state.plot_state(seen, only(seen)).axes[1].get_ylim()[1] < 1000


def test_of_several_connections_the_first_is_shown_and_said(tmp_path: Path) -> None:
    seen = written(tmp_path, *rows(sockets=3))
    state = only(seen)
    assert state.sockets == 3 and len(state.table) == 1000
    assert "the first of its 3 connections" in cc_state.title_of(seen, state)


def test_a_file_that_was_cut_short_gives_what_is_whole(tmp_path: Path) -> None:
    seen = written(tmp_path, *rows())
    path = seen.folder / "cc_state.jsonl.gz"
    text = gzip.decompress(path.read_bytes())
    path.write_bytes(gzip.compress(text, mtime=0)[:-200])
    read_cc_states.cache_clear()
    assert 100 < len(only(seen).table) < 1000


def test_a_matrix_has_a_figure_per_cell_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    for index in range(9):
        written(
            tmp_path, *rows(step_s=0.5), name=f"{index}", factors={"streams": 1, "buffer": index}
        )
    made = drawn(tmp_path, "cc-state")
    assert made.pictures and all(
        f"{len(made.pictures)} of 9 cells are shown" in each.caption for each in made.pictures
    )
    assert "Read every 500 ms." in made.pictures[0].caption


def test_a_cell_whose_control_shows_nothing_is_counted(tmp_path: Path) -> None:
    written(tmp_path, *rows(step_s=0.5), name="one")
    other = synthetic.description(cc="cubic", factors={"cc": "cubic"})
    synthetic.write_run(tmp_path, other, name="other")
    [picture] = drawn(tmp_path, "cc-state").pictures
    assert "1 of 2 cells are shown." in picture.caption


def test_a_state_has_one_colour_in_all_figures_and_none_that_another_has() -> None:
    one = cc_state.phase_colours(["STARTUP", "CRUISE", "UP"])
    other = cc_state.phase_colours(["UP", "GROW", "SHRINK", "WAIT"])
    assert one["UP"] == other["UP"] and len(set(other.values())) == 4


@pytest.mark.rendered
def test_no_text_is_outside_or_small(run: RunFolder) -> None:
    check_texts(cc_state.plot_state(run, only(run), "made up"))


def test_the_page_of_one_run_has_the_states_too_with_gaps(run: RunFolder) -> None:
    panels = {panel.title: panel.lines for panel in page_data.state_panels(run)}
    bounds = {line.name: line for line in panels["Own state: Volumes (packets)"]}
    assert bounds["inflight_longterm"].gaps
    assert np.isnan(bounds["inflight_longterm"].series.value[0])
    [title] = [title for title in panels if "STARTUP" in title]
    assert title.startswith("Own state: 0 STARTUP, 1 DRAIN, 2 DOWN")
    values = panels[title][0].series.value
    assert (values[0], values.max()) == (0.0, 6.0)
