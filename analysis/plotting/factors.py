"""A table's levels: which factors vary, how they are named, and the facets that they make."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from gostlab.analysis.load.published import level
from gostlab.analysis.stats.cells import CC_ORDER, TUNNEL_ORDER, natural, rank
from gostlab.analysis.stats.text_table import cc_name
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.spec.labels import PARTS, changes_words, says_where, with_units
from gostlab.spec.profile import DIRECTIONS
from gostlab.spec.settings import LINK_NAME

FACTOR_NAMES = {
    "rtt": "Round-trip time",
    "cc": "Congestion control",
    "start": "Start",
    "buffer": "Bottleneck buffer",
    "loss": "Packet loss",
    "duration": "Duration",
    "rate": "Rate",
}
# What stands in a table in place of a flow's congestion control where it has none.
NO_CONTROL = ("udp", "ping")
SHORT_NAMES = {"ecn": "ECN", "rtt": "RTT"}
# A factor whose levels say what they are.
SPEAKING = ("profile", "condition", "tunnel", "direction", "matrix", "cell")
# What may tell cells apart that no factor does: those of several matrices in one figure.
OTHER_DIFFERENCES = ("streams", "tunnel", "matrix", "cell")


def tunnels_of(table: pd.DataFrame) -> list[str]:
    """The tunnels in a table, direct first."""
    return sorted(table["tunnel"].unique(), key=lambda name: rank(name, TUNNEL_ORDER))


def ccs_of(table: pd.DataFrame) -> list[str]:
    """The congestion controls in a table, the usual ones first."""
    return sorted(table["cc"].unique(), key=cc_rank)


def cc_rank(cc: str) -> tuple[int, str]:
    return rank(cc, CC_ORDER)


def one_row(table: pd.DataFrame, **levels: Any) -> pd.Series | None:
    """The cell at these levels; None if there is none. Raises ValueError if there are several: a
    drawing that gets such a table forgot to say what it tells apart.
    """
    mask = np.ones(len(table), dtype=bool)
    for name, value in levels.items():
        mask &= (table[name] == value).to_numpy()
    rows = table[mask]
    if len(rows) > 1:
        raise ValueError(f"{len(rows)} cells at {levels}: {', '.join(rows['cell'])}")
    return None if rows.empty else rows.iloc[0]


def tunnel_title(tunnel: str) -> str:
    """A facet's title: what the tunnel says of itself, where the lab still knows it."""
    kind = tunnel_kinds().get(tunnel)
    return tunnel if kind is None else f"{tunnel}: {kind.says}"


def flows_of(table: pd.DataFrame) -> list[str]:
    """The names of the flows that have a congestion control, where there are several."""
    names = [
        name.partition(":")[2]
        for name in table.columns
        if name.startswith("cc:") and (~table[name].dropna().isin(NO_CONTROL)).any()
    ]
    return names if len(names) > 1 else []


def factor_columns(table: pd.DataFrame) -> list[str]:
    return [name for name in table.columns if name.startswith("factor:")]


def swept_factor(table: pd.DataFrame) -> str:
    """The factor for the axis: the one with most levels, of equals one that is no congestion
    control, or a flow's own.
    """
    columns = factor_columns(table) or ["cell"]
    return max(
        columns, key=lambda name: (table[name].nunique(), not name.endswith("cc"), "." in name)
    )


def varying_factors(table: pd.DataFrame) -> list[str]:
    """The factors that make a condition: all that vary, but the congestion control where that is
    what the colours show.
    """
    return [
        name
        for name in factor_columns(table)
        if table[name].nunique(dropna=False) > 1
        and not (name == "factor:cc" and determines(table, ["cc"], name))
    ]


def only_condition(table: pd.DataFrame) -> str:
    """What an axis of conditions is called: the factor that makes them, if it is one alone."""
    factors = varying_factors(table)
    return factor_heading(factors[0]) if len(factors) == 1 else ""


def by_condition(table: pd.DataFrame, factors: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """(name of the condition, its cells), in the order of their first cells."""
    if not factors:
        yield "", table
        return
    for levels, rows in groups_of(table, factors):
        words = [
            level_words(factor, value) if len(factors) == 1 else named_level(factor, value)
            for factor, value in zip(factors, levels, strict=True)
            if value is not None
        ]
        yield ", ".join(words), rows


def told_apart(names: Sequence[str]) -> list[str]:
    """Names without a first word (course-…) that all have in common."""
    heads = {name.split("-", 1)[0] for name in names}
    common = len(names) > 1 and len(heads) == 1 and all("-" in name for name in names)
    return [name.split("-", 1)[1] if common else name for name in names]


def groups_of(
    table: pd.DataFrame, keys: Sequence[str]
) -> list[tuple[tuple[Any, ...], pd.DataFrame]]:
    """(levels, rows) of every combination of levels that there is, in the order of first rows."""
    levels = table[list(keys)].astype(object).where(table[list(keys)].notna(), None)
    found: dict[tuple[Any, ...], list[int]] = {}
    for index, values in enumerate(levels.itertuples(index=False, name=None)):
        found.setdefault(values, []).append(index)
    return [(values, table.iloc[places]) for values, places in found.items()]


def facets_of(
    table: pd.DataFrame, known: Sequence[str], first: str | None = None
) -> Iterator[tuple[str, pd.DataFrame]]:
    """(title, cells) for every level of what the axes and colours do not tell apart, so that in no
    facet two cells stand at one place; `first` is a column to tell facets apart by.

    A factor that the columns so far determine (a profile of each round-trip time) makes no facets
    of its own.
    """
    keys = [first] if first and table[first].nunique() > 1 else []
    for name in [*factor_columns(table), *OTHER_DIFFERENCES]:
        if name in table and not determines(table, [*known, *keys], name):
            keys.append(name)
    if not keys:
        yield (f"RTT {table[first].iloc[0]:g} ms" if first else ""), table
        return
    for levels, rows in sorted(
        groups_of(table, keys), key=lambda pair: [natural(level(value)) for value in pair[0]]
    ):
        yield (
            ", ".join(
                f"RTT {value:g} ms" if key == "rtt_ms" else named_level(key, level(value))
                for key, value in zip(keys, levels, strict=True)
            ),
            rows,
        )


def sweeps_of(
    table: pd.DataFrame, known: Sequence[str]
) -> Iterator[tuple[str, float, str, pd.DataFrame]]:
    """(tunnel, streams, other levels in words, cells) of every sweep over some columns."""
    for tunnel in tunnels_of(table) if len(table) else []:
        for number, rows in table[table["tunnel"] == tunnel].groupby("streams"):
            for words, cells in facets_of(rows, known):
                yield tunnel, float(number), words, cells


def determines(table: pd.DataFrame, columns: Sequence[str], name: str) -> bool:
    """Whether cells that are alike in some columns are alike in another one too."""
    if not columns:
        return bool(table[name].nunique(dropna=False) <= 1)
    return bool(table.groupby(list(columns), dropna=False)[name].nunique(dropna=False).max() <= 1)


def named_level(factor: str, value: Any) -> str:
    """A factor's level with its name, where it would not say what it is."""
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
    if (head == "cc" and end) or says_where(head, end, value):
        return f"{cc_name(str(value))} at {end}"
    if changes := changes_words(value):
        return changes
    if name in ("queue", "aqm"):
        return f"{value} queue"
    if name == "where":  # a file's own, whose other levels name an end
        return f"{cc_name(str(value))} everywhere"
    name = of_its_link(name)
    return f"{SHORT_NAMES.get(name, name.replace('_', ' '))} {level_words(factor, value)}"


def of_its_link(factor: str) -> str:
    """A factor that sets what links have (second.hop2.loss), as its link's: hop2 loss."""
    parts = factor.split(".")
    at = next((place for place, part in enumerate(parts) if LINK_NAME.fullmatch(part)), None)
    return factor if at is None else " ".join(parts[at:])


def level_words(factor: str, value: Any) -> str:
    """A level on an axis that names its factor."""
    if changes := changes_words(value):
        return changes
    said = with_units(str(value))
    return cc_name(said) if factor.endswith("cc") or factor.startswith("factor:cc.") else said


def factor_heading(factor: str) -> str:
    """A factor as an axis names it; its levels carry their units."""
    name = factor.removeprefix("factor:")
    if name == "cell":
        return ""
    if name.startswith("cc."):
        return f"{FACTOR_NAMES['cc']}, {name.removeprefix('cc.')}"
    flow, _, field = name.rpartition(".")
    plain = FACTOR_NAMES.get(field, field)
    if flow in DIRECTIONS:
        return f"{plain[:1].upper()}{plain[1:]}, {flow}"
    return f"{plain} of {flow}" if flow else plain[:1].upper() + plain[1:]


def rtt_column(table: pd.DataFrame) -> str:
    """What varies: the path's round-trip time, or one flow's own."""
    swept = [
        name for name in table.columns if name.startswith("rtt:") and table[name].nunique() > 1
    ]
    # All flows' moving together is the path's moving.
    return swept[0] if swept and table["rtt_ms"].nunique() == 1 else "rtt_ms"
