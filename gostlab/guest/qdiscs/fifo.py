"""fifo: first in, first out: it drops what comes when it is full."""

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import Direction, Queue, queue_of

QDISC = QdiscKind(
    name="fifo",
    says="first in, first out",
    option="NET_SCHED",
    kernel_name="pfifo",
    spellings=("pfifo",),
)


def build(direction: Direction, seed: int) -> Queue:
    """As many packets as the buffer has."""
    return queue_of(QDISC, direction)
