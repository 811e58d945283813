"""bfifo: first in, first out, its limit in bytes: small packets fill it less than large ones."""

from gostlab.guest.qdisc import Direction
from gostlab.qdiscs.base import FRAME_BYTES, MAX_BYTES, Queue, queue_pkts
from gostlab.registry.qdiscs import QdiscKind

QDISC = QdiscKind(
    name="bfifo",
    says="first in, first out, limited by bytes and not by packets",
    option="NET_SCHED",
)


def build(kind: QdiscKind, direction: Direction, seed: int) -> Queue:
    """As many bytes as full packets of the buffer have."""
    return Queue("bfifo", min(MAX_BYTES, queue_pkts(direction) * FRAME_BYTES), unit="bytes")
