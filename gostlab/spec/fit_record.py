# SPDX-License-Identifier: MIT
"""Represent the result of a fit: a profile's `fitted`, written by ./lab fit.

It lists the values that the path was fitted to and those that it was judged by, the lab's value for
each, and all the paths that fit equally well: as ranges, as pairs of parameters that trade off, as
a sample.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gostlab.spec.yaml_source import (
    COUNT,
    NUMBER,
    TEXTS_BY_NAME,
    key,
    list_of,
    number_reader,
    one_of,
    record_reader,
    text_of,
    yes_no,
)

FIT, JUDGE = "fit", "judge"
USES = (FIT, JUDGE)


@dataclass(frozen=True)
class FittedParameter:
    """Represent a fitted parameter. Values are written like a setting's: 0.01%."""

    name: str = key(text_of, "name in the measurements")
    sets: str = key(text_of, "setting, as for --set")
    value: str = key(text_of, "best value")
    least: str = key(text_of, "minimum that fits equally well")
    most: str = key(text_of, "maximum that fits equally well")
    searched_from: str = key(text_of, "lower bound of the search")
    searched_to: str = key(text_of, "upper bound of the search")
    scale: str = key(one_of("log", "linear"), "scale of the search")

    @property
    def open_below(self) -> bool:
        """Return whether equally good values reach the lower bound of the search."""
        return self.least == self.searched_from

    @property
    def open_above(self) -> bool:
        """Return whether equally good values reach the upper bound of the search."""
        return self.most == self.searched_to


@dataclass(frozen=True)
class FittedRow:
    """Represent a measured value and the lab's, in Mbit/s; None if no run counts."""

    label: str = key(text_of, "label of the value")
    use: str = key(one_of(*USES), "whether the path was fitted to the value, or judged by it")
    asked_mbit: float = key(NUMBER, "measured value", unit="Mbit/s")
    band_least_mbit: float = key(NUMBER, "lower end of the uncertainty", unit="Mbit/s")
    band_most_mbit: float = key(NUMBER, "upper end of the uncertainty", unit="Mbit/s")
    lab_mbit: float | None = key(
        NUMBER, "value of the lab, on this path", unit="Mbit/s", default=None
    )
    least_mbit: float | None = key(
        NUMBER, "minimum on paths that fit equally well", unit="Mbit/s", default=None
    )
    most_mbit: float | None = key(
        NUMBER, "maximum on paths that fit equally well", unit="Mbit/s", default=None
    )

    @property
    def ratio(self) -> float | None:
        return None if self.lab_mbit is None else self.lab_mbit / self.asked_mbit

    @property
    def in_band(self) -> bool:
        """Return whether the best path's value lies within the measurement's uncertainty."""
        return (
            self.lab_mbit is not None
            and self.band_least_mbit <= self.lab_mbit <= self.band_most_mbit
        )

    @property
    def in_reach(self) -> bool:
        """Return whether the values of equally good paths overlap the measurement's uncertainty."""
        return (
            self.least_mbit is not None
            and self.most_mbit is not None
            and self.least_mbit <= self.band_most_mbit
            and self.band_least_mbit <= self.most_mbit
        )


@dataclass(frozen=True)
class TradeOff:
    """Represent two parameters that trade off among the paths that fit equally well."""

    between: tuple[str, ...] = key(list_of(text_of, least=2), "names of the two parameters")
    correlation: float = key(number_reader(-1, 1).to(float), "rank correlation, -1 to 1")


@dataclass(frozen=True)
class FitRecord:
    """Represent a fit and its results."""

    by: str = key(text_of, "gostlab version that fitted it")
    base: str = key(text_of, "profile that the fit started with")
    measurements: str = key(text_of, "measurements that it was fitted to")
    sha256: str = key(text_of, "SHA-256 of the measurements' file")
    seed: int = key(COUNT, "seed of search and runs")
    points: int = key(COUNT, "number of paths tried")
    runs: int = key(COUNT, "number of runs made")
    misfit: float = key(
        NUMBER, "root mean square of the fitted rows' residuals, in units of their uncertainty"
    )
    explained: bool = key(yes_no, "whether every fitted row is within its band")
    settings: Mapping[str, str] = key(
        TEXTS_BY_NAME, "settings of the runs besides the path", default={}
    )
    parameters: tuple[FittedParameter, ...] = key(
        list_of(record_reader(FittedParameter)), "fitted parameters"
    )
    rows: tuple[FittedRow, ...] = key(
        list_of(record_reader(FittedRow)), "each measured value and the lab's"
    )
    trade_offs: tuple[TradeOff, ...] = key(
        list_of(record_reader(TradeOff)), "pairs of parameters that trade off", default=()
    )
    alike: tuple[Mapping[str, str], ...] = key(
        list_of(TEXTS_BY_NAME), "sample of the paths that fit equally well", default=()
    )
