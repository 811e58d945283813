"""fq_pie: a fair share for every flow, each with PIE."""

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import Direction, Queue, queue_of

QDISC = QdiscKind(
    name="fq_pie",
    says="a fair share for every flow, each with PIE",
    option="NET_SCH_FQ_PIE",
    marks=True,
    has_target=True,
    marks_at=16,
)


def build(direction: Direction, seed: int) -> Queue:
    """1024 queues, target 15 ms, the kernel's defaults."""
    return queue_of(QDISC, direction)
