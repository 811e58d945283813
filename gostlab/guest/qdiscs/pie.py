"""pie: it drops by chance, by how long packets wait (RFC 8033)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import MarkingQueue, marks, queue_pkts

QDISC = QdiscKind(
    name="pie", says="it drops by chance, by how long packets wait (RFC 8033)", marks=True
)


class Pie(MarkingQueue):
    """Target 15 ms, updated every 16 ms, the kernel's defaults."""

    kind = "pie"


def build(direction: Mapping[str, Any], seed: int) -> Pie:
    """As many packets as the buffer has."""
    return Pie(queue_pkts(direction), marks(direction))
