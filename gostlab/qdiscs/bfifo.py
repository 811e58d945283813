# SPDX-License-Identifier: MIT
"""bfifo: first in, first out, with a limit in bytes: small packets fill it less than large ones."""

from gostlab.guest.qdisc import ShapedDirection
from gostlab.qdiscs.base import FRAME_BYTES, MAX_BYTES, Queue, queue_pkts
from gostlab.registry.qdiscs import QdiscKind

QDISC = QdiscKind(
    name="bfifo",
    says="first in, first out, limited by bytes and not by packets",
    option="NET_SCHED",
)


def build(kind: QdiscKind, direction: ShapedDirection, seed: int) -> Queue:
    """Return a bfifo whose limit in bytes is the buffer filled with full packets."""
    return Queue("bfifo", min(MAX_BYTES, queue_pkts(direction) * FRAME_BYTES), unit="bytes")
