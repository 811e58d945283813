"""What every queueing discipline can do, and those of which little but a limit is asked."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from gostlab.declared.qdiscs import QdiscKind
from gostlab.describe.physics.limits import DELAY_LIMIT_PKTS, MTU_BYTES
from gostlab.guest.network import NetworkError

RATE_TOLERANCE_BPS = 8  # what tc and the kernel round
FRAME_BYTES = MTU_BYTES + 14  # as the kernel counts a full packet: with its Ethernet header
MOST_BYTES = 2**32 - 1
CODEL_TOLERANCE_US = 2  # it counts in units of 1.024 µs
CLASS = "1:1"
ECT_1 = "0x1/0x3"  # of both bits of ECN

Direction = Mapping[str, Any]  # one way of a path, as the run describes it


class ShapingMismatch(NetworkError):
    """The kernel installed something else than what was requested."""


class Compared(NamedTuple):
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
    compared: tuple[Compared, ...] = ()  # its values, as far as the kernel shows them
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


def queue_pkts(direction: Direction) -> int:
    """How many packets may wait at a bottleneck: its buffer, or more than ever come."""
    pkts = direction["buffer_pkts"]
    return DELAY_LIMIT_PKTS if pkts is None else int(pkts)


def marking(kind: QdiscKind, direction: Direction) -> tuple[str, ...]:
    """tc's word for a queue that marks packets of ECN flows where it would drop, if it marks."""
    return ("ecn",) if kind.marks and direction.get("ecn", "off") != "off" else ()


@dataclass(frozen=True)
class Queue(Qdisc):
    """A queue of which a limit is asked; what is not said is the kernel's default."""

    kind: str
    limit: int
    word: str = "limit"  # tc's for the limit, on the command line and in what it shows
    unit: str = "packets"
    more: tuple[str, ...] = ()  # further words for tc, which it does not show
    flags: tuple[str, ...] = ()  # words that tc shows as true where they were taken
    target_us: int = 0  # how long packets may wait; 0: the kernel's own
    threshold_us: int = 0  # packets of ECT(1) that have waited so long are marked besides; 0: none

    compared = (
        Compared("target_us", "target", "µs", abs_tol=CODEL_TOLERANCE_US),
        Compared("threshold_us", "ce_threshold", "µs", abs_tol=CODEL_TOLERANCE_US),
    )

    def tc_options(self) -> list[str]:
        target = ["target", f"{self.target_us}us"] if self.target_us else []
        threshold = ["ce_threshold", f"{self.threshold_us}us", "ce_threshold_selector", ECT_1]
        last = threshold if self.threshold_us else []
        return [self.word, str(self.limit), *target, *self.more, *self.flags, *last]

    def installed(self, options: Mapping[str, Any]) -> Self:
        return replace(
            self,
            limit=int(options[self.word]),
            flags=tuple(flag for flag in self.flags if options.get(flag)),
            target_us=int(options.get("target", 0)) if self.target_us else 0,
            threshold_us=options.get("ce_threshold", 0),
        )

    def differences(self, installed: Self) -> list[str]:
        """With another limit, and each flag that was not taken."""
        refused = [flag for flag in self.flags if flag not in installed.flags]
        return [
            *Compared("limit", self.word, self.unit).difference(self.limit, installed.limit),
            *super().differences(installed),
            *(f"{flag} asked, not installed" for flag in refused),
        ]


def queue_of(kind: QdiscKind, direction: Direction) -> Queue:
    """A queue of as many packets as the buffer has, that marks where it can and is to."""
    return Queue(
        kind.in_kernel,
        queue_pkts(direction),
        flags=marking(kind, direction),
        target_us=round(1000 * direction.get("target_ms", 0.0)),
    )
