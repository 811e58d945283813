"""What queues share: those of which little but a limit is asked, and how large a limit is."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from gostlab.guest.qdisc import Direction, OptionComparison, Qdisc
from gostlab.registry.qdiscs import QdiscKind
from gostlab.tcpmodel.constants import DELAY_LIMIT_PKTS, MTU_BYTES

FRAME_BYTES = MTU_BYTES + 14  # as the kernel counts a full packet: with its Ethernet header
MAX_BYTES = 2**32 - 1
CODEL_TOLERANCE_US = 2  # it counts in units of 1.024 µs
ECT_1 = "0x1/0x3"  # of both bits of ECN


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

    compared: ClassVar[tuple[OptionComparison, ...]] = (
        OptionComparison("target_us", "target", "µs", abs_tol=CODEL_TOLERANCE_US),
        OptionComparison("threshold_us", "ce_threshold", "µs", abs_tol=CODEL_TOLERANCE_US),
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
            *OptionComparison("limit", self.word, self.unit).difference(
                self.limit, installed.limit
            ),
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
