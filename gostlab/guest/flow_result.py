"""What a flow did, as a row of flows.json; each kind of traffic makes it of its own report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

PING_BYTES = 64  # of a ping flow's requests, and of their answers
SAID_NOTHING = "it said nothing"
# Of any one file that a command writes: what it prints goes to the run's folder.
MAX_FILE_MIB = 256
SERVER = "server"  # counted_by: iperf3's receiver, whose client gave up on its results


class TrafficError(Exception):
    """A flow failed; the message is what the program said that carried it."""


@dataclass(frozen=True)
class FlowInterval:
    """What a flow did in a part of the load."""

    bytes: int
    retransmits: int | None = None
    lost_datagrams: int | None = None
    sent_datagrams: int | None = None


@dataclass(frozen=True)
class FlowResult:
    """What one flow did: a row of flows.json. Times are seconds from the start of the load. A field
    with a default is of some kinds alone.
    """

    name: str
    kind: str
    started_s: float
    ended_s: float
    goodput_bps: float  # what the receiver got, payload
    bytes: int
    seconds: float  # over which the goodput is
    retransmits: int | None  # iperf3's Retr: its own sockets' segments sent again
    lost_datagrams: int | None  # udp
    sent_datagrams: int | None  # of which those were lost
    offered_bps: float | None = None  # udp: payload that its sender sent
    round_trips: Mapping[str, Any] | None = None  # ping
    fetches: Sequence[Mapping[str, Any]] | None = None  # short, by size
    # when its sender's socket sent its first and its last byte; None: nothing sampled tells it
    data_began_s: float | None = None
    data_ended_s: float | None = None
    # what of the load its rate and counts are of; None: all that it ran
    measured_from_s: float | None = None
    measured_to_s: float | None = None
    whole: Mapping[str, Any] | None = None  # the same numbers of all that it ran
    counted_by: str | None = None  # server of a tcp flow; of a command: sockets, or hosts' links

    def of_part(self, from_s: float, to_s: float, part: FlowInterval) -> FlowResult:
        """The same of a part of the load; nothing where the flow did not run then."""
        seconds = max(0.0, round(to_s - from_s, 6))
        return replace(
            self,
            goodput_bps=8 * part.bytes / seconds if seconds else 0.0,
            seconds=seconds,
            measured_from_s=from_s,
            measured_to_s=max(from_s, round(to_s, 6)),
            whole={name: getattr(self, name) for name in ("goodput_bps", "seconds", *vars(part))},
            **vars(part),
        )

    def to_json(self) -> dict[str, Any]:
        """Its row: what only some kinds have is absent from the others."""
        of_some = {each.name for each in fields(self) if each.default is None}
        row = asdict(self)
        return {key: row[key] for key in row if row[key] is not None or key not in of_some}


@dataclass(frozen=True)
class Ran:
    """That a flow ran, and when: what its report is read with."""

    name: str
    kind: str
    started_s: float
    ended_s: float
    window_s: tuple[float, float] = (0.0, math.inf)  # of the load, what is measured
    report: Path = Path()  # of its client

    def is_measured(self, at_s: float) -> bool:
        """Whether an instant, counted from the flow's start, is in what is measured."""
        return self.window_s[0] <= self.started_s + at_s < self.window_s[1]

    def share_measured(self, at_s: float, seconds: float) -> float:
        """Return how much of a time, counted from the flow's start, is in what is measured."""
        return share_inside(self.started_s + at_s, seconds, *self.window_s)

    def result(self, **what: Any) -> FlowResult:
        """What it did, by what its report says."""
        counts: dict[str, Any] = dict.fromkeys(("retransmits", "lost_datagrams", "sent_datagrams"))
        ran = self.name, self.kind, self.started_s, self.ended_s
        return FlowResult(*ran, **counts | what)

    def over_all_its_time(self, size_bytes: int, **more: Any) -> FlowResult:
        """The row of a flow whose program tells no rate: what it got over all that it ran."""
        took_s = self.ended_s - self.started_s
        rate_bps = 8 * size_bytes / took_s
        return self.result(goodput_bps=rate_bps, bytes=size_bytes, seconds=round(took_s, 6), **more)


def share_inside(at_s: float, seconds: float, from_s: float, to_s: float) -> float:
    """Return how much of `seconds` from an instant on lies in a window: 0 to 1."""
    if seconds <= 0:
        return float(from_s <= at_s < to_s)
    return max(0.0, min(at_s + seconds, to_s) - max(at_s, from_s)) / seconds


def server_report(report: Path) -> Path:
    """Return the file of what an iperf3 client's server reports."""
    return report.with_stem(f"{report.stem}-server")


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that no more than 1 - share of all lie above (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
