# SPDX-License-Identifier: MIT
"""Write a fit's profile: the base profile with the fitted values, and the quality of the fit."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import Any

from gostlab.profile_import import profile_writer
from gostlab.search.fit_definition import FitOrder
from gostlab.spec.adhoc import whole_or_text
from gostlab.spec.fit_record import FitRecord
from gostlab.spec.profile import DIRECTIONS
from gostlab.spec.settings import merge_layers
from gostlab.spec.yaml_source import load_document, mapping_of

COPIED_KEYS = ("source", "measured", "machines")  # keys that are copied from the base profile


def write_fitted(order: FitOrder, fitted: FitRecord) -> Path:
    """Write a fit's profile and its delay tables, and return its path. Raises BadInput."""
    root = mapping_of(load_document(order.base.path_on_disk))
    base = {name: node.to_plain_values(whole_or_text) for name, node in root.items()}
    tables = {
        base[direction]["distribution"]
        for direction in DIRECTIONS
        if "distribution" in base[direction]
    }
    folder = order.base.path_on_disk.parent
    texts = {".yaml": fitted_text(order, fitted, base)}
    beside = [folder / table for table in sorted(tables)]
    return profile_writer.write_profile(order.out, order.name, texts, beside)


def fitted_text(order: FitOrder, fitted: FitRecord, base: Mapping[str, Any]) -> str:
    where = order.measurements
    copied = {name: base[name] for name in COPIED_KEYS if name in base}
    if "measured" in copied:
        copied["measured"] = [with_bare_numbers(row) for row in copied["measured"]]
    chosen = ", ".join(f"{parameter.sets} {parameter.value}" for parameter in fitted.parameters)
    assumed = (
        f"Fitted, not measured: {chosen}; other values fit as well ('fitted' has their ranges)."
        f" What is written below and not there is profile {order.base.name}'s."
    )
    document = {
        "name": order.name,
        "title": f"{base.get('title') or order.base.name}, fitted to {where.title or where.name}",
        **copied,
        "assumptions": [assumed, *base.get("assumptions", [])],
        "notes": settings_beside_path(fitted),
        "fitted": to_document(fitted),
        **fitted_directions(
            order, fitted, {direction: dict(base[direction]) for direction in DIRECTIONS}
        ),
    }
    comment = "A path that was fitted to measured rates. Made by ./lab fit."
    return profile_writer.profile_text([comment, profile_writer.SCHEMA], document)


def with_bare_numbers(row: Mapping[str, object]) -> dict[str, object]:
    """Return a measured row whose numbers are numbers instead of text, as schemas require."""
    bare = dict(row)
    for name, value in row.items():
        if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?", value):
            bare[name] = Decimal(value)
    return bare


def fitted_directions(
    order: FitOrder, fitted: FitRecord, ways: dict[str, dict[str, object]]
) -> dict[str, dict[str, object]]:
    """Return both directions with the settings of the fit's runs in place of the base's."""
    fixed = merge_layers(order.measurements.settings, order.command_line_settings)
    written: dict[str, object] = {name: setting.written for name, setting in fixed.items()}
    values = {parameter.sets: parameter.value for parameter in fitted.parameters}
    for name in values:
        if "." not in name:
            written = {
                key: value for key, value in written.items() if key.rpartition(".")[2] != name
            }
    profile_writer.apply_settings(ways, written | values)
    return ways


def settings_beside_path(fitted: FitRecord) -> list[str]:
    """Return the fitted settings that are not part of a path and that a run must set itself."""
    beside = [
        parameter
        for parameter in fitted.parameters
        if not profile_writer.is_path_setting(parameter.sets)
    ]
    others = [f"{parameter.sets}={parameter.value}" for parameter in beside]
    return [f"Fitted too, and no part of a path: --set {' --set '.join(others)}"] if others else []


def to_document(fitted: FitRecord) -> dict[str, object]:
    """Return the `fitted` section of a profile, without unknown values."""
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
    """Round a number to four digits, in a form that has no exponent in a file."""
    rounded = float(f"{value:.4g}")
    if rounded >= 1000 or rounded == int(rounded):
        return int(rounded)
    return round(rounded, 4)  # Python formats smaller numbers with an exponent.
