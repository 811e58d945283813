"""What a fitted path says of its fit: a profile's `fitted`, written by ./lab fit.

Which numbers it was fitted on and which it was judged on, what the lab makes of each, and all the
paths that fit as well as this one: as ranges, as pairs of parameters that trade off, as a sample.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from gostlab.spec.yaml_source import (
    COUNT,
    NUMBER,
    TEXTS_BY_NAME,
    key,
    list_of,
    number,
    one_of,
    record,
    text_of,
    yes_no,
)

FIT, JUDGE = "fit", "judge"
USES = (FIT, JUDGE)


@dataclass(frozen=True)
class FittedParameter:
    """A number that the fit was free to choose. Values are as a setting has them: 0.01%."""

    name: str = key(text_of, "what the measurements call it")
    sets: str = key(text_of, "the setting, as --set has it")
    value: str = key(text_of, "the best")
    least: str = key(text_of, "the least that fits as well")
    most: str = key(text_of, "the most that fits as well")
    searched_from: str = key(text_of, "where the search began")
    searched_to: str = key(text_of, "where it ended")
    scale: str = key(one_of("log", "linear"), "how it was searched")

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
    """A measured number beside the lab's, in Mbit/s; the lab's are None where no run counts."""

    label: str = key(text_of, "which number")
    use: str = key(one_of(*USES), "fitted on it, or judged by it")
    asked_mbit: float = key(NUMBER, "as measured", unit="Mbit/s")
    band_least_mbit: float = key(NUMBER, "its uncertainty, from", unit="Mbit/s")
    band_most_mbit: float = key(NUMBER, "and to", unit="Mbit/s")
    lab_mbit: float | None = key(NUMBER, "the lab's, on this path", unit="Mbit/s", default=None)
    least_mbit: float | None = key(
        NUMBER, "the least on paths that fit as well", unit="Mbit/s", default=None
    )
    most_mbit: float | None = key(NUMBER, "the most on them", unit="Mbit/s", default=None)

    @property
    def ratio(self) -> float | None:
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

    between: tuple[str, ...] = key(list_of(text_of, least=2), "two parameters")
    correlation: float = key(number(-1, 1).to(float), "of their ranks, -1 to 1")


@dataclass(frozen=True)
class FitRecord:
    """A fit and what came of it."""

    by: str = key(text_of, "the lab that fitted it")
    base: str = key(text_of, "the profile that it began with")
    measurements: str = key(text_of, "what it was fitted to")
    sha256: str = key(text_of, "of the measurements' file")
    seed: int = key(COUNT, "of search and runs")
    points: int = key(COUNT, "paths that were tried")
    runs: int = key(COUNT, "runs that were made")
    misfit: float = key(
        NUMBER, "the root of the mean square of the fitted rows' residuals, in their uncertainty"
    )
    explained: bool = key(yes_no, "whether every fitted row is within its band")
    settings: Mapping[str, str] = key(
        TEXTS_BY_NAME, "what the runs had besides the path", default={}
    )
    parameters: tuple[FittedParameter, ...] = key(
        list_of(record(FittedParameter)), "what the fit was free to choose"
    )
    rows: tuple[FittedRow, ...] = key(list_of(record(FittedRow)), "each number beside the lab's")
    trade_offs: tuple[TradeOff, ...] = key(
        list_of(record(TradeOff)), "pairs of parameters that make up for each other", default=()
    )
    alike: tuple[Mapping[str, str], ...] = key(
        list_of(TEXTS_BY_NAME), "a sample of the paths that fit as well", default=()
    )
