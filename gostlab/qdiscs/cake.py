"""cake: a fair share for every flow and host, each with COBALT, a kin of CoDel (tc-cake(8)).

It may shape too; here the token bucket above it has the rate, so that it is compared with the
others as a queue alone.
"""

from gostlab.guest.qdisc import Direction
from gostlab.qdiscs.base import MAX_BYTES, Queue, queue_pkts
from gostlab.registry.qdiscs import QdiscKind

QDISC = QdiscKind(
    name="cake",
    says="a fair share for every flow and host, each with COBALT; one priority",
    option="NET_SCH_CAKE",
    marks=True,
    marks_in=(10, 8),  # TCA_CAKE_STATS_TIN_STATS, TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS
)

# cake limits the memory that packets take, and the kernel gives a full packet so much of it: two
# pages at the most.
PACKET_MEMORY_BYTES = 8192
MIN_BYTES = 1 << 16


def build(kind: QdiscKind, direction: Direction, seed: int) -> Queue:
    """Room for as many packets as the buffer has, however they lie in memory; interval 100 ms."""
    wanted = max(MIN_BYTES, min(MAX_BYTES, queue_pkts(direction) * PACKET_MEMORY_BYTES))
    words = ("unlimited", "besteffort")
    return Queue("cake", wanted, word="memlimit", unit="bytes", more=words)
