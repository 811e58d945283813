# SPDX-License-Identifier: MIT
"""Published values: how many agree, why others do not, and the figure of lab over study."""

from dataclasses import replace

import pytest

from gostlab.analysis.load.study import PublishedClaim
from gostlab.analysis.plotting.measured_vs_published import (
    agreement_caption,
    draw_measured_vs_published,
    ratio_to_published,
)
from gostlab.analysis.stats.published_targets import (
    TargetComparison,
    agreement_sentence,
    reasons_table,
)
from gostlab.analysis.stats.statistics import summarise


def row(
    verdict: str, value: float | None = 100.0, got: float = 50.0, why: str = ""
) -> TargetComparison:
    claim = PublishedClaim(
        "goodput_mbit", value, least=None if value else 4.0, most=None if value else 6.0
    )
    summary = None if verdict == "no run" else summarise([got])
    return TargetComparison(
        "main", "1 stream", "goodput (Mbit/s)", "100", summary, verdict, "table 1", why, claim
    )


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        ([], ""),
        (["no run"], ""),
        (["agrees"], "1 of 1 of the thesis's numbers agree."),
        (
            ["agrees", "disagrees", "no run"],
            "1 of 2 of the thesis's numbers agree; 1 more have no run that counts.",
        ),
    ],
)
def test_published_values_are_counted(verdicts: list[str], sentence: str) -> None:
    assert agreement_sentence([row(verdict) for verdict in verdicts], "thesis") == sentence


def test_each_reason_stands_once_the_most_frequent_first() -> None:
    rows = [
        row("disagrees", why="the CPU"),
        row("disagrees", got=20.0, why="the buffer"),
        row("disagrees", got=30.0, why="the buffer"),
        row("disagrees"),
        row("agrees", got=100.0, why="the buffer"),
    ]
    table = reasons_table(rows, "reasons", "Why")
    assert table is not None
    assert [(each["why"], each["numbers"], each["over"]) for each in table.rows] == [
        ("the buffer", 2, "0.2 to 0.3"),
        ("the CPU", 1, "0.5"),
        ("Nobody has found out yet.", 1, "0.5"),
    ]
    assert reasons_table([row("agrees")], "reasons", "Why") is None


def test_a_number_is_divided_by_the_study_s_or_the_middle_of_its_band() -> None:
    assert ratio_to_published(row("disagrees")) == 0.5
    assert ratio_to_published(row("agrees", value=None, got=5.0)) == 1.0
    assert ratio_to_published(row("no run")) is None
    assert ratio_to_published(row("disagrees", value=0.0)) is None


def test_lab_over_study_has_a_dot_per_number_coloured_by_verdict() -> None:
    rows = [row("agrees", got=100.0), row("disagrees"), row("disagrees", got=1e6), row("no run")]
    ax = draw_measured_vs_published(rows, "thesis").axes[0]
    dots = [line for line in ax.lines if line.get_linestyle() == "None"]
    assert len(dots) == 3
    assert len({line.get_color() for line in dots}) == 2
    assert dots[-1].get_marker() == ">"  # further out than the axis goes
    assert ax.get_xlabel() == "Lab / thesis"
    many = [replace(row("agrees", got=100.0), matrix=f"matrix {each}") for each in range(40)]
    crowded = draw_measured_vs_published(many, "thesis").axes[0]
    assert sum(line.get_linestyle() == "None" for line in crowded.lines) == 40
    assert [label.get_text() for label in crowded.get_yticklabels()] == ["goodput (Mbit/s)"]
    caption = agreement_caption(rows, "thesis")
    assert "3 of 4" in caption and "1 has no run that counts" in caption
