"""fq_codel: a fair share for every flow, each with CoDel (RFC 8290)."""

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import Direction, Queue, queue_of

QDISC = QdiscKind(
    name="fq_codel",
    says="a fair share for every flow, each with CoDel (RFC 8290)",
    option="NET_SCH_FQ_CODEL",
    marks=True,
    marks_at=12,
)


def build(direction: Direction, seed: int) -> Queue:
    """1024 queues, target 5 ms, interval 100 ms, the kernel's defaults."""
    return queue_of(QDISC, direction)
