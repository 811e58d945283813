"""fq_pie: a fair share for every flow, each with PIE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import MarkingQueue, marks, queue_pkts

QDISC = QdiscKind(name="fq_pie", says="a fair share for every flow, each with PIE", marks=True)


class FqPie(MarkingQueue):
    """1024 queues, target 15 ms, the kernel's defaults."""

    kind = "fq_pie"


def build(direction: Mapping[str, Any], seed: int) -> FqPie:
    """As many packets as the buffer has."""
    return FqPie(queue_pkts(direction), marks(direction))
