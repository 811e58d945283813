"""bfifo: first in, first out, its limit in bytes: small packets fill it less than large ones."""

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdisc import Direction
from gostlab.kinds.qdiscs.queues import FRAME_BYTES, MOST_BYTES, Queue, queue_pkts

QDISC = QdiscKind(
    name="bfifo",
    says="first in, first out, limited by bytes and not by packets",
    option="NET_SCHED",
)


def build(kind: QdiscKind, direction: Direction, seed: int) -> Queue:
    """As many bytes as full packets of the buffer have."""
    return Queue("bfifo", min(MOST_BYTES, queue_pkts(direction) * FRAME_BYTES), unit="bytes")
