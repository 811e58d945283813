"""What every queueing discipline can do, and those that have nothing but a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from gostlab.ask.limits import DELAY_LIMIT_PKTS
from gostlab.guest.network import NetworkError

# What tc and the kernel round, beyond which a rate is another one.
RATE_TOLERANCE_BPS = 8


class ShapingMismatch(NetworkError):
    """The kernel installed something else than what was asked for."""


class Qdisc(Protocol):
    """One queueing discipline, as asked for or as read back."""

    kind: ClassVar[str]  # tc's name

    def tc_options(self) -> list[str]:
        """What follows its name on tc's command line."""

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Self:
        """From the `options` that `tc -j qdisc show` prints of it."""

    def differences(self, installed: Self) -> list[str]:
        """What was installed instead of what was asked, one phrase each, beyond the kernel's own
        resolution.
        """


def queue_pkts(direction: Mapping[str, Any]) -> int:
    """How many packets may wait at a bottleneck: its buffer, or more than ever come."""
    pkts = direction["buffer_pkts"]
    return DELAY_LIMIT_PKTS if pkts is None else int(pkts)


def limit_difference(asked_pkts: int, installed_pkts: int) -> list[str]:
    """Another limit than the one asked for, as a phrase."""
    if asked_pkts == installed_pkts:
        return []
    return [f"limit {asked_pkts} packets asked, {installed_pkts} installed"]


def rate_difference(asked_bps: int | None, installed_bps: int | None) -> list[str]:
    """Another rate than the one asked for, as a phrase."""
    both = asked_bps is not None and installed_bps is not None
    if asked_bps == installed_bps or (
        both and abs((asked_bps or 0) - (installed_bps or 0)) <= RATE_TOLERANCE_BPS
    ):
        return []
    return [f"rate {asked_bps} bit/s asked, {installed_bps} bit/s installed"]


def marks(direction: Mapping[str, Any]) -> bool:
    """Whether queues are to mark who asks for it, where they would drop."""
    return direction.get("ecn", "off") != "off"


@dataclass(frozen=True)
class PacketQueue:
    """A queue of which only its limit is asked; everything else is the kernel's default."""

    kind: ClassVar[str]
    limit_pkts: int

    def tc_options(self) -> list[str]:
        """What follows its name on tc's command line."""
        return ["limit", str(self.limit_pkts)]

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Self:
        """From tc's JSON."""
        return cls(limit_pkts=int(options["limit"]))

    def differences(self, installed: Self) -> list[str]:
        """Another limit, as a phrase."""
        return limit_difference(self.limit_pkts, installed.limit_pkts)


@dataclass(frozen=True)
class MarkingQueue(PacketQueue):
    """One that may mark packets of who asks for it (ECN), where it would drop them."""

    ecn: bool = False

    def tc_options(self) -> list[str]:
        """What follows its name on tc's command line."""
        return [*super().tc_options(), *(["ecn"] if self.ecn else [])]

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Self:
        """From tc's JSON."""
        return cls(limit_pkts=int(options["limit"]), ecn=bool(options.get("ecn")))

    def differences(self, installed: Self) -> list[str]:
        """Another limit, or no marks, a phrase each. (Some mark unless they are told not to.)"""
        found = super().differences(installed)
        return [*found, "ecn asked, not installed"] if self.ecn and not installed.ecn else found
