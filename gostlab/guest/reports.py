"""What a flow did, as a row of flows.json; each kind of traffic makes it of its own report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

# A udp flow's datagrams fill the MTU like a TCP segment with timestamps.
DATAGRAM_BYTES = 1448
PING_BYTES = 64  # of a ping flow's requests, and of their answers
OF_SOME = ("round_trips", "fetches", "data_began_s", "data_ended_s")
SAID_NOTHING = "it said nothing"


class TrafficError(Exception):
    """A flow failed; the message is what the program said that carried it."""


@dataclass(frozen=True)
class FlowResult:
    """What one flow did: a row of flows.json. Times are seconds from the start of the load."""

    name: str
    kind: str
    started_s: float
    ended_s: float
    goodput_bps: float  # what the receiver got, payload
    bytes: int
    seconds: float  # over which the goodput is
    retransmits: int | None  # iperf3's Retr: its own sockets' segments sent again
    lost_datagrams: int | None = None  # udp
    sent_datagrams: int | None = None
    round_trips: Mapping[str, Any] | None = None  # ping
    fetches: Sequence[Mapping[str, Any]] | None = None  # short, by size
    # when its sender's socket sent its first and its last byte; None: nothing sampled tells it
    data_began_s: float | None = None
    data_ended_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Its row: what only some kinds have is absent from the others."""
        return {
            key: value
            for key, value in asdict(self).items()
            if value is not None or key not in OF_SOME
        }


@dataclass(frozen=True)
class Ran:
    """That a flow ran, and when: what its report is read with."""

    name: str
    kind: str
    started_s: float
    ended_s: float

    def result(
        self,
        goodput_bps: float,
        bytes: int,
        seconds: float,
        retransmits: int | None = None,
        **more: Any,
    ) -> FlowResult:
        """What it did, by what its report says."""
        return FlowResult(
            **vars(self),
            goodput_bps=goodput_bps,
            bytes=bytes,
            seconds=seconds,
            retransmits=retransmits,
            **more,
        )

    def over_all_its_time(self, size_bytes: int, **more: Any) -> FlowResult:
        """The row of a flow whose program tells no rate: what it got over all that it ran."""
        took_s = self.ended_s - self.started_s
        return self.result(8 * size_bytes / took_s, size_bytes, round(took_s, 6), **more)


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that no more than 1 - share of all lie above (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
