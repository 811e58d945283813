"""A fit's profile: the base with what was fitted in its place, and how good that is."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import yaml

from gostlab.ask import profile as profiles
from gostlab.ask.document import BadInput, load_document, mapping_of
from gostlab.ask.fitted import Fitted
from gostlab.ask.profile import DIRECTIONS
from gostlab.ask.question import as_written
from gostlab.ask.settings import PATH_FIELDS, merged
from gostlab.fitting.order import FitOrder

KEPT = ("source", "measured", "machines")  # of the base


def write_profile(order: FitOrder, fitted: Fitted) -> str:
    """Write the profile that a fit came to, and read it before it gets its name; its path. Raises
    BadInput, also where the folder cannot be written; then nothing is there that was not before.
    """
    text = profile_text(order, fitted)
    final = order.out / f"{order.name}.yaml"
    tables = tables_of(order)
    try:
        with tempfile.TemporaryDirectory(prefix=".fitting-", dir=order.out) as scratch:
            for table in tables:
                shutil.copy(order.base.path_on_disk.parent / table, scratch)
            part = os.path.join(scratch, final.name)
            with open(part, "w", encoding="utf-8") as file:
                file.write(text)
            profiles.load_profile(part)
            for table in tables:
                if not (order.out / table).exists():
                    os.replace(os.path.join(scratch, table), order.out / table)
            os.replace(part, final)
    except OSError as error:
        raise BadInput(f"--out {order.out}: {error.strerror or error}") from None
    return str(final)


def tables_of(order: FitOrder) -> list[str]:
    """The delay tables that the base's directions name."""
    document = base_document(order)
    return sorted(
        {document[way]["distribution"] for way in DIRECTIONS if "distribution" in document[way]}
    )


def base_document(order: FitOrder) -> dict[str, Any]:
    """The base's file as it is written."""
    root = mapping_of(load_document(order.base.path_on_disk))
    return {name: as_written(node) for name, node in root.items()}


def profile_text(order: FitOrder, fitted: Fitted) -> str:
    """The profile's file."""
    base = base_document(order)
    ways = fitted_ways(order, fitted, {way: dict(base[way]) for way in DIRECTIONS})
    where = order.measurements
    document: dict[str, Any] = {
        "name": order.name,
        "title": f"{base.get('title') or order.base.name}, fitted to {where.title or where.name}",
    }
    document |= {name: base[name] for name in KEPT if name in base}
    if "measured" in document:
        document["measured"] = [numbers_bare(row) for row in document["measured"]]
    document["assumptions"] = [*assumptions(order, fitted), *base.get("assumptions", [])]
    notes = beside_the_path(fitted)
    if notes:
        document["notes"] = notes
    document["fitted"] = to_document(fitted)
    document |= ways
    return (
        "# A path that was fitted to measured rates. Made by ./lab fit.\n"
        f"# yaml-language-server: $schema=../schemas/profile.json\n{dump(document)}"
    )


def numbers_bare(row: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured, its numbers without quotes, as schemas and editors want them."""

    def bare(value: Any) -> Any:
        if not isinstance(value, str) or not re.fullmatch(r"\d+(\.\d+)?", value):
            return value
        return float(value) if "." in value else int(value)

    return {name: bare(value) for name, value in row.items()}


def dump(document: Mapping[str, Any]) -> str:
    """YAML with a line for each mapping of plain values."""
    return yaml.safe_dump(
        dict(document), sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    )


def fitted_ways(
    order: FitOrder, fitted: Fitted, ways: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Both directions, with what the fit's runs had in place of the base's."""
    fixed = merged(order.measurements.settings, order.own)
    written: dict[str, Any] = {name: each.written for name, each in fixed.items()}
    settled = {each.sets: each.value for each in fitted.parameters}
    for name in settled:
        if "." not in name:
            written = {key: each for key, each in written.items() if key.rpartition(".")[2] != name}
    written |= settled
    # both directions' first: what is said of one is stronger
    for name, value in sorted(written.items(), key=lambda pair: "." in pair[0]):
        first, dot, last = name.rpartition(".")
        if name == "rtt":
            half = Fraction(fixed["rtt"].value) * 500 if "rtt" in fixed else None
            for way in DIRECTIONS:
                ways[way]["delay"] = plain_ms(half, str(value))
        elif last in PATH_FIELDS and first in ("", *DIRECTIONS):
            for way in [first] if dot else DIRECTIONS:
                ways[way][last] = {"on": True, "off": False}.get(value, value)
    return ways


def plain_ms(half: Fraction | None, rtt: str) -> str:
    """Half a round trip as a delay."""
    if half is not None:
        return f"{Decimal(str(float(half))):f}ms"
    from gostlab.ask.units import seconds

    return f"{Decimal(str(float(seconds(rtt) * 500))):f}ms"


def assumptions(order: FitOrder, fitted: Fitted) -> list[str]:
    """What nobody measured, in words."""
    chosen = ", ".join(f"{each.sets} {each.value}" for each in fitted.parameters)
    return [
        f"Fitted, not measured: {chosen}; other values fit as well ('fitted' has their ranges)."
        f" What is written below and not there is profile {order.base.name}'s."
    ]


def beside_the_path(fitted: Fitted) -> list[str]:
    """What was fitted and is no part of a path: who uses the profile says it himself."""
    others = [
        f"{each.sets}={each.value}"
        for each in fitted.parameters
        if each.sets.rpartition(".")[2] not in (*PATH_FIELDS, "rtt")
    ]
    return [f"Fitted too, and no part of a path: --set {' --set '.join(others)}"] if others else []


def to_document(fitted: Fitted) -> dict[str, Any]:
    """`fitted` as a file has it, without what nobody knows."""
    document = asdict(fitted)
    document["misfit"] = number(fitted.misfit)
    document["rows"] = [
        {
            name: number(value) if isinstance(value, float) else value
            for name, value in row.items()
            if value is not None
        }
        for row in document["rows"]
    ]
    document["parameters"] = list(document["parameters"])
    document["trade_offs"] = [
        {"between": list(each.between), "correlation": each.correlation}
        for each in fitted.trade_offs
    ]
    document["alike"] = list(document["alike"])
    return {name: value for name, value in document.items() if value not in ({}, [])}


def number(value: float) -> int | float:
    """Four digits, and never an exponent in the file."""
    rounded = float(f"{value:.4g}")
    if rounded >= 1000 or rounded == int(rounded):
        return int(rounded)
    return round(rounded, 6)
