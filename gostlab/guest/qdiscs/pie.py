"""pie: it drops by chance, by how long packets wait (RFC 8033)."""

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import Direction, Queue, queue_of

QDISC = QdiscKind(
    name="pie",
    says="it drops by chance, by how long packets wait (RFC 8033)",
    option="NET_SCH_PIE",
    marks=True,
    has_target=True,
    marks_at=36,
)


def build(direction: Direction, seed: int) -> Queue:
    """Target 15 ms, updated every 16 ms, the kernel's defaults."""
    return queue_of(QDISC, direction)
