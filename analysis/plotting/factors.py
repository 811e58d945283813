# SPDX-License-Identifier: MIT
"""Find the varying factors of a table, name their levels, and split it into facets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load.study import format_level
from gostlab.analysis.stats.cells import CC_ORDER, TUNNEL_ORDER, known_first_key, natural_sort_key
from gostlab.analysis.stats.table_formats import cc_name
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.spec.labels import PARTS, changes_label, names_cc_end, with_units
from gostlab.spec.profile import DIRECTIONS
from gostlab.spec.settings import LINK_NAME

if TYPE_CHECKING:
    import pandas as pd

FACTOR_NAMES = {
    "rtt": "Round-trip time",
    "cc": "Congestion control",
    "start": "Start",
    "buffer": "Bottleneck buffer",
    "loss": "Packet loss",
    "duration": "Duration",
    "rate": "Rate",
}
# Entries of flows without a congestion control in a table.
NO_CONTROL = ("udp", "ping")
SHORT_NAMES = {"ecn": "ECN", "rtt": "RTT"}
# Factors with self-explanatory levels.
SPEAKING = ("profile", "condition", "tunnel", "direction", "matrix", "cell")
# Columns that distinguish cells of several matrices in one figure.
OTHER_DIFFERENCES = ("streams", "tunnel", "matrix", "cell")


def tunnels_of(table: pd.DataFrame) -> list[str]:
    """Return the tunnels in a table, direct first."""
    return sorted(table["tunnel"].unique(), key=lambda name: known_first_key(name, TUNNEL_ORDER))


def ccs_of(table: pd.DataFrame) -> list[str]:
    """Return the congestion controls in a table, common ones first."""
    return sorted(table["cc"].unique(), key=cc_rank)


def cc_rank(cc: str) -> tuple[int, str]:
    return known_first_key(cc, CC_ORDER)


def cell_at_levels(table: pd.DataFrame, **levels: Any) -> pd.Series | None:
    """Return the cell at these levels, or None.

    Raises ValueError for several cells: the plot lacks a distinguishing column.
    """
    import numpy as np

    mask = np.ones(len(table), dtype=bool)
    for name, value in levels.items():
        mask &= (table[name] == value).to_numpy()
    rows = table[mask]
    if len(rows) > 1:
        raise ValueError(f"{len(rows)} cells at {levels}: {', '.join(rows['cell'])}")
    return None if rows.empty else rows.iloc[0]


def tunnel_title(tunnel: str) -> str:
    """Return the title of a tunnel's facet, with its description if it is known."""
    tunnel_type = tunnel_kinds().get(tunnel)
    return tunnel if tunnel_type is None else f"{tunnel}: {tunnel_type.says}"


def flows_of(table: pd.DataFrame) -> list[str]:
    """Return the names of flows with a congestion control, if there are several."""
    names = [
        name.partition(":")[2]
        for name in table.columns
        if name.startswith("cc:") and (~table[name].dropna().isin(NO_CONTROL)).any()
    ]
    return names if len(names) > 1 else []


def factor_columns(table: pd.DataFrame) -> list[str]:
    return [name for name in table.columns if name.startswith("factor:")]


def swept_factor(table: pd.DataFrame) -> str:
    """Return the factor for the axis: the one with most levels.

    Among equals, congestion controls and factors of one flow come last.
    """
    columns = factor_columns(table) or ["cell"]
    return max(
        columns, key=lambda name: (table[name].nunique(), not name.endswith("cc"), "." in name)
    )


def varying_factors(table: pd.DataFrame) -> list[str]:
    """Return the factors that form conditions.

    These are all varying factors, except the congestion control if colours display it.
    """
    return [
        name
        for name in factor_columns(table)
        if table[name].nunique(dropna=False) > 1
        and not (name == "factor:cc" and determines(table, ["cc"], name))
    ]


def condition_axis_label(table: pd.DataFrame) -> str:
    """Return the label of an axis of conditions: their factor, if it is only one."""
    factors = varying_factors(table)
    return factor_heading(factors[0]) if len(factors) == 1 else ""


def iterate_conditions(
    table: pd.DataFrame, factors: Sequence[str]
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name and cells of each condition, in the order of first cells."""
    if not factors:
        yield "", table
        return
    for levels, rows in group_by_levels(table, factors):
        names = [
            level_label(factor, value)
            if len(factors) == 1
            else level_with_factor_name(factor, value)
            for factor, value in zip(factors, levels, strict=True)
            if value is not None
        ]
        yield ", ".join(names), rows


def strip_common_prefix(names: Sequence[str]) -> list[str]:
    """Strip the common first word (course-…) of names."""
    heads = {name.split("-", 1)[0] for name in names}
    common = len(names) > 1 and len(heads) == 1 and all("-" in name for name in names)
    return [name.split("-", 1)[1] if common else name for name in names]


def group_by_levels(
    table: pd.DataFrame, keys: Sequence[str]
) -> list[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Return (levels, rows) of every existing combination of levels, in table order."""
    levels = table[list(keys)].astype(object).where(table[list(keys)].notna(), None)
    by_levels: dict[tuple[Any, ...], list[int]] = {}
    for index, values in enumerate(levels.itertuples(index=False, name=None)):
        by_levels.setdefault(values, []).append(index)
    return [(values, table.iloc[positions]) for values, positions in by_levels.items()]


def facets_of(
    table: pd.DataFrame, known: Sequence[str], first: str | None = None
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield (title, cells) for every level of what axes and colours do not distinguish.

    So no facet has two cells at one position. A factor that the columns so far determine (a profile
    of each RTT) forms no facets. first: a column to split by.
    """
    keys = [first] if first and table[first].nunique() > 1 else []
    for name in [*factor_columns(table), *OTHER_DIFFERENCES]:
        if name in table and not determines(table, [*known, *keys], name):
            keys.append(name)
    if not keys:
        yield (f"RTT {table[first].iloc[0]:g} ms" if first else ""), table
        return
    for levels, rows in sorted(
        group_by_levels(table, keys),
        key=lambda pair: [natural_sort_key(format_level(value)) for value in pair[0]],
    ):
        yield (
            ", ".join(
                f"RTT {value:g} ms"
                if key == "rtt_ms"
                else level_with_factor_name(key, format_level(value))
                for key, value in zip(keys, levels, strict=True)
            ),
            rows,
        )


def determines(table: pd.DataFrame, columns: Sequence[str], name: str) -> bool:
    """Return whether some columns determine another one."""
    if not columns:
        return bool(table[name].nunique(dropna=False) <= 1)
    return bool(table.groupby(list(columns), dropna=False)[name].nunique(dropna=False).max() <= 1)


def level_with_factor_name(factor: str, value: Any) -> str:
    """Format a level, with the factor's name if it is not self-explanatory."""
    name = factor.removeprefix("factor:")
    if name == "cc":
        return cc_name(str(value))
    if name in SPEAKING:
        return str(value)
    if name in PARTS:
        return PARTS[name].format(value)
    if name.endswith(".cc"):
        return f"{cc_name(str(value))} as {name[:-3]}"
    head, _, end = name.partition(".")
    if (head == "cc" and end) or names_cc_end(head, end, value):
        return f"{cc_name(str(value))} at {end}"
    if changes := changes_label(value):
        return changes
    if name in ("queue", "aqm"):
        return f"{value} queue"
    if name == "where":  # a user-defined factor whose other levels name an end
        return f"{cc_name(str(value))} everywhere"
    name = strip_link_prefix(name)
    return f"{SHORT_NAMES.get(name, name.replace('_', ' '))} {level_label(factor, value)}"


def strip_link_prefix(factor: str) -> str:
    """Strip the prefix of a link's factor: second.hop2.loss becomes hop2 loss."""
    parts = factor.split(".")
    at = next((index for index, part in enumerate(parts) if LINK_NAME.fullmatch(part)), None)
    return factor if at is None else " ".join(parts[at:])


def level_label(factor: str, value: Any) -> str:
    """Format a level for an axis that names its factor."""
    if changes := changes_label(value):
        return changes
    text = with_units(str(value))
    return cc_name(text) if factor.endswith("cc") or factor.startswith("factor:cc.") else text


def factor_heading(factor: str) -> str:
    """Return a factor's axis label; its levels have units."""
    name = factor.removeprefix("factor:")
    if name == "cell":
        return ""
    if name.startswith("cc."):
        return f"{FACTOR_NAMES['cc']}, {name.removeprefix('cc.')}"
    flow, _, field = name.rpartition(".")
    heading = FACTOR_NAMES.get(field, field)
    if flow in DIRECTIONS:
        return f"{heading[:1].upper()}{heading[1:]}, {flow}"
    return f"{heading} of {flow}" if flow else heading[:1].upper() + heading[1:]


def rtt_column(table: pd.DataFrame) -> str:
    """Return the varying RTT column: the path's, or one flow's."""
    swept = [
        name for name in table.columns if name.startswith("rtt:") and table[name].nunique() > 1
    ]
    # If all flows' RTTs vary together, the path's RTT varies.
    return swept[0] if swept and table["rtt_ms"].nunique() == 1 else "rtt_ms"
