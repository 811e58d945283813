"""A number that a fit is free to choose: which setting it is, from where to where, on which scale.

The search works in places from 0 to 1; a place becomes a setting's text of four digits, and only
places that texts stand for are ever asked about, so that a question has one name.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from gostlab.spec import yaml_source as documents
from gostlab.spec.settings import Setting, field_of, known_names, read_level
from gostlab.spec.units import quoted, rate
from gostlab.spec.yaml_source import BadInput, Node, mapping_of, text_of

AMOUNT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([A-Za-zµ%/]*)")
HOLE = "VALUE"  # what stands for the number in `within`
MEASURED = "measured"  # as an end: nothing that was measured passed a slower link

POINTS_PER_PARAMETER = 10  # paths to try, for each free parameter


@dataclass(frozen=True)
class Free:
    """A free parameter. A place u from 0 to 1 stands for a value from `least` to `most`."""

    name: str
    sets: str  # a setting
    least: float
    most: float
    unit: str  # as written: mbit, %, bdp; "" for a count
    log: bool
    whole: bool
    node: Node
    within: Node | None = None  # the setting's value around the number, where it is not the number
    from_measured: bool = False  # `least` is what the fitted numbers need (reaching)

    def value(self, place: float) -> float:
        """The number at a place, with four digits."""
        if self.log:
            value = self.least * (self.most / self.least) ** place
        else:
            value = self.least + (self.most - self.least) * place
        return float(round(value)) if self.whole else float(f"{value:.4g}")

    def place(self, value: float) -> float:
        if self.log:
            place = math.log(value / self.least) / math.log(self.most / self.least)
        else:
            place = (value - self.least) / (self.most - self.least)
        return min(1.0, max(0.0, place))

    def snap(self, place: float) -> float:
        """The nearest place that a text stands for."""
        return self.place(self.value(place))

    def text(self, place: float) -> str:
        """The number at a place as a setting has it: 0.0123%, 1967mbit."""
        return f"{Decimal(repr(self.value(place))).normalize():f}{self.unit}"

    def setting(self, place: float) -> Setting:
        """The setting at a place. Raises BadInput."""
        written = replace(self.node, text=self.text(place), fields=None, items=None)
        return read_level(
            self.sets, written if self.within is None else filled(self.within, written)
        )

    @property
    def scale(self) -> str:
        return "log" if self.log else "linear"


def filled(node: Node, number: Node) -> Node:
    """A value with the number in its hole."""
    if node.text == HOLE:
        return replace(number, key=node.key)
    return replace(
        node,
        fields=node.fields and {key: filled(each, number) for key, each in node.fields.items()},
        items=node.items and tuple(filled(each, number) for each in node.items),
    )


def has_hole(node: Node) -> bool:
    """Whether the number has a place in a value."""
    inside = [*(node.fields or {}).values(), *(node.items or ())]
    return node.text == HOLE or any(has_hole(each) for each in inside)


def reaching(free: Free, least_bps: float) -> Free:
    """A free rate that begins where a measured one still passes, if it is to. Raises BadInput."""
    if not free.from_measured:
        return free
    least = float(f"{least_bps / rate(f'1{free.unit}'):.4g}")
    if least >= free.most:
        raise mapping_of(free.node)["to"].bad_value(
            f"less than the fitted numbers need ({least:g}{free.unit})"
        )
    return replace(free, least=least)


def read_start(node: Node) -> tuple[float, str]:
    """A number and its unit, or the word for what was measured, as 0. Raises BadInput."""
    return (0.0, MEASURED) if text_of(node) == MEASURED else read_amount(node)


def read_amount(node: Node) -> tuple[float, str]:
    """A number and its unit. Raises BadInput."""
    text = text_of(node)
    found = AMOUNT.fullmatch(text)
    if found is None:
        raise node.bad_value("not a number with its unit (like 0.01%)")
    return float(found[1]), found[2]


def read_free(name: str, node: Node) -> Free:
    """A free parameter by its mapping: {from: 0.01bdp, to: 3bdp}. Raises BadInput."""
    values: dict[str, Any] = FREE(node)
    given = mapping_of(node)
    sets = values["sets"] or name
    if field_of(sets) is None:
        if values["sets"]:
            raise given["sets"].bad_value(
                f"nothing that can be set ({documents.meant(sets, known_names())})"
            )
        raise node.bad(
            f"nothing that can be set ({documents.meant(name, known_names())}, or sets: NAME)"
        )
    least, unit = values["from"]
    most, unit_of_most = values["to"]
    from_measured = unit == MEASURED
    if from_measured:
        if sets.rpartition(".")[2] != "rate":
            raise given["from"].bad_value(f"only a rate can begin there, and {sets} is no rate")
        least, unit = most / 1000, unit_of_most  # until the numbers are known
    if unit != unit_of_most:
        raise given["to"].bad_value(
            f"in another unit than from ({unit or 'none'}): write both alike"
        )
    if not least < most:
        raise given["to"].bad_value("not more than from")
    log = values["scale"] == "log"
    if log and least <= 0:
        raise given["from"].bad_value("a log scale begins above 0 (or scale: linear)")
    if values["within"] is not None and not has_hole(values["within"]):
        raise given["within"].bad(f"{HOLE} does not stand in it: say where the number goes")
    free = Free(
        name, sets, least, most, unit, log, values["whole"], node, values["within"], from_measured
    )
    for place in (0.0, 1.0):
        free.setting(place)
    return free


def read_word(word: str) -> Free:
    """A free parameter by --free's word: NAME=FROM..TO, NAME=FROM..TO:linear. Raises BadInput."""
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


def read_all_free(node: Node) -> tuple[Free, ...]:
    """Every free parameter of a file. Raises BadInput."""
    return tuple(read_free(name, each) for name, each in mapping_of(node).items())


def check_free(free: Sequence[Free]) -> None:
    """Each setting is set once. Raises BadInput."""
    seen: dict[str, str] = {}
    for each in free:
        if each.sets in seen:
            raise each.node.bad(f"{each.sets} is free as {seen[each.sets]} already")
        seen[each.sets] = each.name


FREE = documents.mapping(
    {
        "from": documents.KeySchema(documents.Reader(read_start, {}), required=True),
        "to": documents.KeySchema(documents.Reader(read_amount, {}), required=True),
        "scale": documents.KeySchema(documents.one_of("log", "linear"), default="log"),
        "sets": documents.KeySchema(text_of),
        "whole": documents.KeySchema(documents.yes_no, default=False),
        "within": documents.KeySchema(documents.as_written({})),
    }
)
