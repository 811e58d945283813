"""fifo: first in, first out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import PacketQueue, queue_pkts

QDISC = QdiscKind(name="fifo", says="first in, first out", spellings=("pfifo",))


class Fifo(PacketQueue):
    """The plain queue: it drops what comes when it is full."""

    kind = "pfifo"


def build(direction: Mapping[str, Any], seed: int) -> Fifo:
    """As many packets as the buffer has."""
    return Fifo(queue_pkts(direction))
