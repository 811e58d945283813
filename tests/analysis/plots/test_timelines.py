# SPDX-License-Identifier: MIT
"""Runs over time: every flow is there, short dips are, and what happens to the run is marked."""

import itertools
import math
from pathlib import Path
from typing import Any

import matplotlib.colors
import numpy as np
import pytest
import synthetic
from matplotlib.figure import Figure
from synthetic import FOOTER, check_texts, labelled, loaded, titles_of, words_on

from gostlab.analysis.load.events import event_labels
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.series import TimeSeries
from gostlab.analysis.plots import cwnd, series, teeth
from gostlab.analysis.plotting import marks, style
from gostlab.analysis.plotting.style import CC_COLOURS

# Dozens of figures: `make test` has them, `make fast` does not.
pytestmark = pytest.mark.slow


def bbr_rate(t: float, share: float = 1.0) -> float:
    """Full but for ProbeRTT every ten seconds."""
    return 2.0 if t % 10 > 9.7 else 95 * share


def write_queue(folder: Path, seconds: float, backlog: Any) -> None:
    rows = [
        synthetic.QUEUE
        | {"t_s": round(0.1 * index, 3), "backlog_pkts": backlog(0.1 * index), "backlog_bytes": 0}
        | {"sent_pkts": index, "sent_bytes": index}
        for index in range(1, int(10 * seconds))
    ]
    synthetic.put_lines(folder, "queues", rows)


def fair(results: Path) -> RunFolder:
    """Three flows: two of BBR, the second late, and CUBIC."""
    run = synthetic.several(
        {"cc": "bbr"},
        {"cc": "bbr", "start_s": 5.0},
        {"cc": "cubic", "start_s": 20.0, "duration_s": 25.0},
        cc="bbr",
        duration_s=60.0,
        buffer_pkts=400,
        factors={"cc": "bbr", "buffer": "1bdp"},
    )
    run["flows"][1]["duration_s"] = 55.0
    folder = synthetic.write_run(results, run, name="fair")
    shares = {
        "flow1": lambda t: bbr_rate(t, 1 if t < 5 else 0.5 if t < 20 or t > 45 else 0.42),
        "flow2": lambda t: bbr_rate(t, 0.5 if t < 20 or t > 45 else 0.42),
        "flow3": lambda t: 95 * 0.16 + 3 * math.sin(t),
    }
    synthetic.write_over_time(
        folder,
        run,
        shares,
        windows={
            name: lambda t, k=k: (
                4 if k < 2 and t % 10 > 9.7 else 120 + 40 * k + int(20 * math.sin(t))
            )
            for k, name in enumerate(shares)
        },
    )
    write_queue(folder, 60, lambda t: int(200 + 150 * math.sin(t / 3)) if t % 10 < 9.7 else 10)
    return loaded(folder)


def changed(results: Path) -> RunFolder:
    """A bottleneck whose rate changes, UDP in the background, CUBIC."""
    udp = {"kind": "udp", "cc": None, "rate_bps": 40_000_000, "start_s": 5.0, "duration_s": 10.0}
    changes = [
        {"at_s": at_s, "direction": direction, "rate_bps": rate}
        for at_s, rate in ((20.0, 50_000_000), (25.0, 20_000_000), (40.0, 100_000_000))
        for direction in ("forward", "reverse")
    ]
    run = synthetic.several(
        {"cc": "cubic"}, udp, duration_s=60.0, changes=changes, factors={"cc": "cubic"}
    )
    folder = synthetic.write_run(results, run, name="changed")
    synthetic.write_over_time(
        folder,
        run,
        {
            "flow1": lambda t: (
                55 if 5 < t < 15 else 47 if 20 < t < 25 else 19 if 25 < t < 40 else 95
            ),
            "flow2": 38.0,
        },
        windows={"flow1": lambda t: int(100 + 5 * (t % 8) ** 2)},
    )
    write_queue(folder, 60, lambda t: int(40 * (t % 8)))
    return loaded(folder)


def grid(results: Path) -> list[RunFolder]:
    """The course's conditions and congestion controls; of CUBIC an ACK every second millisecond,
    timeouts among them.
    """
    runs = []
    conditions = enumerate(("plain", "loss 0.5 %", "delay 100 ms ± 30 ms"))
    for (index, condition), cc in itertools.product(conditions, ("cubic", "reno", "westwood")):
        if (cc, index) == ("westwood", 1):
            continue
        path = {"tunnel": "direct", "rtt_ms": 10.0, "rate_bps": 40_000_000}
        asked = {"cc": cc, "acks": True, "duration_s": 60.0, "matrix": "cwnd", **path}
        run = synthetic.description(**asked, factors={"cc": cc, "condition": condition})
        verdict = "degraded" if index == 2 else "ok"
        folder = synthetic.write_run(results, run, name=f"{cc}-{index}", verdict=verdict)
        period, steep = 3 + 4 * index, 3 if cc == "cubic" else 1
        rows = []
        for t in np.arange(0.05, 60, 0.002 if cc == "cubic" else 0.02):
            grown = 0.5 + 0.5 * ((t % period) / period) ** steep
            cwnd = 1 if 30 < t < 30.004 else int(5 + (60 - 15 * index) * grown)
            rows.append((f"{t:.4f}", "flow1", cwnd, "" if t < 1 else int(30 - 5 * index)))
        synthetic.write_acks(folder, rows)
        runs.append(loaded(folder))
    return runs


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Figure]:
    results = tmp_path_factory.mktemp("results")
    of_a_grid = grid(results)
    return {
        "fair": series.plot_series(fair(results), FOOTER),
        "changed": series.plot_series(changed(results), FOOTER),
        "grid": cwnd.plot_cwnd_grid(of_a_grid, FOOTER),
        "teeth": teeth.plot_teeth(of_a_grid, FOOTER),
    }


def test_teeth_begin_after_the_start_up_and_are_enlarged_beside(drawn: dict[str, Figure]) -> None:
    whole, enlarged = drawn["teeth"].axes[:2]
    assert whole.get_xlim() == (15, 60)  # after a quarter of the load
    first, last = enlarged.get_xlim()
    assert last - first == 10 and 15 < first < last < 60
    assert whole.lines and enlarged.lines


def test_every_flow_is_in_every_panel_in_its_congestion_control_s_colour(
    drawn: dict[str, Figure],
) -> None:
    for name, cc in (("flow1", "bbr"), ("flow2", "bbr"), ("flow3", "cubic")):
        found = labelled(drawn["fair"], f"lab {name}", None)
        assert len(found) == 3 and {
            matplotlib.colors.to_hex(line.get_color()).upper() for line in found
        } == {CC_COLOURS[cc]}


def test_two_flows_of_one_congestion_control_differ_in_their_lines_and_are_named(
    drawn: dict[str, Figure],
) -> None:
    first, second = (labelled(drawn["fair"], f"lab {name}", 0)[0] for name in ("flow1", "flow2"))
    assert first.get_linestyle() != second.get_linestyle()
    assert {"flow1", "flow2", "flow3"} <= set(words_on(drawn["fair"]))


def test_probe_rtt_dips_show(drawn: dict[str, Figure]) -> None:
    (line,) = labelled(drawn["fair"], "lab flow1", 0)
    dips = line.get_ydata() < 10
    assert np.count_nonzero(np.diff(dips.astype(int)) == 1) == 6


def test_starts_stops_and_changes_are_marked_in_every_panel(drawn: dict[str, Figure]) -> None:
    assert {float(line.get_xdata()[0]) for line in labelled(drawn["fair"], "mark", None)} == {
        5.0,
        20.0,
        45.0,
    }
    assert len(labelled(drawn["fair"], "mark", None)) == 3 * 4
    assert {"flow2 starts", "flow3 starts", "flow3 stops"} <= set(words_on(drawn["fair"]))
    assert {"flow2 starts", "flow2 stops", "50 Mbit/s", "20 Mbit/s", "100 Mbit/s"} <= set(
        words_on(drawn["changed"])
    )


def test_a_changed_bottleneck_is_a_step_line_of_what_it_carries(drawn: dict[str, Figure]) -> None:
    (step,) = labelled(drawn["changed"], "bottleneck", None)
    assert list(step.get_xdata()) == [0, 20, 25, 40, 60]
    assert list(step.get_ydata()) == pytest.approx(
        [rate * 1448 / 1514 for rate in (100, 50, 20, 100, 100)]
    )


def test_a_timeout_of_a_few_acks_is_seen(drawn: dict[str, Figure]) -> None:
    for line in labelled(drawn["grid"], "lab cubic", None):
        assert min(line.get_ydata()) == 1 and len(line.get_xdata()) < 4 * marks.PIXELS + 1


def test_the_grid_has_a_place_for_what_did_not_run(drawn: dict[str, Figure]) -> None:
    assert "no valid run" in words_on(drawn["grid"]) and "degraded" in words_on(drawn["grid"])
    assert titles_of(drawn["grid"])[:3] == ["CUBIC", "Reno", "Westwood"]


def test_an_infinite_ssthresh_is_no_line(drawn: dict[str, Figure]) -> None:
    values = labelled(drawn["grid"], "ssthresh", None)[0].get_ydata()
    assert np.isnan(values[0]) and not np.isnan(values[-1])


def test_thinning_keeps_extremes_and_ends() -> None:
    t_s, value = np.linspace(0, 60, 100_000), np.sin(np.arange(100_000))
    value[77_777] = 9.0
    thin_t, thin = marks.reduce_to_min_max(t_s, value, 500)
    assert len(thin) <= 2000 and thin.max() == 9.0 and thin_t[0] == 0 and thin_t[-1] == 60
    assert np.all(np.diff(thin_t) >= 0)


def test_a_run_without_series_says_so(tmp_path: Path) -> None:
    folder = synthetic.write_run(tmp_path, synthetic.cell("bbr", 1))
    for name in ("sockets.jsonl", "queues.jsonl", "hosts.jsonl"):
        (folder / name).unlink()
    assert "this run left no series" in words_on(series.plot_series(loaded(folder)))


def test_names_at_the_ends_of_lines_keep_apart() -> None:
    _, axes = style.new_figure(3)
    ax = axes[0, 0]
    ax.set_ylim(0, 100)
    ends = {
        f"flow{index}": TimeSeries(np.array([1.0]), np.array([50.0 + index / 10]))
        for index in range(4)
    }
    series.label_line_ends(ax, ends, dict.fromkeys(ends, ("#000000", "-")))
    places = sorted(text.xy[1] for text in ax.texts)
    assert min(np.diff(places)) > 10 and places[-1] <= 100


@pytest.mark.parametrize("name", ["fair", "changed", "grid"])
def test_no_text_is_outside_or_small(drawn: dict[str, Figure], name: str) -> None:
    check_texts(drawn[name])


def test_the_bottleneck_is_the_slowest_link_of_each_moment(tmp_path: Path) -> None:
    asked = synthetic.description(duration_s=10.0, rate_bps=20_000_000)
    wide = {way: {**asked["path"][way], "rate_bps": 50_000_000} for way in ("forward", "reverse")}
    asked |= {
        "hops": 2,
        "links": {"hop2": wide},
        "changes": [
            {"at_s": 2.0, "direction": "forward", "link": "hop2", "rate_bps": 5_000_000},
            {"at_s": 4.0, "direction": "forward", "rate_bps": 2_000_000},
            {"at_s": 6.0, "direction": "forward", "rate_bps": 80_000_000},
        ],
    }
    run = loaded(synthetic.write_run(tmp_path, asked))
    steps = series.capacity_steps(run)
    assert [at_s for at_s, _ in steps] == [0.0, 2.0, 4.0, 6.0, 10.0]
    full = steps[0][1]
    assert [rate / full for _, rate in steps] == pytest.approx([1, 0.25, 0.1, 0.25, 0.25])
    assert event_labels(run)[2.0] == ["hop2: 5 Mbit/s"]


def test_tcp_memory_is_shown_where_the_kernel_s_limit_had_a_say(tmp_path: Path) -> None:
    folder = synthetic.write_run(tmp_path, synthetic.cell("bbr", 128), seconds=4)
    before = series.plot_series(loaded(folder))
    assert not any("TCP memory" in axes.get_ylabel() for axes in before.axes)
    held = [{"client": 60.0 * t, "target": 10.0} for t in range(1, 5)]
    rows = [
        {
            "t_s": float(t),
            "cpu_busy_s": t / 2,
            "cpu_idle_s": t / 2,
            "host_tcp_memory_mib": held[t - 1],
        }
        for t in range(1, 5)
    ]
    synthetic.put_lines(folder, "hosts", rows)
    check = {"name": "tcp_memory", "verdict": "degraded", "asked": 182.0, "got": 240.0}
    check |= {"unit": "MiB", "reason": "client's TCP sockets held up to 240 MiB"}
    synthetic.put(folder, "fidelity.json", {"verdict": "degraded", "checks": [check]})
    drawn = series.plot_series(loaded(folder))
    (panel,) = [axes for axes in drawn.axes if "TCP memory" in axes.get_ylabel()]
    lines = {str(line.get_label()): list(line.get_ydata()) for line in panel.lines}
    assert lines["client"] == [60.0, 120.0, 180.0, 240.0] and lines["target"] == [10.0] * 4
    assert lines["limit"] == [182.0, 182.0]
