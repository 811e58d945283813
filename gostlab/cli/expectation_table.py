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
    from gostlab.analysis.stats.expectations import summary_line

    if not judged:
        return
    from rich.text import Text

    console, table = summary.console_on(file), summary.plain_table()
    names_runs = any(each.run and not each.passed for each in judged)
    for heading in ("expected", "of", "", "value", "by how much", *["run"] * names_runs):
        table.add_column(heading, overflow="fold")
    several = len({each.matrix for each in judged}) > 1
    for each in judged:
        cell = f"{each.matrix}: {each.cell}" if several and each.cell != each.matrix else each.cell
        state = Text(each.state, style=STYLES[each.state])
        run = [each.run if not each.passed else ""] * names_runs
        table.add_row(each.name, cell, state, each.value, each.reason, *run)
    console.print()
    console.print(table)
    console.print(summary_line(judged))
