"""fq_codel: a fair share for every flow, each with CoDel (RFC 8290); a threshold for L4S."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import Direction, Queue, difference, queue_of

QDISC = QdiscKind(
    name="fq_codel",
    says="a fair share for every flow, each with CoDel (RFC 8290); ecn: l4s adds its threshold",
    option="NET_SCH_FQ_CODEL",
    marks=True,
    has_target=True,
    marks_at=12,
    marks_also=(28,),
)
# RFC 9332's step, and the packets that it is for: those of ECT(1), of both bits of ECN.
THRESHOLD_US = 1000
TOLERANCE_US = 2  # the kernel counts in units of 1.024 µs
SELECTOR = "0x1/0x3"


@dataclass(frozen=True)
class WithThreshold(Queue):
    """Marks each packet of ECT(1) that has waited so long, beside what CoDel does."""

    threshold_us: int = 0

    def tc_options(self) -> list[str]:
        more = ["ce_threshold", f"{self.threshold_us}us", "ce_threshold_selector", SELECTOR]
        return [*super().tc_options(), *(more if self.threshold_us else [])]

    def installed(self, options: Mapping[str, Any]) -> Self:
        return replace(super().installed(options), threshold_us=options.get("ce_threshold", 0))

    def differences(self, installed: Self) -> list[str]:
        asked, there = self.threshold_us, installed.threshold_us
        return [
            *super().differences(installed),
            *difference("ce_threshold", asked, there, "µs", TOLERANCE_US),
        ]


def build(kind: QdiscKind, direction: Direction, seed: int) -> Queue:
    """1024 queues, target 5 ms, interval 100 ms, the kernel's defaults; for L4S also the step of
    RFC 9332, at 1 ms, for packets of ECT(1).
    """
    queue = queue_of(kind, direction)
    if direction.get("ecn") != "l4s":
        return queue
    return WithThreshold(**vars(queue), threshold_us=THRESHOLD_US)
