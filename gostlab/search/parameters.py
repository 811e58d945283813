# SPDX-License-Identifier: MIT
"""Define the free parameters of a fit: setting, range and scale.

The search uses positions from 0 to 1. A position becomes the text of a setting with four digits,
and only positions of such texts are requested, so that equal requests are identical.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gostlab.spec import yaml_source as documents
from gostlab.spec.settings import Setting, field_of, known_names, read_level
from gostlab.spec.units import parse_rate, quoted
from gostlab.spec.yaml_source import BadInput, Node, mapping_of, text_of

AMOUNT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([A-Za-zµ%/]*)")
HOLE = "VALUE"  # placeholder of the number in `within`
MEASURED = "measured"  # start of a range at the minimum rate that the measured numbers need

POINTS_PER_PARAMETER = 10  # default number of paths to try per free parameter


@dataclass(frozen=True)
class FreeParameter:
    """A free parameter, whose position from 0 to 1 maps to a value from `least` to `most`."""

    name: str
    sets: str  # name of a setting
    least: float
    most: float
    unit: str  # unit in the setting: mbit, %, bdp; "" for a count
    log: bool
    is_integer: bool
    node: Node
    within: Node | None = None  # setting's value with a placeholder, if the number is only a part
    from_measured: bool = False  # `least` is derived from the fitted numbers (see reaching)

    def value(self, position: float) -> float:
        """Return the number at a position, with four digits."""
        if self.log:
            value = self.least * (self.most / self.least) ** position
        else:
            value = self.least + (self.most - self.least) * position
        return float(round(value)) if self.is_integer else float(f"{value:.4g}")

    def position(self, value: float) -> float:
        if self.log:
            position = math.log(value / self.least) / math.log(self.most / self.least)
        else:
            position = (value - self.least) / (self.most - self.least)
        return min(1.0, max(0.0, position))

    def snap(self, position: float) -> float:
        """Return the nearest position that a text represents."""
        return self.position(self.value(position))

    def text(self, position: float) -> str:
        """Return the number at a position as text of a setting: 0.0123%, 1967mbit."""
        return f"{Decimal(repr(self.value(position))).normalize():f}{self.unit}"

    def setting(self, position: float) -> Setting:
        """Return the setting at a position. Raises BadInput."""
        written = replace(self.node, text=self.text(position), fields=None, items=None)
        return read_level(
            self.sets, written if self.within is None else fill_placeholder(self.within, written)
        )

    @property
    def scale(self) -> str:
        return "log" if self.log else "linear"


def fill_placeholder(node: Node, number: Node) -> Node:
    """Return a value with the placeholder replaced by a number."""
    if node.text == HOLE:
        return replace(number, key=node.key)
    return replace(
        node,
        fields=node.fields
        and {key: fill_placeholder(field, number) for key, field in node.fields.items()},
        items=node.items and tuple(fill_placeholder(item, number) for item in node.items),
    )


def has_placeholder(node: Node) -> bool:
    """Return whether a value contains the placeholder."""
    inside = [*(node.fields or {}).values(), *(node.items or ())]
    return node.text == HOLE or any(has_placeholder(node_inside) for node_inside in inside)


def extend_range(free: FreeParameter, least_bps: float) -> FreeParameter:
    """Return a free rate whose range starts at a measured rate if required. Raises BadInput."""
    if not free.from_measured:
        return free
    least = float(f"{least_bps / parse_rate(f'1{free.unit}'):.4g}")
    if least >= free.most:
        raise mapping_of(free.node)["to"].bad_value(
            f"less than the fitted numbers need ({least:g}{free.unit})"
        )
    return replace(free, least=least)


def read_start(node: Node) -> tuple[float, str]:
    """Parse a number and its unit, or `measured` as 0. Raises BadInput."""
    return (0.0, MEASURED) if text_of(node) == MEASURED else read_amount(node)


def read_amount(node: Node) -> tuple[float, str]:
    """Parse a number and its unit. Raises BadInput."""
    text = text_of(node)
    match = AMOUNT.fullmatch(text)
    if match is None:
        raise node.bad_value("not a number with its unit (like 0.01%)")
    return float(match[1]), match[2]


def read_free(name: str, node: Node) -> FreeParameter:
    """Parse a free parameter such as {from: 0.01bdp, to: 3bdp}. Raises BadInput."""
    values: dict[str, Any] = FREE(node)
    given = mapping_of(node)
    sets = values["sets"] or name
    if field_of(sets) is None:
        if values["sets"]:
            raise given["sets"].bad_value(
                f"nothing that can be set ({documents.suggest_name(sets, known_names())})"
            )
        raise node.bad(
            f"nothing that can be set ({documents.suggest_name(name, known_names())},"
            " or sets: NAME)"
        )
    least, unit = values["from"]
    most, unit_of_most = values["to"]
    from_measured = unit == MEASURED
    if from_measured:
        if sets.rpartition(".")[2] != "rate":
            raise given["from"].bad_value(f"only a rate can begin there, and {sets} is no rate")
        least, unit = most / 1000, unit_of_most  # preliminary until the numbers are known
    if unit != unit_of_most:
        raise given["to"].bad_value(
            f"in another unit than from ({unit or 'none'}): write both alike"
        )
    if not least < most:
        raise given["to"].bad_value("not more than from")
    log = values["scale"] == "log"
    if log and least <= 0:
        raise given["from"].bad_value("a log scale begins above 0 (or scale: linear)")
    if values["within"] is not None and not has_placeholder(values["within"]):
        raise given["within"].bad(f"{HOLE} does not stand in it: say where the number goes")
    free = FreeParameter(
        name, sets, least, most, unit, log, values["whole"], node, values["within"], from_measured
    )
    for position in (0.0, 1.0):
        free.setting(position)
    return free


def read_word(word: str) -> FreeParameter:
    """Parse an argument of --free: NAME=FROM..TO or NAME=FROM..TO:linear. Raises BadInput."""
    name, equals, ends = word.partition("=")
    low, dots, rest = ends.partition("..")
    high, colon, scale = rest.partition(":")
    if not (name and equals and low and dots and high) or (colon and not scale):
        raise BadInput(
            f"--free {quoted(word)}: not of the form NAME=FROM..TO (like forward.loss=0.0001%..1%,"
            " rate=1gbit..2gbit:linear)"
        )
    text = f"{{from: {low!r}, to: {high!r}" + (f", scale: {scale!r}}}" if colon else "}")
    document = documents.parse_document(text, f"--free {quoted(name)[1:-1]}", line_numbers=False)
    return read_free(name, document)


def read_all_free(node: Node) -> tuple[FreeParameter, ...]:
    """Parse every free parameter of a file. Raises BadInput."""
    return tuple(read_free(name, field) for name, field in mapping_of(node).items())


def check_free(free: Sequence[FreeParameter]) -> None:
    """Reject settings that are set twice. Raises BadInput."""
    seen: dict[str, str] = {}
    for parameter in free:
        if parameter.sets in seen:
            raise parameter.node.bad(f"{parameter.sets} is free as {seen[parameter.sets]} already")
        seen[parameter.sets] = parameter.name


FREE = documents.mapping_reader(
    {
        "from": documents.KeySchema(documents.Reader(read_start, {}), required=True),
        "to": documents.KeySchema(documents.Reader(read_amount, {}), required=True),
        "scale": documents.KeySchema(documents.one_of("log", "linear"), default="log"),
        "sets": documents.KeySchema(text_of),
        "whole": documents.KeySchema(documents.yes_no, default=False),
        "within": documents.KeySchema(documents.as_written({})),
    }
)
