# SPDX-License-Identifier: MIT
"""`gostlab.load`: tables whose columns say their units, and drawings on somebody's own axes."""

import re
from html import escape
from importlib.util import find_spec
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import gostlab
from gostlab.api import table_types
from gostlab.scheduler.experiment_result import ExperimentResult
from tests.analysis import synthetic

UNIT = re.compile(
    r".*_(mbit|bps|ms|us|s|pkts|bytes|segments|events|bdp|mib|share|p|gain|jain)"
    r"(_whole_load|_low|_high|_values)?(:\w+)?$"
)
# Numbers of things, which have no unit, and what is no number.
PLAIN = set(
    """run state verdict matrix topology tunnel cc streams repetition seed clock profile placement
    direction ordered flows tunnel_program kernel lab error variant cell n left_out buffer loss rtt
    rate host flow leg end local peer node dev role link""".split()
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    synthetic.write_matrix(place)
    return next(each for each in place.iterdir() if each.is_dir())


def without_unit(columns: object) -> set[str]:
    return {name for name in map(str, columns) if not UNIT.match(name)}  # type: ignore[call-overload]


@pytest.mark.slow
def test_runs_cells_and_samples_say_their_units(results: Path) -> None:
    found = gostlab.load(results)

    assert len(found.runs) > len(found.cells) > 1
    assert without_unit(found.full_runs.columns) <= PLAIN
    assert without_unit(found.full_cells.columns) <= PLAIN
    real = gostlab.load(synthetic.FIXTURE / "made-up")
    for of in gostlab.SAMPLES:
        table = real.samples(of)
        assert without_unit(c for c in table.columns if not c.startswith("factor:")) <= PLAIN, of
    queues = real.samples("queues").groupby("run")["t_s"]
    assert len(real.samples("sockets")) and all(t_s.is_monotonic_increasing for _, t_s in queues)


def test_a_cell_is_the_median_of_its_runs_that_count_and_its_interval_holds_it(
    results: Path,
) -> None:
    found = gostlab.load(results)
    cell = found.full_cells[found.full_cells["n"] >= 6].iloc[0]
    own = found.runs[
        (found.runs["tunnel"] == cell["tunnel"])
        & (found.runs["cc"] == cell["cc"])
        & (found.runs["streams"] == cell["streams"])
        & (found.runs["matrix"] == cell["matrix"])
    ]

    assert cell["goodput_mbit"] == pytest.approx(own["goodput_mbit"].median(), rel=0.2)
    assert cell["goodput_mbit_low"] <= cell["goodput_mbit"] <= cell["goodput_mbit_high"]
    assert len(cell["goodput_mbit_values"]) == cell["n"]


@pytest.mark.slow
def test_a_drawing_is_drawn_on_given_axes_in_the_caller_s_style(results: Path) -> None:
    found = gostlab.load(results)
    figure = Figure(figsize=(3.5, 2.5))
    drawn = found.draw("goodput", figure)
    assert figure.axes[: len(drawn)] == drawn and drawn[0].lines
    assert not figure.texts  # the report's footer is not mine

    again = Figure()
    axes = again.subplots(1, len(drawn), squeeze=False)
    assert found.draw("goodput", axes, legend=False) == list(axes.flat)
    assert axes[0][0].get_legend() is None
    with pytest.raises(gostlab.BadInput, match="panels"):
        found.draw("goodput", Figure().subplots(1, len(drawn) + 1))


@pytest.mark.slow
def test_the_report_s_own_figures_are_to_be_had_whole(results: Path) -> None:
    found = gostlab.load(results)
    figures = found.figures(found.drawings()[0])
    assert figures and all(isinstance(each, Figure) for each in figures.values())


def test_what_is_not_there_is_one_line(results: Path, tmp_path: Path) -> None:
    found = gostlab.load(results)
    for wrong, says in (
        (lambda: gostlab.load(tmp_path), "no run there"),
        (lambda: gostlab.load(tmp_path / "no"), "no such folder"),
        (lambda: found.samples("packets"), "sockets"),
        (lambda: found.draw("pie", Figure()), "no drawing pie"),
        (lambda: found.draw("goodput", Figure(), matrix="none"), "matrix 'none'"),
        (lambda: found.draw("goodput", Figure(), where={"cc": "none"}), "no cell"),
    ):
        with pytest.raises(gostlab.BadInput, match=says) as raised:
            wrong()
        assert "\n" not in str(raised.value)


def test_parquet_holds_the_tables_or_says_what_to_install(results: Path, tmp_path: Path) -> None:
    found = gostlab.load(results)
    if find_spec("pyarrow") is None:
        with pytest.raises(gostlab.MissingPart, match="pip install pyarrow"):
            found.to_parquet(tmp_path)
        return
    import pandas as pd

    files = found.to_parquet(tmp_path / "new")
    assert [each.name for each in files] == ["runs.parquet", "cells.parquet", "sockets.parquet"]
    assert list(pd.read_parquet(files[0])["goodput_mbit"]) == list(found.full_runs["goodput_mbit"])


def test_levels_are_numbers_with_units_or_categories(results: Path) -> None:
    import pandas as pd

    table = pd.DataFrame(
        {
            "loss": ["0%", "1%"],
            "forward.rate": ["10mbit", "1gbit"],
            "rtt": ["40ms", "1s"],
            "buffer": ["1bdp", "50pkts"],
            "streams": ["1", "16"],
            "rate": ["10mbit", "20mbit"],
            "rate_mbit": [10.0, 20.0],
            "ping_metric": [None, None],
            "error": [None, None],
        }
    )
    typed = table_types.with_types(table, {*table.columns} - {"rate_mbit", "ping_metric", "error"})
    assert list(typed["loss"]) == [0, 0.01] and list(typed["rtt_ms"]) == [40, 1000]
    assert list(typed["forward.rate_mbit"]) == [10, 1000] and list(typed["streams"]) == [1, 16]
    assert not {"rate", "rtt"} & {*typed.columns}
    assert typed["buffer"].dtype == "category" and typed["ping_metric"].dtype == float
    assert isinstance(typed["error"].dtype, pd.StringDtype)
    for levels, column, read in (
        (["0.5bdp", "1bdp"], "buffer_bdp", [0.5, 1]),
        (["10pkts", "50pkts"], "buffer_pkts", [10, 50]),
        (["150kB", "1MiB"], "buffer_bytes", [150_000, 1 << 20]),
    ):
        typed = table_types.with_types(pd.DataFrame({"buffer": levels}), {"buffer"})
        assert {name: list(typed[name]) for name in typed} == {column: read}


def test_a_flow_s_values_are_among_all_columns_alone() -> None:
    import pandas as pd

    full = pd.DataFrame(
        {
            "cell": ["one"],
            "share:bbr": [0.5],
            "share:bbr_low": [None],
            "share:bbr_values": [(0.5,)],
            "ping_ms": [None],
        }
    )
    assert list(table_types.short_cells(full)) == ["cell", "share:bbr", "share:bbr_low"]


def test_few_columns_come_first_and_none_of_them_is_empty_or_of_objects(results: Path) -> None:
    found = gostlab.load(results)
    for short, full in ((found.cells, found.full_cells), (found.runs, found.full_runs)):
        assert {*short.columns} < {*full.columns} and len(short) == len(full)
        assert [name for name in short if short[name].dtype == object] == []
    empty = found.cells.columns[~found.cells.notna().any()]
    assert [name for name in empty if not name.endswith(("_low", "_high"))] == []
    assert [n for n in found.full_cells if found.full_cells[n].dtype == object] == [
        name for name in found.full_cells if "_values" in name
    ]


def test_tables_go_to_other_libraries_by_the_dataframe_interchange(results: Path) -> None:
    found = gostlab.load(results)
    for table in (found.cells, found.runs):
        exchanged = table.__dataframe__()
        for name in table.columns:
            assert exchanged.get_column_by_name(name).dtype
    samples = gostlab.load(synthetic.FIXTURE / "made-up").samples()
    assert samples["flow"].dtype == "category" and list(samples.columns[:1]) == ["run"]


def test_a_notebook_shows_results_and_outcomes(results: Path) -> None:
    found = gostlab.load(results)
    page = found._repr_html_()
    assert "<table" in page and "goodput_mbit" in page and escape(found.name) in page
    outcome = ExperimentResult("x", ())
    assert "0 runs" in outcome._repr_html_()
