"""codel: CoDel: it drops by how long packets wait (RFC 8289)."""

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import Direction, Queue, queue_of

QDISC = QdiscKind(
    name="codel",
    says="CoDel: it drops by how long packets wait (RFC 8289)",
    option="NET_SCH_CODEL",
    marks=True,
    has_target=True,
    marks_at=24,
)


def build(direction: Direction, seed: int) -> Queue:
    """Target 5 ms, interval 100 ms, the kernel's defaults."""
    return queue_of(QDISC, direction)
