"""A fit's profile: the base with what was fitted in its place, and how good that is."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from gostlab.profile_import import profile_writer
from gostlab.search.problem import FitOrder
from gostlab.spec.adhoc import whole_or_text
from gostlab.spec.fit_record import FitRecord
from gostlab.spec.profile import DIRECTIONS
from gostlab.spec.settings import merged
from gostlab.spec.yaml_source import load_document, mapping_of

KEPT = ("source", "measured", "machines")  # of the base


def write_fitted(order: FitOrder, fitted: FitRecord) -> str:
    """Write a fit's profile, with the delay tables that it names; its path. Raises BadInput."""
    root = mapping_of(load_document(order.base.path_on_disk))
    base = {name: node.plain(whole_or_text) for name, node in root.items()}
    tables = {base[way]["distribution"] for way in DIRECTIONS if "distribution" in base[way]}
    folder = order.base.path_on_disk.parent
    texts = {".yaml": fitted_text(order, fitted, base)}
    beside = [folder / table for table in sorted(tables)]
    return str(profile_writer.write_profile(order.out, order.name, texts, beside))


def fitted_text(order: FitOrder, fitted: FitRecord, base: Mapping[str, Any]) -> str:
    where = order.measurements
    kept = {name: base[name] for name in KEPT if name in base}
    if "measured" in kept:
        kept["measured"] = [numbers_bare(row) for row in kept["measured"]]
    chosen = ", ".join(f"{each.sets} {each.value}" for each in fitted.parameters)
    assumed = (
        f"Fitted, not measured: {chosen}; other values fit as well ('fitted' has their ranges)."
        f" What is written below and not there is profile {order.base.name}'s."
    )
    document = {
        "name": order.name,
        "title": f"{base.get('title') or order.base.name}, fitted to {where.title or where.name}",
        **kept,
        "assumptions": [assumed, *base.get("assumptions", [])],
        "notes": beside_the_path(fitted),
        "fitted": to_document(fitted),
        **fitted_ways(order, fitted, {way: dict(base[way]) for way in DIRECTIONS}),
    }
    comment = "A path that was fitted to measured rates. Made by ./lab fit."
    return profile_writer.profile_text([comment, profile_writer.SCHEMA], document)


def numbers_bare(row: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured, its numbers without quotes, as schemas and editors want them."""
    bare = dict(row)
    for name, value in row.items():
        if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value):
            bare[name] = Decimal(value)
    return bare


def fitted_ways(
    order: FitOrder, fitted: FitRecord, ways: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Both directions, with what the fit's runs had in place of the base's."""
    fixed = merged(order.measurements.settings, order.own)
    written: dict[str, Any] = {name: each.written for name, each in fixed.items()}
    found = {each.sets: each.value for each in fitted.parameters}
    for name in found:
        if "." not in name:
            written = {key: each for key, each in written.items() if key.rpartition(".")[2] != name}
    profile_writer.apply_settings(ways, written | found)
    return ways


def beside_the_path(fitted: FitRecord) -> list[str]:
    """What was fitted and is no part of a path: a run that uses the profile has to say it."""
    beside = [each for each in fitted.parameters if not profile_writer.is_path_setting(each.sets)]
    others = [f"{each.sets}={each.value}" for each in beside]
    return [f"Fitted too, and no part of a path: --set {' --set '.join(others)}"] if others else []


def to_document(fitted: FitRecord) -> dict[str, Any]:
    """`fitted` as a file has it, without unknown values."""
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
    return {name: value for name, value in document.items() if value not in ({}, [], ())}


def number(value: float) -> int | float:
    """Four digits, and never an exponent in the file."""
    rounded = float(f"{value:.4g}")
    if rounded >= 1000 or rounded == int(rounded):
        return int(rounded)
    return round(rounded, 4)  # Python writes what is smaller with an exponent
