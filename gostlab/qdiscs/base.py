# SPDX-License-Identifier: MIT
"""Define the base class of queues that have little more than a limit, and size the limits."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from gostlab.guest.qdisc import OptionComparison, Qdisc, ShapedDirection, TcOptions
from gostlab.registry.qdiscs import QdiscKind
from gostlab.tcpmodel.run_limits import DELAY_LIMIT_PKTS, MTU_BYTES

FRAME_BYTES = MTU_BYTES + 14  # a full packet as the kernel counts it: with the Ethernet header
MAX_BYTES = 2**32 - 1
CODEL_TOLERANCE_US = 2  # CoDel counts in units of 1.024 µs
ECT_1 = "0x1/0x3"  # value and mask of the two ECN bits


def queue_pkts(direction: ShapedDirection) -> int:
    """Return the limit of a bottleneck's queue in packets: its buffer, or more than ever queue."""
    pkts = direction.buffer_pkts
    return DELAY_LIMIT_PKTS if pkts is None else int(pkts)


def marking(kind: QdiscKind, direction: ShapedDirection) -> tuple[str, ...]:
    """Return tc's flag for a queue that marks packets of ECN flows instead of dropping them.

    The tuple is empty if the queue does not mark.
    """
    return ("ecn",) if kind.marks and direction.ecn != "off" else ()


@dataclass(frozen=True)
class Queue(Qdisc):
    """A queue of which a limit is requested; everything else is the kernel's default."""

    qdisc_kind: str
    limit: int
    word: str = "limit"  # tc's keyword of the limit, on the command line and in its output
    unit: str = "packets"
    more: tuple[str, ...] = ()  # further arguments of tc, which its output does not show
    flags: tuple[str, ...] = ()  # flags that tc reports as true if they were accepted
    target_us: int = 0  # target delay; 0: the kernel's default
    threshold_us: int = 0  # delay from which packets of ECT(1) are marked; 0: none

    compared: ClassVar[tuple[OptionComparison, ...]] = (
        OptionComparison("target_us", "target", "µs", abs_tol=CODEL_TOLERANCE_US),
        OptionComparison("threshold_us", "ce_threshold", "µs", abs_tol=CODEL_TOLERANCE_US),
    )

    def tc_options(self) -> list[str]:
        target = ["target", f"{self.target_us}us"] if self.target_us else []
        threshold = ["ce_threshold", f"{self.threshold_us}us", "ce_threshold_selector", ECT_1]
        threshold_args = threshold if self.threshold_us else []
        return [self.word, str(self.limit), *target, *self.more, *self.flags, *threshold_args]

    def installed(self, options: TcOptions) -> Self:
        return replace(
            self,
            limit=int(options[self.word]),
            flags=tuple(flag for flag in self.flags if options.get(flag)),
            target_us=int(options.get("target", 0)) if self.target_us else 0,
            threshold_us=options.get("ce_threshold", 0),
        )

    def differences(self, installed: Self) -> list[str]:
        """Return the differences of the limits, and each flag that was not accepted."""
        refused = [flag for flag in self.flags if flag not in installed.flags]
        return [
            *OptionComparison("limit", self.word, self.unit).difference(
                self.limit, installed.limit
            ),
            *super().differences(installed),
            *(f"{flag} asked, not installed" for flag in refused),
        ]


def queue_of(kind: QdiscKind, direction: ShapedDirection) -> Queue:
    """Return a queue whose limit is the buffer, and which marks if it can and is requested to."""
    return Queue(
        kind.in_kernel,
        queue_pkts(direction),
        flags=marking(kind, direction),
        target_us=round(1000 * direction.target_ms),
    )
