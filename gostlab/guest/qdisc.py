"""Define the interface of all queueing disciplines."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from gostlab.guest.network import NetworkError
from gostlab.spec.path_spec import DirectionSpec
from gostlab.spec.run_spec import RunSpec

RATE_TOLERANCE_BPS = 8  # rounding error of tc and the kernel
CLASS = "1:1"


@dataclass(frozen=True)
class ShapedDirection(DirectionSpec):
    """One direction of a path, and the run's settings that its qdiscs depend on."""

    ecn: str = "off"
    target_ms: float = 0.0  # 0: the kernel's default

    @property
    def shaped_rate_bps(self) -> int:
        """Return the rate of a bottleneck that cannot do without one. Raises ValueError."""
        if self.rate_bps is None:
            raise ValueError("this bottleneck needs a rate")
        return self.rate_bps


def shaped_direction(direction: DirectionSpec, run: RunSpec) -> ShapedDirection:
    return ShapedDirection(**vars(direction), ecn=run.ecn, target_ms=run.target_ms)


TcOptions = Mapping[str, Any]  # The `options` that `tc -j qdisc show` prints.


class ShapingMismatch(NetworkError):
    """A setting that the kernel installed differently from what was requested."""


class OptionComparison(NamedTuple):
    """The comparison of a requested option with the installed one."""

    name: str
    word: str
    unit: str = ""
    rel_tol: float = 0.0  # rounding error of tc and the kernel
    abs_tol: float = 0.0

    def difference(self, requested: Any, installed: Any) -> list[str]:
        """Return a phrase if the installed value differs from the requested one. None: not set."""
        if None in (requested, installed):
            equal = requested is installed
        else:
            pairs = [(requested, installed)]
            if isinstance(requested, tuple):
                pairs = list(itertools.zip_longest(requested, installed, fillvalue=math.inf))
            equal = all(
                math.isclose(*pair, rel_tol=self.rel_tol, abs_tol=self.abs_tol) for pair in pairs
            )
        unit = f" {self.unit}" if self.unit else ""
        return (
            [] if equal else [f"{self.word} {requested}{unit} asked, {installed}{unit} installed"]
        )


class Qdisc:
    """One queueing discipline, as requested or as read back."""

    qdisc_kind: str  # the qdisc's name in the kernel
    compared: ClassVar[tuple[OptionComparison, ...]] = ()  # options that the kernel shows
    of_class: str = (
        ""  # class with the rate, under which the next qdisc is attached, if there is one
    )

    def argvs(self, verb: str, device: str, position: Sequence[str]) -> list[list[str]]:
        """Return the commands that install the qdisc, or change it in place.

        `position` holds tc's arguments for the parent and the handle.
        """
        return [
            ["tc", "qdisc", verb, "dev", device, *position, self.qdisc_kind, *self.tc_options()]
        ]

    def tc_options(self) -> list[str]:
        """Return the arguments after the qdisc's name on tc's command line."""
        raise NotImplementedError

    def installed(self, options: TcOptions) -> Self:
        """Parse the installed qdisc from the `options` that `tc -j qdisc show` prints."""
        raise NotImplementedError

    def differences(self, installed: Self) -> list[str]:
        """Return a phrase for each option that differs beyond the kernel's resolution."""
        return [
            phrase
            for option in self.compared
            for phrase in option.difference(
                getattr(self, option.name), getattr(installed, option.name)
            )
        ]
