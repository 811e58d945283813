"""codel: CoDel: it drops by how long packets wait (RFC 8289)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import MarkingQueue, marks, queue_pkts

QDISC = QdiscKind(
    name="codel", says="CoDel: it drops by how long packets wait (RFC 8289)", marks=True
)


class Codel(MarkingQueue):
    """Target 5 ms, interval 100 ms, the kernel's defaults."""

    kind = "codel"


def build(direction: Mapping[str, Any], seed: int) -> Codel:
    """As many packets as the buffer has."""
    return Codel(queue_pkts(direction), marks(direction))
