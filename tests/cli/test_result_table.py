# SPDX-License-Identifier: MIT
"""What ./lab try prints: bars as long as their numbers, intervals, and a CSV with units."""

import csv
import io
from pathlib import Path

import pytest
from rich.console import Console

from gostlab import api
from gostlab.api.run import save_experiment_file
from gostlab.cli import common, main
from gostlab.cli.result_table import answer_table, draw_bar, fastest_lines, to_csv
from gostlab.cli.run import try_verb
from gostlab.results.metrics import Retransmissions, RunCluster, Spread
from gostlab.scheduler.cell_result import CellResult, CellStatistics

FIRST = {"try": "cubic"}


NO_STATISTICS = CellStatistics(lambda _: None, lambda _: (), lambda _: None)


def cell(cc: str, mbit: float | None = 10.0, runs: int = 1, **changes: object) -> CellResult:
    """A cell whose summary is this one, and of which no run is read."""
    values = () if mbit is None else (mbit * 1e6,) * runs
    summary = {
        "matrix": "try",
        "factors": {"streams": 1, "cc": cc},
        "counted": (None,) * len(values),
        "copies": 0,
        "verdict": "ok",
        "reasons": (),
        "goodput_bps": None if mbit is None else mbit * 1e6,
        "interval_bps": None,
        "states_bps": (),
        "goodputs_bps": values,
        "udp_beside_bps": None,
        "both_directions": False,
        "wan_resent": Retransmissions(12, 2400),
        "path_lost": None,
        "idle_rtt_ms": 80.0,
        "srtt_ms": Spread(160.0, 161.0),
        "queue_delay_ms": Spread(80.0, 81.0),
    }
    told = CellResult((None,) * runs, NO_STATISTICS)  # type: ignore[arg-type]
    vars(told).update(summary | changes)
    return told


def printed(*cells: CellResult, width: int = 140, blocks: bool = True) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(answer_table(cells, FIRST, width, blocks=blocks))
    return file.getvalue()


def row(text: str, label: str) -> str:
    return next(line for line in text.splitlines() if label in line)


@pytest.mark.parametrize(
    ("value", "blocks", "drawn"),
    [
        (100, True, "████"),
        (50, True, "██"),
        (53.2, True, "██▏"),
        (0.001, True, "▏"),
        (0, True, ""),
        (200, True, "████"),
        (50, False, "##"),
    ],
)
def test_a_bar_is_as_long_as_its_number(value: float, blocks: bool, drawn: str) -> None:
    assert draw_bar(value, 100, 4, blocks=blocks) == drawn


def test_a_row_has_bar_number_ratio_delay_resent_and_verdict() -> None:
    text = printed(cell("cubic", 10), cell("bbr", 40, verdict="degraded"))

    words = row(text, "1 stream, bbr").split()
    assert words[3:] == [
        *("█" * 14, "40.0", "n", "=", "1", "4.00"),
        *("░" * 5 + "█" * 5, "160,", "161", "12", "(0.5", "%)", "degraded"),
    ]
    assert "95 % interval" not in text and "/ cubic" in text


def test_what_udp_got_stands_beside_the_goodput_that_leaves_it_out() -> None:
    text = printed(cell("cubic", 10, udp_beside_bps=5e6), cell("bbr", 40))
    assert "Mbit/s, without UDP" in text
    assert "5.00" in row(text, "stream, cubic") and "–" in row(text, "stream, bbr")
    assert "UDP" not in printed(cell("cubic", 10))
    assert "Mbit/s, both directions" in printed(cell("cubic", 10, both_directions=True))


def test_two_runs_have_their_own_ends_and_six_an_interval() -> None:
    two = cell("bbr", 10, runs=2, goodputs_bps=(9e6, 11e6))
    assert "9.00 – 11.0, n = 2" in row(printed(two), "bbr") and "least – most" in printed(two)
    differing = (9e6, 9e6, 10e6, 10e6, 11e6, 11e6)
    six = cell("bbr", 10, runs=6, goodputs_bps=differing, interval_bps=(9.5e6, 10.5e6))
    assert "9.50 – 10.5" in row(printed(six), "bbr") and "95 % interval" in printed(six)


def test_runs_that_are_identical_or_in_states_are_called_so() -> None:
    same = cell("bbr", 47, runs=6)
    assert "6 identical runs" in row(printed(same), "bbr")
    states = (RunCluster(180e6, 7), RunCluster(570e6, 3))
    apart = cell("bbr", 181, runs=10, goodputs_bps=(1.8e8, 5.7e8), states_bps=states)
    assert "180 (7 of 10) or 570 (3 of 10)" in row(printed(apart), "bbr")
    assert fastest_lines([apart, cell("cubic", 10)]) == []


def test_a_run_that_failed_has_no_bar_and_no_number() -> None:
    failed = cell("bbr", None, verdict="failed", srtt_ms=None, wan_resent=None)
    line = row(printed(cell("cubic"), failed), "bbr")
    assert "█" not in line and "failed, 0 of 1" in line and "–" in line


def test_a_narrow_terminal_keeps_the_numbers() -> None:
    text = printed(cell("cubic"), cell("bbr", 40), width=60)
    assert "█" not in text and "40.0" in text and "160" in text


def test_the_last_line_says_who_was_fastest_and_by_how_much() -> None:
    assert fastest_lines([cell("cubic", 10), cell("bbr", 40)]) == [
        "Fastest: 1 stream, bbr with 40.0 Mbit/s, 4.0 times the slowest (1 stream, cubic: 10.0)."
    ]
    assert fastest_lines([cell("cubic", 10), cell("bbr", 10.2)]) == [
        "All within 5 % of each other."
    ]
    assert fastest_lines([cell("cubic"), cell("bbr", None)]) == []


CSV = """streams 1 cc cubic runs 6 runs_that_count 6 goodput_mbit 10 goodput_low_mbit 9.5
goodput_high_mbit 10.5 idle_rtt_ms 80 srtt_median_ms 160 srtt_p95_ms 161 queue_delay_median_ms 80
queue_delay_p95_ms 81 wan_segments_resent 12 wan_segments_sent 2400 verdict ok""".split()


def test_the_csv_has_levels_units_and_empty_cells() -> None:
    six = cell("cubic", 10, runs=6, interval_bps=(9.5e6, 10.5e6))
    rows = list(csv.DictReader(io.StringIO(to_csv([six, cell("bbr", None)]))))

    assert rows[0] == dict(zip(CSV[::2], CSV[1::2], strict=True))
    assert rows[1]["goodput_mbit"] == "" and rows[1]["runs_that_count"] == "0"


def test_lab_without_a_verb_says_what_to_try(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == common.EXIT_BAD_INPUT
    told = capsys.readouterr().out
    words = next(line for line in told.splitlines() if "./lab try" in line).split()
    assert main.build_parser().parse_args(words[1:]).verb is try_verb.run


def test_saving_and_listing_ask_for_the_same_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.yaml"
    words = ["--dry-run", "--machine", "sandbox"]
    asked = ["--loss", "1%", "--forward.rate", "5mbit", "--syscall-cost", "1us", "--repeat", "2"]

    assert main.main(["try", *asked, "--save", str(file), *words]) == 0
    tried = capsys.readouterr().out
    assert main.main(["run", str(file), *words]) == 0

    assert capsys.readouterr().out == tried and len(tried.splitlines()) == 4


def test_what_a_question_leaves_is_an_experiment_like_any(tmp_path: Path) -> None:
    asked = api.Experiment.of(cc=["cubic", "bbr"], machine="sandbox")
    (tmp_path / asked.name).mkdir()

    save_experiment_file(asked, tmp_path)

    file = tmp_path / asked.name / "experiment.yaml"
    assert asked.question is not None and file.read_text() == asked.question.text
    again = api.Experiment.from_file(file, machine="sandbox")
    assert [run.name for run in again.runs] == [run.name for run in asked.runs]


def test_every_setting_has_an_option_and_none_takes_another_s_place() -> None:
    from gostlab.spec.adhoc import option_of
    from gostlab.spec.settings import known_names

    parser = main.build_parser()  # argparse refuses an option that is there twice
    for name in known_names():
        asked = parser.parse_args(["try", option_of(name), "word", "--machine", "sandbox"])
        assert vars(asked)[f"ask {name}"] == "word" and asked.machine == "sandbox"
