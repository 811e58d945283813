# SPDX-License-Identifier: MIT
"""A matrix's headline is the range of its own metric, with what it rests on."""

from pathlib import Path
from typing import Any

import pytest
import synthetic

from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.study import Study
from gostlab.analysis.plotting.plot_registry import find_drawing
from gostlab.analysis.report.headline import write_headline
from gostlab.analysis.stats.cells import to_matrices
from gostlab.analysis.stats.table_formats import cc_name


def write(
    results: Path, mbit: float, repetitions: int = 1, verdict: str = "ok", **levels: Any
) -> None:
    """Write runs of one cell, which differ by a hundredth of the goodput."""
    for number in range(repetitions):
        measured = {"goodput_mbit": mbit * (1 + 0.01 * number), "verdict": verdict}
        synthetic.write_at(results, levels, number + 1, **measured)


def headline(results: Path, plot: str = "cells") -> str:
    (matrix,) = to_matrices(load_results(results, "made-up").runs, Study("made-up", "Made up"))
    result = write_headline(matrix, find_drawing(plot).metrics)
    assert result is not None
    return result.sentence.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        (
            {1: 100.0, 4: 400.0, 16: 1500.0},
            "from 100 Mbit/s (1 stream) to 1,500 Mbit/s (16 streams) over 3 cells (n = 1).",
        ),
        ({16: 588.0}, "588 Mbit/s (16 streams; n = 1)."),
    ],
)
def test_it_has_the_range_over_the_cells(
    tmp_path: Path, levels: dict[int, float], sentence: str
) -> None:
    for streams, mbit in levels.items():
        write(tmp_path, mbit, streams=streams)
    assert headline(tmp_path) == f"Goodput: {sentence}"


def test_it_states_degraded_cells_and_the_range_of_the_runs(tmp_path: Path) -> None:
    write(tmp_path, 100.0, 6, streams=1)
    write(tmp_path, 200.0, 6, streams=4, verdict="degraded")
    assert headline(tmp_path).endswith("over 2 cells (n = 6, 1 degraded).")
    (matrix,) = to_matrices(load_results(tmp_path, "made-up").runs)
    result = write_headline(matrix, ("goodput",))
    assert result is not None and result.spread == "100 to 105 and 200 to 210"


def test_it_is_about_the_metric_of_the_matrix_s_plot(tmp_path: Path) -> None:
    """A plot of queueing delay has a headline on queueing delay, and no other."""
    for queue, packets in (("fifo", 500), ("codel", 20)):
        folder = synthetic.write_at(tmp_path, {"queue": queue}, asked={"duration_s": 4.0})
        sampled = {"role": "bottleneck", "direction": "forward", "sent_bytes": 9}
        rows = [sampled | {"t_s": t_s, "backlog_bytes": 1500 * packets} for t_s in (1.0, 2.0)]
        synthetic.put_lines(folder, "queues", rows)
    delay = headline(tmp_path, "latency")
    assert delay.startswith("Queueing delay, median: from ") and " ms (codel queue) to " in delay
    assert headline(tmp_path, "ping").startswith("Goodput: ")  # no run has a ping


def test_of_competing_flows_it_names_those_with_least_and_most(tmp_path: Path) -> None:
    run = synthetic.several({"cc": "bbr"}, {"cc": "cubic"}, duration_s=4.0)
    folder = synthetic.write_run(tmp_path, run, goodput_mbit=100.0)
    synthetic.write_over_time(folder, run, {"flow1": 80.0, "flow2": 20.0})
    assert headline(tmp_path, "shares").startswith(
        "Share of the sum: from 20 % (flow2, CUBIC) to 80 % (flow1, BBR)"
    )


def test_a_matrix_without_a_run_that_counts_has_none(tmp_path: Path) -> None:
    write(tmp_path, 1.0, verdict="invalid", streams=1)
    (matrix,) = to_matrices(load_results(tmp_path, "made-up").runs)
    assert write_headline(matrix, ("goodput",)) is None


def test_a_fixed_rate_is_named_by_its_rate() -> None:
    assert cc_name("fixedrate(rate_kbit=30000)").replace("\u00a0", " ") == "a fixed 30 Mbit/s"
    assert cc_name("bbr(gain=2)+dctcp") == "BBR (gain=2) + DCTCP"


def test_it_names_where_the_congestion_controls_differ_most(tmp_path: Path) -> None:
    for streams, cc, mbit in ((1, "cubic", 90.0), (1, "bbr", 80.0), (4, "cubic", 50.0)):
        write(tmp_path, mbit, streams=streams, cc=cc)
    write(tmp_path, 400.0, streams=4, cc="bbr")
    (matrix,) = to_matrices(load_results(tmp_path, "made-up").runs)
    result = write_headline(matrix, ("goodput",))
    assert result is not None and result.contrast.replace("\u00a0", " ") == (
        "The congestion controls differ most at 4 streams: BBR 400 Mbit/s, CUBIC 50 Mbit/s,"
        " a factor of 8."
    )


def test_a_factor_of_one_is_not_named(tmp_path: Path) -> None:
    for streams, cc, mbit in ((1, "cubic", 46.5), (1, "bbr", 46.3), (4, "cubic", 46.0)):
        write(tmp_path, mbit, streams=streams, cc=cc)
    write(tmp_path, 46.0, streams=4, cc="bbr")
    (matrix,) = to_matrices(load_results(tmp_path, "made-up").runs)
    result = write_headline(matrix, ("goodput",))
    assert result is not None and result.contrast.endswith("BBR 46.3\u00a0Mbit/s.")


def test_one_condition_needs_no_second_sentence(tmp_path: Path) -> None:
    for cc, mbit in (("cubic", 90.0), ("bbr", 80.0)):
        write(tmp_path, mbit, cc=cc)
    (matrix,) = to_matrices(load_results(tmp_path, "made-up").runs)
    result = write_headline(matrix, ("goodput",))
    assert result is not None and result.contrast == ""
