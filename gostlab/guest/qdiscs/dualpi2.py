"""dualpi2: two queues coupled by one PI controller: a shallow one for who marks by L4S, PI2 for the
rest (RFC 9332).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import limit_difference, queue_pkts

QDISC = QdiscKind(
    name="dualpi2",
    says="two coupled queues, a shallow one for L4S and PI2 for the rest (RFC 9332)",
    marks=True,
)
OPTIONS = str(Path(__file__).with_name("pi2_options.py"))


@dataclass(frozen=True)
class DualPi2:
    """Target 15 ms, step 1 ms, the kernel's defaults; always marks what can be marked. tc 6.15
    does not know it: the program that sets its limit reads it back.
    """

    kind: ClassVar[str] = "dualpi2"
    limit_pkts: int | None

    def tc_options(self) -> list[str]:
        """tc knows none."""
        return []

    def own_argv(self, verb: str, device: str, position: Sequence[str]) -> list[str]:
        """What installs it in tc's place. `position`: as tc has it."""
        parent = position[1] if position[0] == "parent" else "root"
        handle = position[position.index("handle") + 1] if "handle" in position else "1:"
        limit = str(self.limit_pkts)
        return ["/usr/bin/python3", OPTIONS, verb, device, parent, handle, limit]

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Self:
        """tc shows none of its options."""
        return cls(limit_pkts=options.get("limit"))

    def differences(self, installed: Self) -> list[str]:
        """Its limit has been read back already, where tc does not show it."""
        return (
            []
            if installed.limit_pkts is None
            else limit_difference(self.limit_pkts or 0, installed.limit_pkts)
        )


def build(direction: Mapping[str, Any], seed: int) -> DualPi2:
    """As many packets as the buffer has."""
    return DualPi2(queue_pkts(direction))
