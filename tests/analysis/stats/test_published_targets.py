# SPDX-License-Identifier: MIT
"""What a study published beside what the lab got."""

import csv
import math
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import synthetic

from gostlab.analysis.load import shipped_baselines
from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.shipped_baselines import ShippedMetric, parse_row, to_csv
from gostlab.analysis.load.study import PublishedClaim, Study
from gostlab.analysis.stats.cells import MatrixResults, to_matrices
from gostlab.analysis.stats.metrics import METRICS
from gostlab.analysis.stats.published_targets import (
    agreement_sentence,
    baseline_rows,
    metric_label,
    rates_table,
    target_rows,
    to_table,
    validation_verdict,
)
from gostlab.registry.plot_names import publishable_metrics
from gostlab.results.metrics import RunCluster
from gostlab.spec.experiment import Published


def entry(figure: str, factors: tuple = (), matrix: str = "main", **what: Any) -> Published:
    return Published(matrix, factors, figure=figure, source="a source", **what)


def rows_of(results: Path, *published: Published) -> tuple:
    study = Study("made-up", "Made up", published=published)
    return target_rows(study, to_matrices(load_results(results, "made-up").runs, study))


write = partial(synthetic.write_repetitions, retr=800)


@pytest.mark.parametrize(
    ("asked", "got", "holds"),
    [
        (PublishedClaim("goodput_mbit", 100.0), 110.0, True),
        (PublishedClaim("goodput_mbit", 100.0), 111.0, False),
        (PublishedClaim("goodput_mbit", 100.0), 89.0, False),
        (PublishedClaim("retr", 60.0), 90.0, True),
        (PublishedClaim("retr", 60.0), 40.0, True),
        (PublishedClaim("retr", 60.0), 91.0, False),
        (PublishedClaim("retr", 60.0), 39.0, False),
        (PublishedClaim("retr", 100.0, least=95.0), 1e9, True),
        (PublishedClaim("retr", 100.0, least=95.0), 94.0, False),
        (PublishedClaim("retr", None, 4.0, 11.0), 11.0, True),
        (PublishedClaim("retr", None, 4.0, 11.0), 11.1, False),
        (PublishedClaim("convergence_s", None, most=2.0), math.inf, False),
    ],
)
def test_a_value_agrees_within_its_band_or_ten_percent_and_a_count_within_a_factor(
    asked: PublishedClaim, got: float, holds: bool
) -> None:
    assert asked.holds(got) is holds


def test_a_target_reads_as_people_write_it() -> None:
    assert PublishedClaim("goodput_mbit", 144.0).sentence == "144 ± 10\u00a0%"
    assert PublishedClaim("retr", 63.0).sentence == "63 (a factor of 1.5)"
    assert PublishedClaim("retr", None, 4.0, 11.0).sentence == "4 to 11"
    assert PublishedClaim("retr", 20.0, least=8.0).sentence == "20 (at least 8)"
    assert PublishedClaim("retr", None, most=2.0).sentence == "at most 2"
    assert metric_label(PublishedClaim("share", 0.5, flow="flow2")) == "share of the sum, flow2"
    assert metric_label(PublishedClaim("ratio", 8.0, versus="cubic")) == "goodput / that of cubic"


def test_the_median_of_the_runs_that_count_is_judged(tmp_path: Path) -> None:
    write(tmp_path, "cubic", 90.0, 100.0, 500.0)
    fourth = synthetic.cell("cubic", 16, repetition=4)
    synthetic.write_run(tmp_path, fourth, goodput_mbit=9999.0, verdict="invalid")
    agrees, disagrees = rows_of(
        tmp_path, entry("goodput_mbit", value=95.0), entry("retr", value=10.0, why="another leg")
    )
    assert (agrees.verdict, agrees.got.median, agrees.n) == ("agrees", 100.0, 3)
    assert (disagrees.verdict, disagrees.why) == ("disagrees", "another leg")
    assert disagrees.source == "a source"
    said = [validation_verdict(rows) for rows in ((agrees,), (agrees, disagrees), ())]
    assert said == [True, False, False]


def test_an_old_entry_has_a_row_for_goodput_and_one_for_retr(tmp_path: Path) -> None:
    write(tmp_path, "cubic", 1400.0)
    factors = (("cc", "cubic"), ("streams", 16.0), ("tunnel", "gost+ws"))
    rows = rows_of(tmp_path, Published("main", factors, 1430.0, 807, source="thesis"))
    assert [(row.figure, row.verdict) for row in rows] == [
        ("goodput (Mbit/s)", "agrees"),
        ("retransmissions (iperf3's Retr)", "agrees"),
    ]


def test_what_has_not_run_or_not_well_is_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "cubic", 100.0, verdict="invalid")
    write(tmp_path, "bbr", 100.0, outcome="failed", error="it died")
    rows = rows_of(
        tmp_path,
        *(entry("goodput_mbit", (("cc", cc),), value=100.0) for cc in ("cubic", "bbr", "reno")),
        entry("goodput_mbit", matrix="absent", value=1.0),
        entry("window_pkts", (("cc", "cubic"),), value=1.0),
    )
    invalid, none = "invalid runs only", "no run"
    assert [row.verdict for row in rows] == [invalid, none, none, none, invalid]
    assert [row.cell for row in rows[2:4]] == ["Reno", "absent"]


def test_an_entry_about_several_cells_has_a_row_for_each_also_for_the_invalid(
    tmp_path: Path,
) -> None:
    write(tmp_path, "cubic", 100.0)
    write(tmp_path, "bbr", 100.0, verdict="invalid")
    rows = rows_of(tmp_path, entry("goodput_mbit", value=100.0))
    assert sorted(row.verdict for row in rows) == ["agrees", "invalid runs only"]


def test_the_fullest_variant_is_judged(tmp_path: Path) -> None:
    write(tmp_path, "cubic", 100.0, 100.0)
    synthetic.write_run(tmp_path, synthetic.cell("cubic", 16, duration_s=10.0), goodput_mbit=7.0)
    (row,) = rows_of(tmp_path, entry("goodput_mbit", value=100.0))
    assert row.verdict == "agrees" and row.variant == "duration 30 s"


def test_a_ratio_is_that_of_runs_of_one_seed(tmp_path: Path) -> None:
    write(tmp_path, "cubic", 1.0, 10.0, 100.0)
    write(tmp_path, "bbr", 9.0, 90.0, 900.0)
    (row,) = rows_of(tmp_path, entry("ratio", least=8.0, versus="cubic"))
    assert row.cell.endswith(", BBR") and row.got.values == (9.0, 9.0, 9.0)
    assert row.verdict == "agrees"


def test_a_flow_s_figure_is_its_own(tmp_path: Path) -> None:
    run = synthetic.several({}, {})
    folder = synthetic.write_run(tmp_path, run, goodput_mbit=100.0, name="one")
    synthetic.write_over_time(folder, run, {"flow1": 60.0, "flow2": 30.0})
    told = (
        ("goodput_mbit", 50.0, "flow2"),
        ("share", 1 / 3, "flow2"),
        ("share", 2 / 3, "flow1"),
        ("jain", 0.9, None),
        ("total_mbit", 90.0, None),
    )
    asked = (entry(name, matrix="fair", value=value, flow=flow) for name, value, flow in told)
    rows = rows_of(tmp_path, *asked)
    assert [row.verdict for row in rows] == ["agrees"] * 5
    assert [row.got.median for row in rows] == pytest.approx([value for _, value, _ in told])


def test_a_run_that_never_converges_disagrees_with_any_time(tmp_path: Path) -> None:
    run = synthetic.several({}, {"start_s": 5.0, "duration_s": 55.0})
    folder = synthetic.write_run(tmp_path, run, name="one")
    synthetic.write_over_time(folder, run, {"flow1": 90.0, "flow2": 10.0})
    (row,) = rows_of(tmp_path, entry("convergence_s", matrix="fair", most=20.0))
    assert row.verdict == "disagrees" and math.isinf(row.got.median)
    assert to_table([row]).formatted_rows()[0][4] == "never"


def test_the_table_counts_what_agrees_and_keeps_the_numbers(tmp_path: Path) -> None:
    write(tmp_path, "cubic", *[100.0 + step for step in range(6)])
    both = (entry("goodput_mbit", value=100.0), entry("retr", value=1.0))
    table = to_table(rows_of(tmp_path, *both))
    assert "1 agrees, 1 disagrees" in table.note
    agreeing = [entry("goodput_mbit", value=value) for value in (100.0, 101.0)]
    assert "2 agree." in to_table(rows_of(tmp_path, *agreeing)).note
    first, _ = table.formatted_rows()
    assert first[2:5] == ["goodput (Mbit/s)", "100 ± 10\u00a0%", "102"]
    assert first[5:8] == ["6", "100 to 105 (96.9\u00a0%)", "agrees"]
    assert "Why they differ" not in [column.heading for column in table.columns]
    assert list(table.to_frame()["value"]) == [100.0, 1.0] and table.to_markdown().count("\n") > 4
    assert to_table([]).note


def test_what_a_file_may_publish_is_what_the_analysis_can_compute() -> None:
    assert publishable_metrics() == tuple(merit.name for merit in METRICS)


def test_the_fastest_three_are_a_mean_over_the_runs(tmp_path: Path) -> None:
    write(tmp_path, "cubic", 10.0, 50.0, 20.0, 30.0)
    (row,) = rows_of(tmp_path, entry("goodput_best3", value=33.0))
    assert (row.got.median, row.n, row.verdict) == (pytest.approx(100 / 3), 4, "agrees")
    (none,) = rows_of(tmp_path / "other", entry("goodput_best3", value=33.0))
    assert none.verdict == "no run"


# -- the lab's own spread


def rate_row(results: Path, value: float) -> Any:
    (row,) = rows_of(results, entry("goodput_mbit", value=value))
    return row


def test_a_value_outside_ten_percent_may_lie_in_the_spread_of_enough_runs(tmp_path: Path) -> None:
    write(tmp_path, "bbr", 330.0, 331.0, 335.0, 340.0, 1088.0)
    row = rate_row(tmp_path, 467.0)
    assert (row.verdict, row.spread, row.in_spread) == ("disagrees", (330.0, 1088.0, 5), True)
    assert not rate_row(tmp_path, 1200.0).in_spread
    (told,) = rates_table([row], "thesis").rows
    assert (told["spread"], told["holds"]) == ("330–1,088", "in spread")


def test_few_runs_have_the_spread_that_is_shipped(tmp_path: Path, monkeypatch: Any) -> None:
    write(tmp_path, "bbr", 328.0)
    row = rate_row(tmp_path, 467.0)
    assert (row.spread, row.in_spread) == (None, False)
    shipped = ShippedMetric("main", row.cell, "goodput_mbit", 330.0, 533.0, 1088.0, 5, "lab 1.0")
    folder = tmp_path / "measured"
    folder.mkdir()
    (folder / "made-up.csv").write_text(to_csv([shipped]), encoding="utf-8")
    monkeypatch.setattr(shipped_baselines, "FOLDER", folder)
    shipped_baselines.load_baselines.cache_clear()
    row = rate_row(tmp_path, 467.0)
    shipped_baselines.load_baselines.cache_clear()
    assert (row.spread, row.in_spread, row.verdict) == ((330.0, 1088.0, 5), True, "disagrees")
    assert "lab 1.0" in rates_table([row], "thesis").note


def matrices_of(results: Path) -> list[MatrixResults]:
    return to_matrices(load_results(results, "made-up").runs)


def test_what_enough_runs_measured_can_be_shipped(tmp_path: Path) -> None:
    write(tmp_path, "bbr", 330.0, 331.0, 335.0, 340.0, 1088.0)
    write(tmp_path, "cubic", 180.0)
    rows = rows_of(tmp_path, entry("goodput_mbit", value=467.0))
    (told,) = baseline_rows(rows, matrices_of(tmp_path), "lab 1.0")
    assert (told.least, told.median, told.most, told.n) == (330.0, 335.0, 1088.0, 5)


TWO_STATES = (339.0, 340.0, 341.0, 700.0, 701.0, 342.0, 343.0)


def test_a_matrix_that_repeats_a_cell_more_often_says_what_is_shipped_of_it(tmp_path: Path) -> None:
    write(tmp_path, "bbr", 339.0)
    for repetition, goodput in enumerate(TWO_STATES, 1):
        asked = synthetic.cell("bbr", 16, repetition=repetition, matrix="states")
        synthetic.write_run(tmp_path, asked, goodput_mbit=goodput, name=f"states-{repetition}")
    rows = rows_of(tmp_path, entry("goodput_mbit", value=467.0))

    (told,) = baseline_rows(rows, matrices_of(tmp_path), "lab 1.0")

    assert (told.matrix, told.least, told.most, told.n) == ("main", 339.0, 701.0, 7)
    assert told.states == (RunCluster(341.0, 5), RunCluster(700.5, 2))
    (read,) = map(parse_row, csv.DictReader(StringIO(to_csv([told]))))
    assert read == told


def test_a_run_of_a_cell_with_two_shipped_states_is_neither_right_nor_wrong(
    tmp_path: Path, monkeypatch: Any
) -> None:
    write(tmp_path, "bbr", 339.0)
    write(tmp_path, "cubic", 100.0)
    asked = [
        entry("goodput_mbit", (("cc", cc),), value=value)
        for cc, value in (("bbr", 467.0), ("cubic", 101.0))
    ]
    cells = [row.cell for row in rows_of(tmp_path, *asked)]
    states = (RunCluster(341.0, 18), RunCluster(700.5, 2))
    shipped = [
        ShippedMetric("main", cells[0], "goodput_mbit", 330.0, 341.0, 705.0, 20, "lab 1.0", states),
        ShippedMetric("main", cells[1], "goodput_mbit", 99.0, 100.0, 101.0, 5, "lab 0.9"),
    ]
    (tmp_path / "made-up.csv").write_text(to_csv(shipped), encoding="utf-8")
    monkeypatch.setattr(shipped_baselines, "FOLDER", tmp_path)
    shipped_baselines.load_baselines.cache_clear()

    rows = rows_of(tmp_path, *asked)

    shipped_baselines.load_baselines.cache_clear()
    assert [row.verdict for row in rows] == ["one of two states", "agrees"]
    table = rates_table(rows, "thesis")
    assert [(told["spread"], told["holds"]) for told in table.rows] == [
        ("341 (18 of 20) or 700 (2 of 20)", "one of two states"),
        ("99–101", "yes"),
    ]
    assert "neither agrees nor disagrees" in table.note
    assert f"none was made here: lab 1.0. Those of {cells[1]}: lab 0.9." in table.note
    assert "Of 2: 1 agrees, 1 shows one of two states." in to_table(rows).note
    assert agreement_sentence(rows, "thesis") == "1 of 1 of the thesis's numbers agree."


def test_a_file_of_measured_values_that_is_spoilt_is_none(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(shipped_baselines, "FOLDER", tmp_path)
    for content in (
        "",
        "matrix,cell\nmain",
        "matrix,cell,figure,least,median,most,n,made_by\na,b,c,x,1,1,5,d",
    ):
        (tmp_path / "spoilt.csv").write_text(content, encoding="utf-8")
        shipped_baselines.load_baselines.cache_clear()
        assert not shipped_baselines.load_baselines("spoilt")
    shipped_baselines.load_baselines.cache_clear()
