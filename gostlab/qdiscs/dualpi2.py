# SPDX-License-Identifier: MIT
"""dualpi2: two queues coupled by one PI controller (RFC 9332).

One is a shallow queue for L4S flows, the other one is PI2 for the rest.
"""

from collections.abc import Sequence
from typing import Self

from gostlab.guest.qdisc import ShapedDirection, TcOptions
from gostlab.qdiscs.base import Queue, queue_pkts
from gostlab.registry.folders import QDISCS
from gostlab.registry.qdiscs import QdiscKind

QDISC = QdiscKind(
    name="dualpi2",
    says="two coupled queues, a shallow one for L4S and PI2 for the rest (RFC 9332)",
    option="NET_SCH_DUALPI2",
    since=(6, 17),
    marks=True,
    has_target=True,
    marks_at=24,
)
OPTIONS = str(QDISCS / "dualpi2_netlink.py")


class DualPi2(Queue):
    """A dualpi2 with the kernel's defaults: target 15 ms, step 1 ms; ECN is always on.

    tc 6.15 does not know its options: the program that sets them reads them back.
    """

    def argvs(self, verb: str, device: str, position: Sequence[str]) -> list[list[str]]:
        if verb == "change":  # dualpi2 has no option that may change during a run
            return []
        parent = position[1] if position[0] == "parent" else "root"
        handle = position[position.index("handle") + 1] if "handle" in position else "1:"
        target = [str(self.target_us)] if self.target_us else []
        args = [verb, device, parent, handle, str(self.limit), *target]
        return [["/usr/bin/python3", OPTIONS, *args]]

    def installed(self, options: TcOptions) -> Self:
        return super().installed(options) if self.word in options else self


def build(kind: QdiscKind, direction: ShapedDirection, seed: int) -> DualPi2:
    """Return a dualpi2 whose limit is the buffer."""
    target_us = round(1000 * direction.target_ms)
    return DualPi2("dualpi2", queue_pkts(direction), target_us=target_us)
