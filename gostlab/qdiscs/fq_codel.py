# SPDX-License-Identifier: MIT
"""fq_codel: a fair share for every flow, each with CoDel (RFC 8290); a threshold for L4S."""

from dataclasses import replace

from gostlab.guest.qdisc import ShapedDirection
from gostlab.qdiscs.base import Queue, queue_of
from gostlab.registry.qdiscs import QdiscKind

QDISC = QdiscKind(
    name="fq_codel",
    says="a fair share for every flow, each with CoDel (RFC 8290); ecn: l4s adds its threshold",
    option="NET_SCH_FQ_CODEL",
    marks=True,
    flow_queues=1024,
    has_target=True,
    marks_at=12,
    marks_also=(28,),
)
THRESHOLD_US = 1000  # RFC 9332's step


def build(kind: QdiscKind, direction: ShapedDirection, seed: int) -> Queue:
    """Return an fq_codel with the kernel's defaults: 1024 queues, target 5 ms, interval 100 ms.

    For L4S it also has the step threshold of RFC 9332, 1 ms, for packets of ECT(1).
    """
    threshold_us = THRESHOLD_US if direction.ecn == "l4s" else 0
    return replace(queue_of(kind, direction), threshold_us=threshold_us)
