"""What a fitted path says of its fit: a profile's `fitted`, written by ./lab fit.

Which numbers it was fitted on and which it was judged on, what the lab makes of each, and all the
paths that fit as well as this one: as ranges, as pairs of parameters that trade off, as a sample.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gostlab.ask.document import (
    Field,
    Node,
    Reader,
    decimal,
    list_of,
    mapping,
    one_of,
    takes,
    text_of,
    whole,
    yes_no,
)

FIT, JUDGE = "fit", "judge"
USES = (FIT, JUDGE)
COUNT = whole(0, 10**9)


@dataclass(frozen=True)
class FittedParameter:
    """A number that the fit was free to choose. Values are as a setting has them: 0.01%."""

    name: str
    sets: str  # the setting, as --set has it
    value: str  # the best
    least: str  # of those that fit as well
    most: str
    searched_from: str
    searched_to: str
    scale: str  # log | linear

    @property
    def open_below(self) -> bool:
        """Whether what fits as well goes on where the search ended."""
        return self.least == self.searched_from

    @property
    def open_above(self) -> bool:
        """The same at the other end."""
        return self.most == self.searched_to


@dataclass(frozen=True)
class FittedRow:
    """A measured number beside the lab's, in Mbit/s."""

    label: str
    use: str  # fit | judge
    asked_mbit: float
    band_least_mbit: float  # within its uncertainty
    band_most_mbit: float
    lab_mbit: float | None  # on the best path; None: no run of it counts
    least_mbit: float | None  # over the paths that fit as well and were run, the best among them
    most_mbit: float | None

    @property
    def ratio(self) -> float | None:
        """The lab's over the measured."""
        return None if self.lab_mbit is None else self.lab_mbit / self.asked_mbit

    @property
    def in_band(self) -> bool:
        """Whether the best path's number lies within the measurement's uncertainty."""
        return (
            self.lab_mbit is not None
            and self.band_least_mbit <= self.lab_mbit <= self.band_most_mbit
        )

    @property
    def in_reach(self) -> bool:
        """Whether the numbers of the paths that fit as well reach into the measurement's band."""
        return (
            self.least_mbit is not None
            and self.most_mbit is not None
            and self.least_mbit <= self.band_most_mbit
            and self.band_least_mbit <= self.most_mbit
        )


@dataclass(frozen=True)
class TradeOff:
    """Two parameters that make up for each other among the paths that fit as well."""

    between: tuple[str, ...]
    correlation: float  # of their ranks, -1 to 1


@dataclass(frozen=True)
class Fitted:
    """A fit and what came of it."""

    by: str  # gostlab's version
    base: str  # the profile that it began with
    measurements: str
    sha256: str  # of their file
    seed: int
    points: int  # paths that were tried
    runs: int
    misfit: float  # the root of the mean square of the fitted rows' residuals, in their sd
    explained: bool  # whether every fitted row is within its band
    settings: Mapping[str, str]  # what the fit's runs had besides the path
    parameters: tuple[FittedParameter, ...]
    rows: tuple[FittedRow, ...]
    trade_offs: tuple[TradeOff, ...]
    alike: tuple[Mapping[str, str], ...]  # some of the paths that fit as well


@takes({"type": "number", "minimum": -1, "maximum": 1})
def read_correlation(node: Node) -> float:
    """A number from -1 to 1. Raises BadInput."""
    text = text_of(node)
    if not re.fullmatch(r"-?[01](\.[0-9]{1,6})?", text) or abs(float(text)) > 1:
        raise node.bad_value("not a number from -1 to 1 (like -0.83)")
    return float(text)


def read_row(_node: Node, values: Mapping[str, Any]) -> FittedRow:
    """A row."""
    numbers: dict[str, Any] = {
        name: float(value) if name.endswith("_mbit") and value is not None else value
        for name, value in values.items()
    }
    return FittedRow(**numbers)


def read_fitted(_node: Node, values: dict[str, Any]) -> Fitted:
    """A fit."""
    return Fitted(**{**values, "misfit": float(values["misfit"])})


def words_by_name(says: str) -> Reader[dict[str, str]]:
    """Reads a mapping of texts under any names."""

    def read_words(node: Node) -> dict[str, str]:
        if node.fields is None:
            raise node.bad(f"{node.kind} where {says} should be (name: value)")
        return {name: text_of(value) for name, value in node.fields.items()}

    return Reader(read_words, {"type": "object", "additionalProperties": text_of.schema})


PARAMETER_FIELDS = {
    "name": Field(text_of, required=True, says="what the measurements call it"),
    "sets": Field(text_of, required=True, says="the setting, as --set has it"),
    "value": Field(text_of, required=True, says="the best"),
    "least": Field(text_of, required=True, says="the least that fits as well"),
    "most": Field(text_of, required=True, says="the most that fits as well"),
    "searched_from": Field(text_of, required=True, says="where the search began"),
    "searched_to": Field(text_of, required=True, says="where it ended"),
    "scale": Field(one_of("log", "linear"), required=True, says="how it was searched"),
}
ROW_FIELDS = {
    "label": Field(text_of, required=True, says="which number"),
    "use": Field(one_of(*USES), required=True, says="fitted on it, or judged by it"),
    "asked_mbit": Field(decimal, required=True, says="as measured", unit="Mbit/s"),
    "band_least_mbit": Field(decimal, required=True, says="its uncertainty, from", unit="Mbit/s"),
    "band_most_mbit": Field(decimal, required=True, says="and to", unit="Mbit/s"),
    "lab_mbit": Field(decimal, says="the lab's, on this path", unit="Mbit/s"),
    "least_mbit": Field(decimal, says="the least on paths that fit as well", unit="Mbit/s"),
    "most_mbit": Field(decimal, says="the most on them", unit="Mbit/s"),
}
TRADE_OFF_FIELDS = {
    "between": Field(list_of(text_of, least=2), required=True, says="two parameters"),
    "correlation": Field(read_correlation, required=True, says="of their ranks, -1 to 1"),
}
FITTED_FIELDS = {
    "by": Field(text_of, required=True, says="the lab that fitted it"),
    "base": Field(text_of, required=True, says="the profile that it began with"),
    "measurements": Field(text_of, required=True, says="what it was fitted to"),
    "sha256": Field(text_of, required=True, says="of the measurements' file"),
    "seed": Field(COUNT, required=True, says="of search and runs"),
    "points": Field(COUNT, required=True, says="paths that were tried"),
    "runs": Field(COUNT, required=True, says="runs that were made"),
    "misfit": Field(
        decimal,
        required=True,
        says="the root of the mean square of the fitted rows' residuals, in their uncertainty",
    ),
    "explained": Field(yes_no, required=True, says="whether every fitted row is within its band"),
    "settings": Field(
        words_by_name("settings"), default={}, says="what the runs had besides the path"
    ),
    "parameters": Field(
        list_of(mapping(PARAMETER_FIELDS, lambda _node, values: FittedParameter(**values))),
        required=True,
        says="what the fit was free to choose",
    ),
    "rows": Field(
        list_of(mapping(ROW_FIELDS, read_row)), required=True, says="each number beside the lab's"
    ),
    "trade_offs": Field(
        list_of(mapping(TRADE_OFF_FIELDS, lambda _node, values: TradeOff(**values))),
        default=(),
        says="pairs of parameters that make up for each other",
    ),
    "alike": Field(
        list_of(words_by_name("parameters")),
        default=(),
        says="a sample of the paths that fit as well",
    ),
}
FITTED = mapping(FITTED_FIELDS, read_fitted)
