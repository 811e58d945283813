"""A table that can be printed, as Markdown, CSV and for the page, and how its numbers are written.

Sentences and figures write their numbers by the same functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.judge.statistics import is_known
from analysis.read.runs import to_csv

MISSING = "–"
NBSP = "\u00a0"
CC_NAMES = {
    "cubic": "CUBIC",
    "bbr": "BBR",
    "reno": "Reno",
    "westwood": "Westwood",
    "vegas": "Vegas",
    "bbrplus": "BBRplus",
    "bbr2": "BBRv2",
    "bbr3": "BBRv3",
    "dctcp": "DCTCP",
    "htcp": "H-TCP",
    "bic": "BIC",
    "lp": "TCP-LP",
    "yeah": "YeAH",
    "veno": "Veno",
    "illinois": "Illinois",
    "hybla": "Hybla",
    "scalable": "Scalable",
    "highspeed": "HighSpeed",
    "fixedrate": "a fixed rate",
}


@dataclass(frozen=True)
class Column:
    """A column: its key (a CSV's heading, with the unit), its heading for people, how a value is
    printed.
    """

    key: str
    heading: str
    show: Callable[[Any], str]
    numeric: bool = True


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
                MISSING if is_missing(row.get(column.key)) else column.show(row[column.key])
                for column in self.columns
            ]
            for row in self.rows
        ]

    def to_frame(self) -> pd.DataFrame:
        """The rows; a column of row keys that the table does not show is kept too."""
        keys = [column.key for column in self.columns]
        keys += [key for row in self.rows[:1] for key in row if key not in keys]
        return pd.DataFrame(
            [{key: row.get(key) for key in keys} for row in self.rows], columns=keys
        )

    def to_csv(self) -> str:
        """CSV, numbers with six significant digits, units in the headings."""
        return to_csv(self.to_frame())

    def to_markdown(self) -> str:
        """GitHub's Markdown."""
        lines = [f"### {markdown(self.title)}", ""]
        if self.note:
            lines += [markdown(self.note), ""]
        lines += [
            "| " + " | ".join(markdown(column.heading) for column in self.columns) + " |",
            "|" + "|".join("---:" if column.numeric else "---" for column in self.columns) + "|",
        ]
        lines += ["| " + " | ".join(markdown(cell) for cell in row) + " |" for row in self.shown()]
        return "\n".join(lines) + "\n"


def markdown(text: str) -> str:
    """Words that are no mark-up, whatever they say."""
    escaped = (
        text.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    for mark in "|`*_[]":
        escaped = escaped.replace(mark, "\\" + mark)
    return escaped.replace("\n", " ")


def is_missing(value: Any) -> bool:
    """Nothing to print."""
    return value == "" if isinstance(value, str) else not is_known(value)


# -- how values are printed


def plain(value: Any) -> str:
    """As it is."""
    return str(value)


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
    """Two decimals."""
    return f"{value:.2f}"


def percent(value: float) -> str:
    """A share in per cent."""
    return (
        f"{100 * value:.1f}{NBSP}%"
        if value < 0.0995 or value > 0.9
        else f"{100 * value:.0f}{NBSP}%"
    )


def per_mille(value: float) -> str:
    """A share in per mille."""
    return f"{1000 * value:.3g}{NBSP}‰"


def interval(
    low: float | None,
    high: float | None,
    coverage: float | None,
    show: Callable[[float], str] = rate,
) -> str:
    """Low to high with the coverage; empty without."""
    if is_missing(low) or is_missing(high):
        return ""
    assert low is not None and high is not None and coverage is not None
    return f"{show(low)} to {show(high)} ({100 * coverage:.1f}{NBSP}%)"


def n_note(table: pd.DataFrame) -> str:
    """How many runs a table's figures rest on, and what follows."""
    if table.empty or table["n"].max() == 0:
        return "No run of this matrix counts yet."
    least, most = int(table.loc[table["n"] > 0, "n"].min()), int(table["n"].max())
    said = f"n = {least}" if least == most else f"n = {least} to {most}"
    if most == 1:
        return (
            f"{said}: one run per cell. These are single readings; nothing here says how far"
            " another would fall."
        )
    if most < 6:
        return (
            f"{said} runs per cell: too few for an interval (that takes six), so the figures show"
            " every run."
        )
    note = (
        f"{said} runs per cell. The interval is that of the median by order statistics, its exact"
        " coverage beside it"
    )
    return note + ("; cells with fewer than six runs have none." if least < 6 else ".")


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
    return " + ".join(one_cc_name(each) for each in cc.split("+"))


def one_cc_name(cc: str) -> str:
    """The same of one; its parameters stand behind it: "BBR (gain=2)"; of a fixed rate they are its
    rate: "a fixed 15 Mbit/s".
    """
    name, bracket, parameters = cc.partition("(")
    fixed = re.fullmatch(r"rate_kbit=(\d{1,9})\)", parameters)
    if name == "fixedrate" and fixed:
        return f"a fixed {rate(int(fixed[1]) / 1000)}{NBSP}Mbit/s"
    return f"{CC_NAMES.get(name, name)}{f' ({parameters}' if bracket else ''}"


TUNNEL = Column("tunnel", "Tunnel", plain, numeric=False)
STREAMS = Column("streams", "Streams", count)
CC = Column("cc", "Congestion control", cc_name, numeric=False)
RUNS = Column("n", "n", count)
VERDICT = Column("verdict", "Verdict", plain, numeric=False)
GOODPUT = Column("goodput_mbit", "Lab, median (Mbit/s)", rate)
INTERVAL = Column("goodput_interval", "Interval (coverage)", plain)
IDLE = Column("idle_share", "CPU idle", percent)
LINK = Column("link_share", "Bottleneck used", percent)
# Over the time of the load; what is sampled and how is said in gostlab.measures.
DELAYS = (
    Column("srtt_median_ms", "RTT under load, median (ms)", delay),
    Column("srtt_p95_ms", "RTT, 95\u00a0% (ms)", delay),
    Column("queue_delay_median_ms", "Bottleneck's queue, median (ms)", delay),
    Column("queue_delay_p95_ms", "Queue, 95\u00a0% (ms)", delay),
)


def delays(row: pd.Series) -> dict[str, float]:
    """A cell's delays under load, for the columns of DELAYS."""
    return {column.key: row[column.key] for column in DELAYS}
