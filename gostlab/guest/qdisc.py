"""What every queueing discipline can do."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from gostlab.guest.network import NetworkError

RATE_TOLERANCE_BPS = 8  # what tc and the kernel round
CLASS = "1:1"

Direction = Mapping[str, Any]  # one way of a path, as the run describes it


class ShapingMismatch(NetworkError):
    """The kernel installed something else than what was requested."""


class OptionComparison(NamedTuple):
    """How a value that was asked, of some name, is compared with the one that is there."""

    name: str
    word: str
    unit: str = ""
    rel_tol: float = 0.0  # what tc and the kernel round
    abs_tol: float = 0.0

    def difference(self, asked: Any, installed: Any) -> list[str]:
        """Another value than the one requested, as a phrase. None: not set."""
        if None in (asked, installed):
            same = asked is installed
        else:
            pairs = [(asked, installed)]
            if isinstance(asked, tuple):
                pairs = list(itertools.zip_longest(asked, installed, fillvalue=math.inf))
            same = all(
                math.isclose(*pair, rel_tol=self.rel_tol, abs_tol=self.abs_tol) for pair in pairs
            )
        unit = f" {self.unit}" if self.unit else ""
        return [] if same else [f"{self.word} {asked}{unit} asked, {installed}{unit} installed"]


class Qdisc:
    """One queueing discipline, as requested or as read back."""

    kind: str  # the kernel's name of it
    compared: ClassVar[
        tuple[OptionComparison, ...]
    ] = ()  # its values, as far as the kernel shows them
    of_class: str = (
        ""  # the class that has its rate, under which the next qdisc stands, if it has one
    )

    def argvs(self, verb: str, device: str, position: Sequence[str]) -> list[list[str]]:
        """The commands that install it, or change it in place. `position`: as tc has it."""
        return [["tc", "qdisc", verb, "dev", device, *position, self.kind, *self.tc_options()]]

    def tc_options(self) -> list[str]:
        """What follows its name on tc's command line."""
        raise NotImplementedError

    def installed(self, options: Mapping[str, Any]) -> Self:
        """What stands there, from the `options` that `tc -j qdisc show` prints of it."""
        raise NotImplementedError

    def differences(self, installed: Self) -> list[str]:
        """What differs beyond the kernel's own resolution, one phrase each."""
        return [
            phrase
            for each in self.compared
            for phrase in each.difference(getattr(self, each.name), getattr(installed, each.name))
        ]
