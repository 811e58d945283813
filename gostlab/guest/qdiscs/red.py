"""red: adaptive RED: it drops the more, the longer its mean queue (Floyd et al., 2001)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from gostlab.ask.limits import MTU_BYTES
from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import marks, queue_pkts

QDISC = QdiscKind(
    name="red",
    says="adaptive RED: it drops the more, the longer its mean queue (Floyd 2001)",
    marks=True,
)
ETHERNET_BYTES = 14
FULL_BYTES = MTU_BYTES + ETHERNET_BYTES
AVERAGE_PACKET_BYTES = 1000


@dataclass(frozen=True)
class Red:
    """RED with a limit in bytes. Its thresholds are tc's own, a twelfth and a quarter of that, but
    at least one full packet and three: a queue of one packet is none yet, and tc refuses less. The
    kernel adapts the probability by which it drops between them.
    """

    kind: ClassVar[str] = "red"
    limit_bytes: int
    rate_bps: int  # by which the queue's mean ages while nothing comes; tc does not show it
    adaptive: bool = True
    ecn: bool = False

    def tc_options(self) -> list[str]:
        """What follows its name on tc's command line."""
        return [
            *("limit", str(self.limit_bytes)),
            *("avpkt", str(AVERAGE_PACKET_BYTES)),
            *self.thresholds(),
            *("bandwidth", f"{self.rate_bps}bit"),
            *(["adaptive"] if self.adaptive else []),
            *(["ecn"] if self.ecn else []),
        ]

    def thresholds(self) -> list[str]:
        """tc's words for them; none where its own will do."""
        if self.limit_bytes >= 12 * FULL_BYTES:
            return []
        return ["min", str(FULL_BYTES), "max", str(min(3 * FULL_BYTES, self.limit_bytes))]

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Self:
        """From tc's JSON."""
        return cls(
            int(options["limit"]), 0, bool(options.get("adaptive")), bool(options.get("ecn"))
        )

    def differences(self, installed: Self) -> list[str]:
        """Another limit, or no adaptation, a phrase each."""
        found = []
        if self.limit_bytes != installed.limit_bytes:
            found.append(f"limit {self.limit_bytes} B asked, {installed.limit_bytes} B installed")
        if self.adaptive != installed.adaptive:
            found.append("adaptive asked, not installed")
        if self.ecn and not installed.ecn:
            found.append("ecn asked, not installed")
        return found


def build(direction: Mapping[str, Any], seed: int) -> Red:
    """As many full packets as the buffer has."""
    limit = queue_pkts(direction) * FULL_BYTES
    return Red(limit, int(direction["rate_bps"]), ecn=marks(direction))
