"""tbf: a token bucket, under which any queue may stand. It takes a packet from that queue only when
it can be sent, so that the queue sees all that waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gostlab.guest.qdisc import RATE_TOLERANCE_BPS, Direction, OptionComparison, Qdisc
from gostlab.qdiscs.base import FRAME_BYTES, MAX_BYTES, queue_pkts
from gostlab.registry.qdiscs import BOTTLENECK, QdiscKind

QDISC = QdiscKind(
    name="tbf",
    says="a token bucket, over the queue that `queue` names",
    option="NET_SCH_TBF",
    use=BOTTLENECK,
    takes_queue=True,
    usual=True,
)

# The bucket: two full packets, or what the rate sends in 0.1 ms, as a timer may be that late on the
# real clock.
BUCKET_PKTS = 2
BUCKET_S = 1e-4
BUCKET_TOLERANCE = 0.02  # tc hands it over as a time, in ticks of 64 ns


@dataclass(frozen=True)
class Tbf(Qdisc):
    """One token bucket, as requested or as read back."""

    rate_bps: int
    burst_bytes: int
    # of a queue of its own, which gives way to the one under it; not read back
    limit_bytes: int | None = None

    kind = "tbf"
    compared = (
        OptionComparison("rate_bps", "rate", "bit/s", abs_tol=RATE_TOLERANCE_BPS),
        OptionComparison("burst_bytes", "burst", "bytes", rel_tol=BUCKET_TOLERANCE),
    )

    def tc_options(self) -> list[str]:
        options = ["rate", f"{self.rate_bps}bit", "burst", f"{self.burst_bytes}b"]
        return [*options, "limit", f"{self.limit_bytes}b"]

    def installed(self, options: Mapping[str, Any]) -> Tbf:
        """From tc's JSON, whose rate is in bytes per second."""
        return Tbf(rate_bps=8 * int(options["rate"]), burst_bytes=int(options["burst"]))


def build(kind: QdiscKind, direction: Direction, seed: int) -> Tbf:
    """A bottleneck's rate."""
    rate_bps = int(direction["rate_bps"])
    return Tbf(
        rate_bps=rate_bps,
        burst_bytes=max(BUCKET_PKTS * FRAME_BYTES, math.ceil(rate_bps * BUCKET_S / 8)),
        limit_bytes=min(MAX_BYTES, (queue_pkts(direction) + BUCKET_PKTS) * FRAME_BYTES),
    )
