# SPDX-License-Identifier: MIT
"""tbf: a token bucket with any queue under it.

tbf dequeues a packet only when it can be sent, so that the queue sees all packets that wait.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gostlab.guest.qdisc import (
    RATE_TOLERANCE_BPS,
    OptionComparison,
    Qdisc,
    ShapedDirection,
    TcOptions,
)
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

# The bucket holds two full packets, or the bytes of 0.1 ms at the rate: on the real clock a timer
# may be that late.
BUCKET_PKTS = 2
BUCKET_S = 1e-4
BUCKET_TOLERANCE = 0.02  # tc passes the burst as a time, in ticks of 64 ns


@dataclass(frozen=True)
class Tbf(Qdisc):
    """One token bucket, as requested or as read back."""

    rate_bps: int
    burst_bytes: int
    # Limit of tbf's inner queue, which another queue replaces; not read back.
    limit_bytes: int | None = None

    qdisc_kind = "tbf"
    compared = (
        OptionComparison("rate_bps", "rate", "bit/s", abs_tol=RATE_TOLERANCE_BPS),
        OptionComparison("burst_bytes", "burst", "bytes", rel_tol=BUCKET_TOLERANCE),
    )

    def tc_options(self) -> list[str]:
        options = ["rate", f"{self.rate_bps}bit", "burst", f"{self.burst_bytes}b"]
        return [*options, "limit", f"{self.limit_bytes}b"]

    def installed(self, options: TcOptions) -> Tbf:
        """Parse tc's JSON, whose rate is in bytes per second."""
        return Tbf(rate_bps=8 * int(options["rate"]), burst_bytes=int(options["burst"]))


def build(kind: QdiscKind, direction: ShapedDirection, seed: int) -> Tbf:
    """Return a token bucket of a bottleneck's rate."""
    rate_bps = direction.shaped_rate_bps
    return Tbf(
        rate_bps=rate_bps,
        burst_bytes=max(BUCKET_PKTS * FRAME_BYTES, math.ceil(rate_bps * BUCKET_S / 8)),
        limit_bytes=min(MAX_BYTES, (queue_pkts(direction) + BUCKET_PKTS) * FRAME_BYTES),
    )
