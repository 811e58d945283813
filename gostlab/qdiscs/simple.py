# SPDX-License-Identifier: MIT
"""Declare queues with only a limit in packets; everything else is the kernel's default."""

from gostlab.guest.qdisc import ShapedDirection
from gostlab.qdiscs.base import Queue, queue_of
from gostlab.registry.qdiscs import QdiscKind

QDISC = (
    QdiscKind(
        name="fifo",
        says="first in, first out",
        option="NET_SCHED",
        kernel_name="pfifo",
        spellings=("pfifo",),
    ),
    # CoDel's defaults: target 5 ms, interval 100 ms.
    QdiscKind(
        name="codel",
        says="CoDel: it drops by how long packets wait (RFC 8289)",
        option="NET_SCH_CODEL",
        marks=True,
        has_target=True,
        marks_at=24,
    ),
    # PIE's defaults: target 15 ms, updated every 16 ms.
    QdiscKind(
        name="pie",
        says="it drops by chance, by how long packets wait (RFC 8033)",
        option="NET_SCH_PIE",
        marks=True,
        has_target=True,
        marks_at=36,
    ),
    # FQ-PIE's defaults: 1024 queues, target 15 ms.
    QdiscKind(
        name="fq_pie",
        flow_queues=1024,
        says="a fair share for every flow, each with PIE",
        option="NET_SCH_FQ_PIE",
        marks=True,
        has_target=True,
        marks_at=16,
    ),
    # SFQ's defaults: 128 queues, by a hash of 1024 values.
    QdiscKind(
        name="sfq",
        flow_queues=1024,
        says="a fair share for every flow, tail drop from the longest",
        option="NET_SCH_SFQ",
    ),
)


def build(kind: QdiscKind, direction: ShapedDirection, seed: int) -> Queue:
    """Return the queue whose limit is the buffer."""
    return queue_of(kind, direction)
