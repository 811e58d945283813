# SPDX-License-Identifier: MIT
"""red: adaptive RED, which drops more the longer its mean queue is (Floyd et al., 2001)."""

from gostlab.guest.qdisc import ShapedDirection
from gostlab.qdiscs.base import FRAME_BYTES, Queue, marking, queue_pkts
from gostlab.registry.qdiscs import QdiscKind

QDISC = QdiscKind(
    name="red",
    says="adaptive RED: it drops the more, the longer its mean queue (Floyd 2001)",
    option="NET_SCH_RED",
    marks=True,
    marks_at=12,
)
AVERAGE_PACKET_BYTES = 1000


def build(kind: QdiscKind, direction: ShapedDirection, seed: int) -> Queue:
    """Return a red whose limit in bytes is the buffer filled with full packets.

    Its thresholds are tc's defaults, a twelfth and a quarter of the limit, but at least one full
    packet and three: tc refuses less. The rate determines how the mean queue ages while the link is
    idle.
    """
    limit = queue_pkts(direction) * FRAME_BYTES
    args = ["avpkt", str(AVERAGE_PACKET_BYTES)]
    if limit < 12 * FRAME_BYTES:
        args += ["min", str(FRAME_BYTES), "max", str(min(3 * FRAME_BYTES, limit))]
    args += ["bandwidth", f"{direction.shaped_rate_bps}bit"]
    flags = ("adaptive", *marking(kind, direction))
    return Queue("red", limit, unit="bytes", more=tuple(args), flags=flags)
