# SPDX-License-Identifier: MIT
"""Give the tables of results their types: levels as numbers with units, texts as categories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from gostlab.spec import units

if TYPE_CHECKING:
    import pandas as pd

# Columns whose text differs in every row.
FREE_TEXT = frozenset({"run", "cell", "error", "local", "peer"})
CATEGORIES = frozenset(
    "clock direction kernel lab matrix placement profile state topology tunnel tunnel_program"
    " variant verdict".split()
)
# How a factor's levels are read as numbers, and the end of the column's name with their unit.
LEVELS: tuple[tuple[Callable[[str], float], str], ...] = (
    (float, ""),
    (lambda text: float(units.parse_share(text)), ""),
    (lambda text: units.parse_rate(text) / 1e6, "_mbit"),
    (lambda text: 1e3 * float(units.parse_seconds(text)), "_ms"),
    (lambda text: parse_queue_size(text, "bdp"), "_bdp"),
    (lambda text: parse_queue_size(text, "pkts"), "_pkts"),
    (lambda text: float(units.parse_size(text)), "_bytes"),
)
# Columns of `full_runs` that `runs` has, beside the factors' and those of one flow.
RUN_COLUMNS = (
    *("run", "matrix", "topology", "tunnel", "cc", "streams", "profile", "rate_mbit", "rtt_ms"),
    *("loss_p", "repetition", "seed", "state", "verdict", "goodput_mbit", "srtt_median_ms"),
    *("srtt_p95_ms", "queue_delay_median_ms", "queue_delay_p95_ms", "wan_sent_segments"),
    *("wan_retransmitted_segments", "idle_share", "link_share", "error"),
)
# Metrics of `full_cells` that `cells` has not: counts of the other legs, and what limits a rate.
SELDOM_ASKED = frozenset(
    {
        *(f"{leg}_retransmitted_segments" for leg in ("iperf3", "client", "app", "exit")),
        *("idle_share", "link_share"),
    }
)
STATISTICS = ("_low", "_high", "_values")


def parse_queue_size(text: str, unit: str) -> float:
    """Return the size of a queue that is written in a unit: bdp or pkts. Raises ValueError."""
    buffer = units.parse_buffer(text)
    if buffer.unit != unit:
        raise ValueError(f"{text}: not in {unit}")
    return float(buffer.amount)


def read_levels(texts: Iterable[object]) -> tuple[list[float], str] | None:
    """Return levels as numbers and the end of their column's name; None if they are not all."""
    known = [str(text) for text in texts]
    for read, unit in LEVELS:
        try:
            return [read(text) for text in known], unit
        except ValueError:
            continue
    return None


def with_types(table: pd.DataFrame, factors: Collection[str]) -> pd.DataFrame:
    """Return a table whose columns have their types, also those without a value.

    Levels of factors are numbers where all of them are: a rate in Mbit/s as NAME_mbit, a time in
    ms as NAME_ms, a queue as NAME_bdp, NAME_pkts or NAME_bytes, a percentage as a share of one.
    Other texts are categories.
    """
    import pandas as pd

    typed: dict[str, pd.Series] = {}
    for name in table.columns:
        column = table[name]
        if "_values" in name or pd.api.types.is_bool_dtype(column):
            typed[name] = column
        elif name.split(":")[0] in FREE_TEXT:
            typed[name] = column.astype("string")
        elif name in CATEGORIES:
            typed[name] = column.astype("category")
        elif pd.api.types.is_numeric_dtype(column):
            typed[name] = column
        elif name in factors and column.notna().any() and (read := read_levels(column.dropna())):
            numbers, unit = read
            # A run's own column of that name has the same.
            if unit == "" or f"{name}{unit}" not in table.columns:
                series = pd.Series(numbers, index=column.dropna().index).reindex(column.index)
                typed[f"{name}{unit}"] = series.convert_dtypes() if unit == "" else series
        else:
            typed[name] = as_numbers_or_categories(column)
    return pd.DataFrame(typed, index=table.index)


def as_numbers_or_categories(column: pd.Series) -> pd.Series:
    """Return a column of objects as numbers, with NaN for None, or as categories."""
    import pandas as pd

    try:
        return pd.to_numeric(column).astype(float)
    except (ValueError, TypeError):
        return column.astype("category")


def short_runs(full: pd.DataFrame, factors: Collection[str]) -> pd.DataFrame:
    """Return the columns of a table of runs that most questions are about."""
    added = [name for name in full.columns if is_of_factor(name, factors) or ":" in name]
    return full[list(dict.fromkeys([*existing_columns(full, RUN_COLUMNS), *added]))]


def short_cells(full: pd.DataFrame) -> pd.DataFrame:
    """Return the levels, and the metrics that some cell has, of a table of cells."""

    def is_shown(name: str) -> bool:
        if name.endswith("_values"):
            return False
        median = name
        for end in STATISTICS:
            median = median.removesuffix(end)
        metric = median.partition(":")[0]
        # An interval stays where there is none yet: more repetitions give one.
        measured = metric == "goodput_mbit" or full.get(median, full[name]).notna().any()
        return bool(measured) and metric not in SELDOM_ASKED

    return full[[name for name in full.columns if is_shown(name)]]


def existing_columns(table: pd.DataFrame, names: Iterable[str]) -> list[str]:
    """Return those names that are columns of a table."""
    return [name for name in names if name in table.columns]


def is_of_factor(column: str, factors: Collection[str]) -> bool:
    """Return whether a column has a factor's levels, with or without a unit in its name."""
    return any(column == f"{name}{unit}" for name in factors for _, unit in LEVELS)
