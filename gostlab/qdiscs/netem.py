# SPDX-License-Identifier: MIT
"""netem: the kernel's network emulator as a bottleneck, with rate and buffer in one."""

from gostlab.guest.delay_line import Netem
from gostlab.guest.qdisc import ShapedDirection
from gostlab.qdiscs.base import queue_pkts
from gostlab.registry.qdiscs import BOTTLENECK, QdiscKind

QDISC = QdiscKind(
    name="netem",
    says="netem's rate, with a queue of its own: first in, first out",
    option="NET_SCH_NETEM",
    use=BOTTLENECK,
    paces_idle=True,
)


def build(kind: QdiscKind, direction: ShapedDirection, seed: int) -> Netem:
    """Return a bottleneck of rate and buffer. netem needs a seed, though nothing is random."""
    return Netem(limit_pkts=queue_pkts(direction), rate_bps=direction.rate_bps, seed=seed)
