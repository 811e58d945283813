"""bfifo: first in, first out, its limit in bytes: small packets fill it less than large ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gostlab.ask.limits import MTU_BYTES
from gostlab.declared.qdiscs import QdiscKind
from gostlab.guest.qdiscs.qdisc import queue_pkts

QDISC = QdiscKind(name="bfifo", says="first in, first out, limited by bytes and not by packets")

FRAME_BYTES = MTU_BYTES + 14  # as the kernel counts a full packet: with its Ethernet header


@dataclass(frozen=True)
class Bfifo:
    """A queue limited by bytes, as asked for or as read back."""

    kind: ClassVar[str] = "bfifo"
    limit_bytes: int

    def tc_options(self) -> list[str]:
        """What follows its name on tc's command line."""
        return ["limit", f"{self.limit_bytes}b"]

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Bfifo:
        """From tc's JSON."""
        return cls(limit_bytes=int(options["limit"]))

    def differences(self, installed: Bfifo) -> list[str]:
        """Another limit, as a phrase."""
        if self.limit_bytes == installed.limit_bytes:
            return []
        return [f"limit {self.limit_bytes} bytes asked, {installed.limit_bytes} installed"]


def build(direction: Mapping[str, Any], seed: int) -> Bfifo:
    """As many bytes as full packets of the buffer have."""
    return Bfifo(min(2**32 - 1, queue_pkts(direction) * FRAME_BYTES))
