# SPDX-License-Identifier: MIT
"""Print whether expectations passed or failed, and by how much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from gostlab.scheduler import summary

if TYPE_CHECKING:
    from gostlab.analysis.stats.expectations import Judgement

STYLES = {"passed": "green", "failed": "bold red"}


def print_judgements(judged: Sequence[Judgement], file: TextIO) -> None:
    """Print a row per expectation and cell, then their number; nothing without expectations."""
    if not judged:
        return
    from rich.text import Text

    from gostlab.analysis.stats.expectations import summary_line

    console, table = summary.console_on(file), summary.plain_table()
    names_runs = any(judgement.run and not judgement.passed for judgement in judged)
    for heading in ("expected", "of", "", "value", "by how much", *["run"] * names_runs):
        table.add_column(heading, overflow="fold")
    several = len({judgement.matrix for judgement in judged}) > 1
    for judgement in judged:
        cell = (
            f"{judgement.matrix}: {judgement.cell}"
            if several and judgement.cell != judgement.matrix
            else judgement.cell
        )
        state = Text(judgement.state, style=STYLES[judgement.state])
        run = [judgement.run if not judgement.passed else ""] * names_runs
        table.add_row(judgement.name, cell, state, judgement.value, judgement.reason, *run)
    console.print()
    console.print(table)
    console.print(summary_line(judged))
