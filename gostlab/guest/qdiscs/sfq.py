"""sfq: a fair share for every flow, tail drop from the longest."""

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import Direction, Queue, queue_of

QDISC = QdiscKind(
    name="sfq", says="a fair share for every flow, tail drop from the longest", option="NET_SCH_SFQ"
)


def build(direction: Direction, seed: int) -> Queue:
    """128 queues, the kernel's defaults."""
    return queue_of(QDISC, direction)
