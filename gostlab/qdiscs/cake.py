# SPDX-License-Identifier: MIT
"""cake: a fair share for every flow and host, each with COBALT, a variant of CoDel (tc-cake(8)).

cake can shape, too. Here the token bucket above it has the rate, so that cake is compared with the
other disciplines as a queue alone.
"""

from gostlab.guest.qdisc import ShapedDirection
from gostlab.qdiscs.base import MAX_BYTES, Queue, queue_pkts
from gostlab.registry.qdiscs import QdiscKind

QDISC = QdiscKind(
    name="cake",
    says="a fair share for every flow and host, each with COBALT; one priority",
    option="NET_SCH_CAKE",
    marks=True,
    marks_in=(10, 8),  # TCA_CAKE_STATS_TIN_STATS, TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS
)

# cake limits the memory of its packets. The kernel allocates at most this much, two pages, for a
# full packet.
PACKET_MEMORY_BYTES = 8192
MIN_BYTES = 1 << 16


def build(kind: QdiscKind, direction: ShapedDirection, seed: int) -> Queue:
    """Return a cake with memory for the buffer's packets at their largest; interval 100 ms."""
    limit_bytes = max(MIN_BYTES, min(MAX_BYTES, queue_pkts(direction) * PACKET_MEMORY_BYTES))
    args = ("unlimited", "besteffort")
    return Queue("cake", limit_bytes, word="memlimit", unit="bytes", more=args)
