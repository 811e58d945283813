"""red: adaptive RED: it drops the more, the longer its mean queue (Floyd et al., 2001)."""

from gostlab.guest.qdisc import Direction
from gostlab.qdiscs.base import FRAME_BYTES, Queue, marking, queue_pkts
from gostlab.registry.qdiscs import QdiscKind

QDISC = QdiscKind(
    name="red",
    says="adaptive RED: it drops the more, the longer its mean queue (Floyd 2001)",
    option="NET_SCH_RED",
    marks=True,
    marks_at=12,
)
AVERAGE_PACKET_BYTES = 1000


def build(kind: QdiscKind, direction: Direction, seed: int) -> Queue:
    """As many full packets as the buffer has. Its thresholds are tc's own, a twelfth and a quarter
    of that, but at least one full packet and three: a queue of one packet is none yet, and tc
    refuses less. By the rate the queue's mean ages while nothing comes.
    """
    limit = queue_pkts(direction) * FRAME_BYTES
    words = ["avpkt", str(AVERAGE_PACKET_BYTES)]
    if limit < 12 * FRAME_BYTES:
        words += ["min", str(FRAME_BYTES), "max", str(min(3 * FRAME_BYTES, limit))]
    words += ["bandwidth", f"{int(direction['rate_bps'])}bit"]
    flags = ("adaptive", *marking(kind, direction))
    return Queue("red", limit, unit="bytes", more=tuple(words), flags=flags)
