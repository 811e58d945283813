"""fq_codel: a fair share for every flow, each with CoDel (RFC 8290)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import MarkingQueue, marks, queue_pkts

QDISC = QdiscKind(
    name="fq_codel", says="a fair share for every flow, each with CoDel (RFC 8290)", marks=True
)


class FqCodel(MarkingQueue):
    """1024 queues, target 5 ms, interval 100 ms, the kernel's defaults."""

    kind = "fq_codel"


def build(direction: Mapping[str, Any], seed: int) -> FqCodel:
    """As many packets as the buffer has."""
    return FqCodel(queue_pkts(direction), marks(direction))
