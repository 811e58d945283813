"""A table that can be printed, as Markdown, CSV and for the page, and how its numbers are written.

Sentences and figures write their numbers by the same functions.
"""

import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from gostlab.analysis.load.runs import to_csv
from gostlab.analysis.stats.statistics import Summary, is_known, mean_interval, mean_of, summarise
from gostlab.results.metrics import are_identical, identical_words, states_words

MISSING = "–"
NBSP = "\u00a0"
AS_PRINTED = "CUBIC BBR BBRplus DCTCP BIC YeAH HighSpeed Reno Westwood Vegas Veno Illinois Hybla"
CC_NAMES = {
    **{name.lower(): name for name in f"{AS_PRINTED} Scalable".split()},
    "bbr2": "BBRv2",
    "bbr3": "BBRv3",
    "htcp": "H-TCP",
    "lp": "TCP-LP",
    "prague": "Prague",
    "fixedrate": "a fixed rate",
}


def plain(value: Any) -> str:
    return str(value)


@dataclass(frozen=True)
class Column:
    """A column: its key (a CSV's heading), its heading for people, how a value is printed."""

    key: str
    heading: str
    show: Callable[[Any], str] = plain
    numeric: bool = True


def texts(**headings: str) -> tuple[Column, ...]:
    """Columns of words, by their keys."""
    return tuple(Column(key, heading, numeric=False) for key, heading in headings.items())


@dataclass(frozen=True)
class Table:
    """A table that can be printed."""

    name: str  # a file's name
    title: str
    note: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Any], ...]

    def shown(self) -> list[list[str]]:
        """Every cell as people read it."""

        return [
            [
                MISSING if is_missing(value := row.get(each.key)) else each.show(value)
                for each in self.columns
            ]
            for row in self.rows
        ]

    def to_frame(self) -> pd.DataFrame:
        """The rows; a column of row keys that the table does not show is kept too."""
        keys = dict.fromkeys(column.key for column in self.columns)
        first = self.rows[0] if self.rows else {}
        return pd.DataFrame(self.rows, columns=[*(keys | dict.fromkeys(first))])

    def to_csv(self) -> str:
        """CSV, numbers with six significant digits, units in the headings."""
        return to_csv(self.to_frame())

    def lines(self) -> list[str]:
        """The lines of GitHub's Markdown without title and note."""
        rows = [[column.heading for column in self.columns], *self.shown()]
        first, *others = ["| " + " | ".join(map(markdown, row)) + " |" for row in rows]
        ruler = "|".join("---:" if column.numeric else "---" for column in self.columns)
        return [first, f"|{ruler}|", *others]

    def to_markdown(self) -> str:
        """GitHub's Markdown."""
        note = [markdown(self.note), ""] if self.note else []
        return "\n".join([f"### {markdown(self.title)}", "", *note, *self.lines(), ""])


def lines_of(table: Table) -> str:
    """A table for a terminal, its columns in line, and its note."""
    rows = [[column.heading for column in table.columns], *table.shown()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = zip(table.columns, row, widths, strict=True)
        aligned = (
            f"{words:>{width}}" if column.numeric else f"{words:{width}}"
            for column, words, width in cells
        )
        lines.append("  " + "   ".join(aligned).rstrip())
    return "\n".join([*lines, *([table.note] if table.note else [])])


def markdown(text: str) -> str:
    """Words that are no mark-up, whatever they say."""
    escaped = re.sub(r"([\\|`*_\[\]])", r"\\\1", html.escape(text, quote=False))
    return escaped.replace("\n", " ")


def is_missing(value: Any) -> bool:
    """Nothing to print."""
    return value == "" if isinstance(value, str) else not is_known(value)


# -- how values are printed


def rate(value: float) -> str:
    """Three digits at least where they mean something: 1,432, 144, 9.26."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def delay(value: float) -> str:
    """Milliseconds: 168, 24.5, 0.81; a queue of less than 10 µs is none."""
    if value < 0.01:
        return "0"
    return rate(value) if value >= 1 else f"{value:.2f}"


def count(value: float) -> str:
    """A count; a median between two counts has a half."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def ratio(value: float) -> str:
    return f"{value:.2f}"


def percent(value: float) -> str:
    digits = 1 if value < 0.0995 or value > 0.9 else 0
    return f"{100 * value:.{digits}f}{NBSP}%"


def per_mille(value: float) -> str:
    return f"{1000 * value:.3g}{NBSP}‰"


def spread_words(summary: Summary | None, show: Callable[[float], str] = rate) -> str:
    """What stands beside a median: its interval and coverage, the states that the runs fall into,
    or that they are identical; empty of too few runs.
    """
    if summary is None:
        return ""
    if summary.states:
        return states_words(summary.states, show)
    if are_identical(summary.values):
        return identical_words(summary.n)
    if (found := summary.interval) is None:
        return ""
    return f"{show(found.low)} to {show(found.high)} ({100 * found.coverage:.1f}{NBSP}%)"


def span_words(least: int, most: int) -> str:
    """From the least to the most: "3 to 6", or "3"."""
    return str(least) if least == most else f"{least} to {most}"


def several(number: float, thing: str, things: str = "") -> str:
    """So many of a thing: 1 figure, 2 figures; 1 matrix, 2 matrices."""
    return f"{number:g} {thing if number == 1 else things or thing + 's'}"


def n_note(table: pd.DataFrame) -> str:
    """How many runs a table's figures rest on, and what follows."""
    if table.empty or table["n"].max() == 0:
        return "No run of this matrix counts yet."
    least, most = int(table.loc[table["n"] > 0, "n"].min()), int(table["n"].max())
    said, copied = f"n = {span_words(least, most)}", copies_note(int(table["copies"].sum()))
    if most == 1:
        return f"{said}: one run per cell. Nothing here says how far another would fall.{copied}"
    if most < 6:
        return f"{said} runs per cell: too few for an interval, which takes six.{copied}"
    note = (
        f"{said} runs per cell. The interval is that of the median by order statistics, its exact"
        " coverage beside it"
    )
    note += "; cells with fewer than six runs have none." if least < 6 else "."
    return note + copied


def copies_note(copies: int) -> str:
    """Say that n is the number of distinct runs, where some are copies."""
    if not copies:
        return ""
    are = "run is a copy" if copies == 1 else "runs are copies"
    return f" {copies} more {are} of another one, sample by sample: n counts distinct runs."


def shown_columns(
    columns: Iterable[Column], rows: Sequence[Mapping[str, Any]]
) -> tuple[Column, ...]:
    """The columns that at least one row fills."""

    return tuple(
        column
        for column in columns
        if not rows or any(not is_missing(row.get(column.key)) for row in rows)
    )


def cc_name(cc: str) -> str:
    """A congestion control's name as papers print it; of several ("bbr+cubic") each one's."""
    return " + ".join(map(one_cc_name, cc.split("+")))


def one_cc_name(cc: str) -> str:
    """The same of one; its parameters stand behind it: "BBR (gain=2)"; of a fixed rate they are its
    rate: "a fixed 15 Mbit/s".
    """
    name, bracket, parameters = cc.partition("(")
    fixed = re.fullmatch(r"rate_kbit=(\d{1,9})\)", parameters)
    if name == "fixedrate" and fixed:
        return f"a fixed {rate(int(fixed[1]) / 1000)}{NBSP}Mbit/s"
    return f"{CC_NAMES.get(name, name)}{f' ({parameters}' if bracket else ''}"


TUNNEL, VERDICT = texts(tunnel="Tunnel", verdict="Verdict")
STREAMS = Column("streams", "Streams", count)
CC = Column("cc", "Congestion control", cc_name, numeric=False)
RUNS = Column("n", "n", count)
GOODPUT = Column("goodput_mbit", "Lab, median (Mbit/s)", rate)
WINDOW = Column("window_pkts", "Mean window (packets)", rate)
INTERVAL = Column("goodput_interval", "Interval (coverage)")
IDLE = Column("idle_share", "CPU idle", percent)
LINK = Column("link_share", "Bottleneck used", percent)
# Over the time of the load; what is sampled and how is said in gostlab.results.metrics.
DELAYS = (
    Column("srtt_median_ms", "RTT under load, median (ms)", delay),
    Column("srtt_p95_ms", "RTT, 95\u00a0% (ms)", delay),
    Column("queue_delay_median_ms", "Bottleneck's queue, median (ms)", delay),
    Column("queue_delay_p95_ms", "Queue, 95\u00a0% (ms)", delay),
)


# The columns of a sweep, around those of its own.
SWEPT_FIRST = (TUNNEL, STREAMS, CC)
SWEPT_GOODPUT = (RUNS, GOODPUT, INTERVAL)
SWEPT_LAST = (*DELAYS, LINK, IDLE)
# What a column is read from, where a table of cells calls it something else.
SOURCES = {
    "goodput_mbit": "goodput",
    "study_mbit": "goodput_study",
    "study_retr": "retr_study",
    **{f"{leg}_segments": leg for leg in ("wan", "app", "exit", "client_nstat")},
    **{f"goodput_{end}_mbit": f"goodput_{end}" for end in ("low", "high")},
    "never": "never_converged",
}
# What is made of a row. Of several states neither a median nor a mean says anything.
MADE: Mapping[str, Callable[[pd.Series], Any]] = {
    INTERVAL.key: lambda row: spread_words(summarise(row["goodput_values"])),
    GOODPUT.key: lambda row: None if row["goodput_states"] else row["goodput"],
    VERDICT.key: lambda row: row["verdict"] if row["n"] else row["absent"],
    "cpu_bound": lambda row: bool(row["cpu_bound"]),
    "mean_mbit": lambda row: None if row["goodput_states"] else mean_of(row["goodput_values"]),
    "mean_low_mbit": lambda row: getattr(mean_interval(row["goodput_values"]), "low", None),
    "mean_high_mbit": lambda row: getattr(mean_interval(row["goodput_values"]), "high", None),
}


def told(row: pd.Series, keys: Iterable[str]) -> dict[str, Any]:
    """What a row of a table of cells says for some columns."""
    return {key: MADE[key](row) if key in MADE else row.get(SOURCES.get(key, key)) for key in keys}


def sweep_table(
    name: str, title: str, table: pd.DataFrame, columns: Sequence[Column], kept: Sequence[str] = ()
) -> Table:
    """Every cell of a table, in some columns. kept: what a file has and no reader needs."""
    keys = [*(column.key for column in columns), *kept]
    rows = tuple(told(row, keys) for _, row in table.iterrows())
    return Table(name, title, n_note(table), shown_columns(columns, rows), rows)
