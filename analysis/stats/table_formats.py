# SPDX-License-Identifier: MIT
"""Format tables for Markdown, CSV and HTML, and the numbers in them.

Sentences and plots format their numbers with the same functions.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load.runs import to_csv
from gostlab.analysis.stats.statistics import Summary, is_known, mean_interval, mean_of, summarise
from gostlab.results.metrics import are_identical, format_clusters, identical_words

if TYPE_CHECKING:
    import pandas as pd

MISSING = "–"
NBSP = "\u00a0"
NAMES_IN_PAPERS = (
    "CUBIC BBR BBRplus DCTCP BIC YeAH HighSpeed Reno Westwood Vegas Veno Illinois Hybla"
)
CC_NAMES = {
    **{name.lower(): name for name in f"{NAMES_IN_PAPERS} Scalable".split()},
    "bbr2": "BBRv2",
    "bbr3": "BBRv3",
    "htcp": "H-TCP",
    "lp": "TCP-LP",
    "prague": "Prague",
    "fixedrate": "a fixed rate",
}


def to_cell_text(value: Any) -> str:
    return str(value)


@dataclass(frozen=True)
class Column:
    """A column: key (CSV heading), heading for people, and formatter of its values."""

    key: str
    heading: str
    show: Callable[[Any], str] = to_cell_text
    numeric: bool = True


def text_columns(**headings: str) -> tuple[Column, ...]:
    return tuple(Column(key, heading, numeric=False) for key, heading in headings.items())


TableRow = dict[str, Any]  # values by the key of their column


@dataclass(frozen=True)
class Table:
    """A table that can be formatted."""

    name: str  # stem of file names
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]

    def formatted_rows(self) -> list[list[str]]:
        """Return every cell as formatted text."""

        return [
            [
                MISSING if is_missing(value := row.get(column.key)) else column.show(value)
                for column in self.columns
            ]
            for row in self.rows
        ]

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a DataFrame, with row keys that the table does not display."""
        import pandas as pd

        keys = dict.fromkeys(column.key for column in self.columns)
        first = self.rows[0] if self.rows else {}
        return pd.DataFrame(self.rows, columns=[*(keys | dict.fromkeys(first))])

    def to_csv(self) -> str:
        """Return CSV with six significant digits and units in the headings."""
        return to_csv(self.to_frame())

    def lines(self) -> list[str]:
        """Return the lines of a GitHub Markdown table, without title and note."""
        rows = [[column.heading for column in self.columns], *self.formatted_rows()]
        first, *others = ["| " + " | ".join(map(escape_markdown, row)) + " |" for row in rows]
        ruler = "|".join("---:" if column.numeric else "---" for column in self.columns)
        return [first, f"|{ruler}|", *others]

    def to_markdown(self) -> str:
        """Return GitHub Markdown with title and note."""
        note = [escape_markdown(self.note), ""] if self.note else []
        return "\n".join([f"### {escape_markdown(self.title)}", "", *note, *self.lines(), ""])


def format_for_terminal(table: Table) -> str:
    """Format a table for a terminal, with aligned columns and its note."""
    rows = [[column.heading for column in table.columns], *table.formatted_rows()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(table.columns, row, widths, strict=True)
        aligned = (
            f"{cell:>{width}}" if column.numeric else f"{cell:{width}}"
            for column, cell, width in cells
        )
        lines.append("  " + "   ".join(aligned).rstrip())
    return "\n".join([*lines, *([table.note] if table.note else [])])


def escape_markdown(text: str) -> str:
    escaped = re.sub(r"([\\|`*_\[\]])", r"\\\1", html.escape(text, quote=False))
    return escaped.replace("\n", " ")


def is_missing(value: Any) -> bool:
    """Return whether a value is empty: None, NaN or ""."""
    return value == "" if isinstance(value, str) else not is_known(value)


# -- how values are printed


def format_rate(value: float) -> str:
    """Format a number with three digits or more: 1,432, 144, 9.26."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def format_delay(value: float) -> str:
    """Format milliseconds: 168, 24.5, 0.81; less than 10 µs is 0."""
    if value < 0.01:
        return "0"
    return format_rate(value) if value >= 1 else f"{value:.2f}"


def format_count(value: float) -> str:
    """Format a count; a median between two counts has one decimal."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def format_ratio(value: float) -> str:
    return f"{value:.2f}"


def format_percent(value: float) -> str:
    digits = 1 if value < 0.0995 or value > 0.9 else 0
    return f"{100 * value:.{digits}f}{NBSP}%"


def format_per_mille(value: float) -> str:
    return f"{1000 * value:.3g}{NBSP}‰"


def format_spread(summary: Summary | None, show: Callable[[float], str] = format_rate) -> str:
    """Return the interval and coverage of a median, or the clusters of its runs.

    Identical runs are reported as such; "" for too few runs.
    """
    if summary is None:
        return ""
    if summary.states:
        return format_clusters(summary.states, show)
    if are_identical(summary.values):
        return identical_words(summary.n)
    if (interval := summary.interval) is None:
        return ""
    return f"{show(interval.low)} to {show(interval.high)} ({100 * interval.coverage:.1f}{NBSP}%)"


def format_range(least: int, most: int) -> str:
    """Format a range: "3 to 6", or "3"."""
    return str(least) if least == most else f"{least} to {most}"


def pluralize(number: float, thing: str, things: str = "") -> str:
    """Format a count of things: 1 figure, 2 figures; 1 matrix, 2 matrices."""
    return f"{number:g} {thing if number == 1 else things or thing + 's'}"


def n_note(table: pd.DataFrame) -> str:
    """State how many runs the values of a table rest on, and the consequence."""
    if table.empty or table["n"].max() == 0:
        return "No run of this matrix counts yet."
    least, most = int(table.loc[table["n"] > 0, "n"].min()), int(table["n"].max())
    n_text, copied = f"n = {format_range(least, most)}", copies_note(int(table["copies"].sum()))
    if most == 1:
        return f"{n_text}: one run per cell. Nothing here says how far another would fall.{copied}"
    if most < 6:
        return f"{n_text} runs per cell: too few for an interval, which takes six.{copied}"
    note = (
        f"{n_text} runs per cell. The interval is that of the median by order statistics, its exact"
        " coverage beside it"
    )
    note += "; cells with fewer than six runs have none." if least < 6 else "."
    return note + copied


def copies_note(copies: int) -> str:
    """State that n is the number of distinct runs, if some are copies."""
    if not copies:
        return ""
    are = "run is a copy" if copies == 1 else "runs are copies"
    return f" {copies} more {are} of another one, sample by sample: n counts distinct runs."


def filled_columns(columns: Iterable[Column], rows: Sequence[TableRow]) -> tuple[Column, ...]:
    """Return the columns that at least one row fills."""

    return tuple(
        column
        for column in columns
        if not rows or any(not is_missing(row.get(column.key)) for row in rows)
    )


def cc_name(cc: str) -> str:
    """Return a congestion control's name as printed in papers; "bbr+cubic" is split."""
    return " + ".join(map(one_cc_name, cc.split("+")))


def one_cc_name(cc: str) -> str:
    """Return the name of one congestion control, with its parameters.

    Example: "BBR (gain=2)"; a fixed rate is "a fixed 15 Mbit/s".
    """
    name, bracket, parameters = cc.partition("(")
    fixed = re.fullmatch(r"rate_kbit=(\d{1,9})\)", parameters)
    if name == "fixedrate" and fixed:
        return f"a fixed {format_rate(int(fixed[1]) / 1000)}{NBSP}Mbit/s"
    return f"{CC_NAMES.get(name, name)}{f' ({parameters}' if bracket else ''}"


TUNNEL, VERDICT = text_columns(tunnel="Tunnel", verdict="Verdict")
STREAMS = Column("streams", "Streams", format_count)
CC = Column("cc", "Congestion control", cc_name, numeric=False)
RUNS = Column("n", "n", format_count)
GOODPUT = Column("goodput_mbit", "Lab, median (Mbit/s)", format_rate)
WINDOW = Column("window_pkts", "Mean window (packets)", format_rate)
INTERVAL = Column("goodput_interval", "Interval (coverage)")
IDLE = Column("idle_share", "CPU idle", format_percent)
LINK = Column("link_share", "Bottleneck used", format_percent)
# Delays during the load; gostlab.results.metrics documents their sampling.
DELAYS = (
    Column("srtt_median_ms", "RTT under load, median (ms)", format_delay),
    Column("srtt_p95_ms", "RTT, 95\u00a0% (ms)", format_delay),
    Column("queue_delay_median_ms", "Bottleneck's queue, median (ms)", format_delay),
    Column("queue_delay_p95_ms", "Queue, 95\u00a0% (ms)", format_delay),
)


# Columns of a sweep, around the columns of the swept factor.
SWEPT_FIRST = (TUNNEL, STREAMS, CC)
SWEPT_GOODPUT = (RUNS, GOODPUT, INTERVAL)
SWEPT_LAST = (*DELAYS, LINK, IDLE)
# Names of columns in the table of cells, if they differ from the output's.
SOURCES = {
    "goodput_mbit": "goodput",
    "study_mbit": "goodput_study",
    "study_retr": "retr_study",
    **{f"{leg}_segments": leg for leg in ("wan", "app", "exit", "client_nstat")},
    **{f"goodput_{end}_mbit": f"goodput_{end}" for end in ("low", "high")},
    "never": "never_converged",
}
# Columns that are computed from a row. Runs in several clusters have no meaningful median or mean.
COMPUTED_COLUMNS: Mapping[str, Callable[[pd.Series], Any]] = {
    INTERVAL.key: lambda row: format_spread(summarise(row["goodput_values"])),
    GOODPUT.key: lambda row: None if row["goodput_states"] else row["goodput"],
    VERDICT.key: lambda row: row["verdict"] if row["n"] else row["absent"],
    "cpu_bound": lambda row: bool(row["cpu_bound"]),
    "mean_mbit": lambda row: None if row["goodput_states"] else mean_of(row["goodput_values"]),
    "mean_low_mbit": lambda row: getattr(mean_interval(row["goodput_values"]), "low", None),
    "mean_high_mbit": lambda row: getattr(mean_interval(row["goodput_values"]), "high", None),
}


def row_values(row: pd.Series, keys: Iterable[str]) -> TableRow:
    """Return a row's values for some columns."""
    return {
        key: COMPUTED_COLUMNS[key](row)
        if key in COMPUTED_COLUMNS
        else row.get(SOURCES.get(key, key))
        for key in keys
    }


def cells_table(
    name: str, title: str, table: pd.DataFrame, columns: Sequence[Column], kept: Sequence[str] = ()
) -> Table:
    """Return a table's cells in the given columns. kept: keys of columns of the CSV file alone."""
    keys = [*(column.key for column in columns), *kept]
    rows = tuple(row_values(row, keys) for _, row in table.iterrows())
    return Table(name, title, n_note(table), filled_columns(columns, rows), rows)
