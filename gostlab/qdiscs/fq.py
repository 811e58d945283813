# SPDX-License-Identifier: MIT
"""fq: a fair share for every flow by deficit round robin, tail drop per flow (tc-fq(8))."""

from dataclasses import dataclass, replace
from typing import Self

from gostlab.guest.qdisc import OptionComparison, ShapedDirection, TcOptions
from gostlab.qdiscs.base import Queue, queue_pkts
from gostlab.registry.qdiscs import QdiscKind

QDISC = QdiscKind(
    name="fq",
    says="a fair share for every flow in turn, tail drop per flow; buffer limits a flow, too",
    option="NET_SCH_FQ",
)


@dataclass(frozen=True)
class FairQueue(Queue):
    """A queue with a limit for all packets and a limit per flow."""

    flow_limit: int = 0

    compared = (*Queue.compared, OptionComparison("flow_limit", "flow_limit", "packets"))

    def tc_options(self) -> list[str]:
        return [*super().tc_options(), "flow_limit", str(self.flow_limit)]

    def installed(self, options: TcOptions) -> Self:
        return replace(super().installed(options), flow_limit=int(options["flow_limit"]))


def build(kind: QdiscKind, direction: ShapedDirection, seed: int) -> Queue:
    """Return an fq whose two limits are the buffer.

    The kernel's default of 100 packets per flow would reduce a larger buffer.
    """
    packets = queue_pkts(direction)
    return FairQueue(kind.in_kernel, packets, flow_limit=packets)
