"""What every queueing discipline can do, and those of which little but a limit is asked."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from gostlab.declared.qdiscs import QdiscKind
from gostlab.describe.physics.limits import DELAY_LIMIT_PKTS, MTU_BYTES
from gostlab.guest.network import NetworkError

RATE_TOLERANCE_BPS = 8  # what tc and the kernel round
FRAME_BYTES = MTU_BYTES + 14  # as the kernel counts a full packet: with its Ethernet header
MOST_BYTES = 2**32 - 1
TARGET_TOLERANCE_US = 2  # CoDel counts in units of 1.024 µs

Direction = Mapping[str, Any]  # one way of a path, as the run describes it


class ShapingMismatch(NetworkError):
    """The kernel installed something else than what was requested."""


class Qdisc(Protocol):
    """One queueing discipline, as requested or as read back."""

    @property
    def kind(self) -> str:
        """The kernel's name of it."""

    def tc_options(self) -> list[str]:
        """What follows its name on tc's command line."""

    def installed(self, options: Mapping[str, Any]) -> Self:
        """What stands there, from the `options` that `tc -j qdisc show` prints of it."""

    def differences(self, installed: Self) -> list[str]:
        """What differs beyond the kernel's own resolution, one phrase each."""


def queue_pkts(direction: Direction) -> int:
    """How many packets may wait at a bottleneck: its buffer, or more than ever come."""
    pkts = direction["buffer_pkts"]
    return DELAY_LIMIT_PKTS if pkts is None else int(pkts)


def difference(
    name: str, asked: float | None, installed: float | None, unit: str, tolerance: float = 0.0
) -> list[str]:
    """Another value than the one requested, as a phrase."""
    if asked is None or installed is None:
        same = asked is installed
    else:
        same = abs(asked - installed) <= tolerance
    if same:
        return []
    return [f"{name} {asked} {unit} asked, {installed} {unit} installed"]


def marking(kind: QdiscKind, direction: Direction) -> tuple[str, ...]:
    """tc's word for a queue that marks packets of ECN flows where it would drop, if it marks."""
    return ("ecn",) if kind.marks and direction.get("ecn", "off") != "off" else ()


@dataclass(frozen=True)
class Queue:
    """A queue of which a limit is asked; what is not said is the kernel's default.

    kind   the kernel's name of it
    word   tc's word for the limit, on the command line and in what it shows
    more   further words for tc, which it does not show
    flags  words that tc shows as true where they were taken
    target_us  how long packets may wait; 0: the kernel's own
    """

    kind: str
    limit: int
    word: str = "limit"
    unit: str = "packets"
    more: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    target_us: int = 0

    def tc_options(self) -> list[str]:
        """What follows its name on tc's command line."""
        target = ["target", f"{self.target_us}us"] if self.target_us else []
        return [self.word, str(self.limit), *target, *self.more, *self.flags]

    def installed(self, options: Mapping[str, Any]) -> Self:
        """From tc's JSON."""
        flags = tuple(flag for flag in self.flags if options.get(flag))
        target_us = int(options.get("target", 0)) if self.target_us else 0
        return replace(self, limit=int(options[self.word]), flags=flags, target_us=target_us)

    def differences(self, installed: Self) -> list[str]:
        """Another limit, or a flag that was not taken, a phrase each."""
        refused = [flag for flag in self.flags if flag not in installed.flags]
        return [
            *difference(self.word, self.limit, installed.limit, self.unit),
            *difference("target", self.target_us, installed.target_us, "µs", TARGET_TOLERANCE_US),
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
