"""Plain sentences on made-up numbers: true, with number, interval and n, and in good English."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import synthetic

from gostlab.analysis.load.published import Claim, Study
from gostlab.analysis.load.runs import load_results
from gostlab.analysis.plotting.measured_vs_published import (
    against_caption,
    draw_against,
    over_study,
)
from gostlab.analysis.plotting.narrative import section_sentences, study_sentence
from gostlab.analysis.plotting.plot import Sweep
from gostlab.analysis.plotting.sentences import Gain, compare
from gostlab.analysis.stats.cells import to_matrices
from gostlab.analysis.stats.published_targets import Target, to_reasons
from gostlab.analysis.stats.statistics import summarise
from gostlab.analysis.stats.text_table import cc_name

STUDY = Study("made-up", "Made up", called="thesis")


def gain(place: str, *times: float, study: float | None = None, cpu_bound: bool = False) -> Gain:
    summary = summarise(times)
    assert summary is not None
    return Gain("", place, summary, study, cpu_bound)


def said(*gains: Gain) -> str:
    return compare(gains, "CUBIC", "BBR", "thesis").replace("\u00a0", " ")


def write(
    results: Path, mbit: float, repetitions: int = 1, verdict: str = "ok", **levels: Any
) -> None:
    """Runs of one cell, all alike but for a hundredth of the goodput."""
    for number in range(repetitions):
        goodput_mbit = mbit * (1 + 0.01 * number)
        measured = {"goodput_mbit": goodput_mbit, "verdict": verdict}
        synthetic.write_at(results, levels, number + 1, **measured)


def sentences(results: Path) -> list[str]:
    matrices = to_matrices(load_results(results, "made-up").runs, STUDY)
    found = section_sentences(Sweep(matrices[0], matrices, STUDY))
    return [each.sentence.replace("\u00a0", " ") for each in found]


def has(sentence: str, *parts: str) -> None:
    """That a sentence says all of this."""
    assert all(part in sentence for part in parts), sentence


@pytest.mark.parametrize(
    ("gains", "parts"),
    [
        ([("16 streams", 0.99, 1.28)], "gains nothing at 16 streams|0.99 times CUBIC|1.28"),
        ([("", 0.5, None)], "0.50 times what CUBIC does|(n = 1)"),
        (
            [("1 stream", 0.98, None), ("4 streams", 1.0, None)],
            "gains nothing at 1 stream|2 conditions|as much in all (0.98 to 1.00 times)",
        ),
        (
            [("1 % loss", 18.0, None), ("0 % loss", 1.5, None), ("0.1 % loss", 3.0, None)],
            "carries 18 times|at 1 % loss|more in all (1.50 to 18 times)",
        ),
        (
            [("a", 2.0, None), ("b", 1.0, None), ("c", 0.9, None), ("d", 0.8, None)],
            "2.00 times|with a |more in 1, as much in 1 and less in 2 (0.80 to 2.00 times)",
        ),
        (
            [("a", 1.01, 1.3), ("b", 0.8, None)],
            "gains nothing with a|1.01 times CUBIC|thesis: 1.30|as much in 1 and less in 1",
        ),
    ],
)
def test_a_comparison_names_the_place_that_says_most_and_counts_all(
    gains: list[tuple[str, float, float | None]], parts: str
) -> None:
    told = said(*(gain(place, times, study=study) for place, times, study in gains))
    has(told, *parts.split("|"))


def test_six_pairs_have_their_interval() -> None:
    assert "(1.20 to 1.25, n = 6)" in said(gain("x", 1.2, 1.21, 1.22, 1.23, 1.24, 1.25))


def test_what_the_cpu_decided_compares_nothing() -> None:
    assert said(gain("x", 2.0, cpu_bound=True)).startswith("Nothing here compares BBR with CUBIC")
    aside = said(gain("x", 1.0), gain("y", 3.0, cpu_bound=True))
    has(aside, "(n = 1). 1 condition is set aside", "CPU decided")


@pytest.mark.parametrize(
    ("factor", "levels", "parts"),
    [
        (
            "streams",
            {1: 100.0, 4: 400.0, 16: 1500.0},
            "From 1 to 16 streams|rises from 100 Mbit/s to 1,500 Mbit/s|factor of 15 (n = 1)",
        ),
        ("loss", {"0.1%": 100.0, "1%": 97.0}, "Between 0.1 and 1 % loss|no more than 3.1 %|97"),
        (
            "tunnel",
            {"direct": 300.0, "gost+ws": 100.0},
            "Without a tunnel|is 300 Mbit/s, through gost+ws 100 Mbit/s|a factor of 3",
        ),
        (
            "where",
            {"bbr": 40.0, "cubic": 4.0},
            "With BBR everywhere|40 Mbit/s|with CUBIC everywhere 4 Mbit/s|factor of 10",
        ),
        ("queue", {"cake": 18.5, "pie": 18.6}, "Between a cake queue and a pie queue"),
        ("cc", {"bbr": 588.0}, "Goodput is 588 Mbit/s (BBR; n = 1)"),
    ],
)
def test_the_factor_that_moves_goodput_is_said_with_its_ends(
    tmp_path: Path, factor: str, levels: dict[Any, float], parts: str
) -> None:
    for level, mbit in levels.items():
        write(tmp_path, mbit, **{factor: level})
    [sentence] = sentences(tmp_path)
    has(sentence, *parts.split("|"))


def test_where_several_tunnels_are_compared_they_come_before_what_moves_the_rate_most(
    tmp_path: Path,
) -> None:
    rates = {"direct": 40.0, "gost+ws": 38.0, "gost+wss": 20.0, "gost+tcp": 39.0}
    for tunnel, mbit in rates.items():
        write(tmp_path, mbit, tunnel=tunnel, streams=1)
        write(tmp_path, 10 * mbit, tunnel=tunnel, streams=16)
    tunnels_said, streams_said, *_ = sentences(tmp_path)
    has(tunnels_said, "Without a tunnel and through gost+tcp and gost+ws", "is 38 to 40 Mbit/s")
    has(tunnels_said, "through gost+wss 20 Mbit/s, a factor of 2 (1 stream; n = 1)")
    has(streams_said, "From 1 to 16 streams", "from 40 Mbit/s to 400 Mbit/s", "(direct; n = 1)")


def test_where_several_kernels_are_compared_they_come_first(tmp_path: Path) -> None:
    for kernel, mbit in {"5.10": 13.8, "6.1": 8.56, "6.12": 8.7, "7.3": 8.8}.items():
        for loss, share in (("0.1%", 1.0), ("1%", 0.25)):
            write(tmp_path, share * mbit, kernel=kernel, loss=loss)
    kernels_said, loss_said, *_ = sentences(tmp_path)
    has(kernels_said, "kernel 5.10", "13.8 Mbit/s", "8.56", "a factor of 1.6")
    has(loss_said, "From 0.1 to 1 % loss")


def test_what_stands_before_a_place_is_what_people_say() -> None:
    def at(lead: str, place: str) -> str:
        whole = said(replace(gain(place, 0.99), lead=lead))
        return whole.removeprefix("BBR gains nothing ").partition(":")[0]

    assert at("streams", "16 streams, gost+ws") == "at 16 streams, gost+ws"
    assert at("tunnel", "gost+ws, 80 ms RTT") == "through gost+ws, 80 ms RTT"
    assert at("queue", "fq_codel queue") == "behind an fq_codel queue"
    assert at("queue", "cake queue") == "behind a cake queue"
    assert at("tunnel", "direct, 80 ms RTT") == "without a tunnel, 80 ms RTT"
    assert at("profile", "client-paris") == "on client-paris"
    assert at("ecn", "ECN off") == "with ECN off"


def test_levels_of_two_kinds_are_all_named(tmp_path: Path) -> None:
    """Which leg must run BBR: those that carry much against those that carry little."""
    for where, mbit in (
        ("cubic", 4.0),
        ({"wan": "bbr"}, 39.5),
        ({"app": "bbr"}, 4.1),
        ({"client": "bbr"}, 40.0),
        ("bbr", 40.4),
    ):
        write(tmp_path, mbit, where=where, loss="1%")
    matrices = to_matrices(load_results(tmp_path, "made-up").runs, STUDY)
    [found] = section_sentences(Sweep(matrices[0], matrices, STUDY))
    assert found.about == "ccs"  # so that it stands before what else moves the goodput
    said = found.sentence.replace("\u00a0", " ")
    has(said, "With BBR everywhere, BBR at client and BBR at wan", "39.5 to 40.4 Mbit/s")
    has(said, "with BBR at app and CUBIC everywhere 4 to 4.1 Mbit/s", "10 (1 % loss; n = 1)")


def test_a_fixed_rate_is_named_by_its_rate() -> None:
    assert cc_name("fixedrate(rate_kbit=30000)").replace("\u00a0", " ") == "a fixed 30 Mbit/s"
    assert cc_name("bbr(gain=2)+dctcp") == "BBR (gain=2) + DCTCP"


def test_six_runs_give_intervals_and_a_degraded_cell_is_called_so(tmp_path: Path) -> None:
    write(tmp_path, 100.0, 6, streams=1)
    write(tmp_path, 200.0, 6, streams=4, verdict="degraded")
    [sentence] = sentences(tmp_path)
    has(sentence, "from 102 Mbit/s (100 to 105) to 205 Mbit/s (200 to 210)")
    has(sentence, "a factor of 2 (n = 6, 1 of 2 degraded)")


def test_three_congestion_controls_are_named_where_they_differ_most(tmp_path: Path) -> None:
    for loss, rates in (("0%", (90.0, 90.0, 90.0)), ("1%", (2.0, 80.0, 1.0))):
        for cc, mbit in zip(("cubic", "bbr", "reno"), rates, strict=True):
            write(tmp_path, mbit, cc=cc, loss=loss)
    has(sentences(tmp_path)[0], "differ most at 1 % loss, of 2 conditions", "(n = 1)")
    has(sentences(tmp_path)[0], "BBR 80 Mbit/s, CUBIC 2 Mbit/s and Reno 1 Mbit/s")


@pytest.mark.slow
def test_no_section_has_more_than_three_sentences(everything: Path) -> None:
    study = synthetic.STUDY
    matrices = to_matrices(load_results(everything, study.name).runs, study)
    for matrix in matrices:
        found = section_sentences(Sweep(matrix, matrices, study))
        assert len(found) <= 3
        assert all("nan" not in each.sentence.lower() for each in found)


# -- the study


def row(verdict: str, value: float | None = 100.0, got: float = 50.0, why: str = "") -> Target:
    claim = Claim("goodput_mbit", value, least=None if value else 4.0, most=None if value else 6.0)
    summary = None if verdict == "no run" else summarise([got])
    return Target(
        "main", "1 stream", "goodput (Mbit/s)", "100", summary, verdict, "table 1", why, claim
    )


@pytest.mark.parametrize(
    ("verdicts", "parts"),
    [
        ([], ()),
        (["agrees"], ("1 of 1 of the thesis's rates", "10\N{NO-BREAK SPACE}%")),
        (["agrees", "disagrees", "no run"], ("1 of 2", "1 more without a run that counts")),
    ],
)
def test_agreement_is_counted_by_figure(verdicts: list[str], parts: tuple[str, ...]) -> None:
    said = study_sentence([row(verdict) for verdict in verdicts], "thesis")
    assert bool(said) == bool(parts) and all(part in said for part in parts)


def test_each_reason_stands_once_the_most_frequent_first() -> None:
    rows = [
        row("disagrees", why="the CPU"),
        row("disagrees", got=20.0, why="the buffer"),
        row("disagrees", got=30.0, why="the buffer"),
        row("disagrees"),
        row("agrees", got=100.0, why="the buffer"),
    ]
    table = to_reasons(rows, "reasons", "Why")
    assert table is not None
    assert [(each["why"], each["numbers"], each["over"]) for each in table.rows] == [
        ("the buffer", 2, "0.2 to 0.3"),
        ("the CPU", 1, "0.5"),
        ("Nobody has found out yet.", 1, "0.5"),
    ]
    assert to_reasons([row("agrees")], "reasons", "Why") is None


def test_a_number_is_divided_by_the_study_s_or_the_middle_of_its_band() -> None:
    assert over_study(row("disagrees")) == 0.5
    assert over_study(row("agrees", value=None, got=5.0)) == 1.0
    assert over_study(row("no run")) is None
    assert over_study(row("disagrees", value=0.0)) is None


def test_lab_over_study_has_a_dot_per_number_coloured_by_verdict() -> None:
    rows = [row("agrees", got=100.0), row("disagrees"), row("disagrees", got=1e6), row("no run")]
    ax = draw_against(rows, "thesis").axes[0]
    dots = [line for line in ax.lines if line.get_linestyle() == "None"]
    assert len(dots) == 3
    assert len({line.get_color() for line in dots}) == 2
    assert dots[-1].get_marker() == ">"  # further out than the axis goes
    assert ax.get_xlabel() == "Lab / thesis"
    many = [replace(row("agrees", got=100.0), matrix=f"matrix {each}") for each in range(40)]
    crowded = draw_against(many, "thesis").axes[0]
    assert sum(line.get_linestyle() == "None" for line in crowded.lines) == 40
    assert [label.get_text() for label in crowded.get_yticklabels()] == ["goodput (Mbit/s)"]
    caption = against_caption(rows, "thesis")
    assert "3 of 4" in caption and "1 has no run that counts" in caption
