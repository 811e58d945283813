"""cake: a fair share for every flow and host, each with COBALT, a kin of CoDel (tc-cake(8)).

It may shape by itself; here the token bucket above it has the rate, so that it is compared with the
others as a queue alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import queue_pkts

QDISC = QdiscKind(
    name="cake",
    says="a fair share for every flow and host, each with COBALT; one priority",
    marks=True,
)

# cake limits the memory that packets take, and the kernel gives a full packet so much of it: two
# pages at the most.
PACKET_MEMORY_BYTES = 8192
LEAST_BYTES, MOST_BYTES = 1 << 16, 2**32 - 1


@dataclass(frozen=True)
class Cake:
    """cake without a rate of its own, interval 100 ms, one priority for all."""

    kind: ClassVar[str] = "cake"
    memory_bytes: int

    def tc_options(self) -> list[str]:
        """What follows its name on tc's command line."""
        return ["unlimited", "besteffort", "memlimit", str(self.memory_bytes)]

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Cake:
        """From tc's JSON."""
        return cls(memory_bytes=int(options["memlimit"]))

    def differences(self, installed: Cake) -> list[str]:
        """Another limit, as a phrase."""
        if self.memory_bytes == installed.memory_bytes:
            return []
        return [f"memory {self.memory_bytes} bytes asked, {installed.memory_bytes} installed"]


def build(direction: Mapping[str, Any], seed: int) -> Cake:
    """Room for as many packets as the buffer has, however they lie in memory."""
    wanted = queue_pkts(direction) * PACKET_MEMORY_BYTES
    return Cake(max(LEAST_BYTES, min(MOST_BYTES, wanted)))
