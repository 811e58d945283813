"""sfq: a fair share for every flow, tail drop from the longest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import PacketQueue, queue_pkts

QDISC = QdiscKind(name="sfq", says="a fair share for every flow, tail drop from the longest")


class Sfq(PacketQueue):
    """128 queues, the kernel's defaults."""

    kind = "sfq"


def build(direction: Mapping[str, Any], seed: int) -> Sfq:
    """As many packets as the buffer has."""
    return Sfq(queue_pkts(direction))
