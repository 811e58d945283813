"""When a flow's data began and ended, from its sending sockets themselves.

Linux counts for how long a socket has had data to send (tcp_info's tcpi_busy_time), and how long
ago it sent some (tcpi_last_data_sent). A reader of both at a sample knows the first byte to the
microsecond, if the sender was not idle since, and the last one to a jiffy.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gostlab.describe.resolve.flows import Flow
from gostlab.guest.tunnels.launch import Leg
from gostlab.guest.watch.netlink import NO_MIN_RTT, Sending

# iperf3's cookie, the first thing that each of its connections sends, has 37 bytes; the options of
# its control connection some hundreds more.
COOKIE_BYTES = 64
# The leg that a flow's own program sends into, by the end of it that sends; and the one that its
# receiver has.
FIRST_LEGS = {"near": ("app", "inner", "wan"), "far": ("exit", "inner", "wan")}
LAST_LEGS = {"near": FIRST_LEGS["far"], "far": FIRST_LEGS["near"]}


@dataclass(slots=True)
class Sent:
    """What one socket has sent, as far as samples tell. Times are seconds of the load."""

    leg: Leg
    end: str
    busy_before_ms: float  # for its cookie; until a sample shows it, a round trip
    began_s: float | None = None
    last_s: float = 0.0
    segments: int = 0
    is_data: bool = False
    srtt_ms: float = 0.0


@dataclass(frozen=True)
class DataTimes:
    """When a flow's first and last byte left its sender, and the round trip that it saw last."""

    began_s: float
    ended_s: float
    srtt_ms: float


class DataWatch:
    """What is known of every sampled socket's sending."""

    def __init__(self) -> None:
        self._sockets: list[Sent] = []
        self._sampled_s = 0.0

    def first(self, leg: Leg, end: str, seen: Sending) -> Sent:
        """A socket at the first sample that shows it."""
        knows_rtt = end == "near" and seen.min_rtt_us != NO_MIN_RTT  # the other sends no cookie
        sent = Sent(leg, end, seen.min_rtt_us / 1000 if knows_rtt else 0.0)
        self._sockets.append(sent)
        return sent

    def note(self, at_s: float, sent: Sent, seen: Sending, *, sends_data: bool) -> None:
        """A socket at a sample."""
        sent.is_data |= sends_data
        if seen.data_segments_out == sent.segments:
            if not sent.segments:
                sent.busy_before_ms = seen.busy_us / 1000
            return
        sent.segments, sent.srtt_ms = seen.data_segments_out, seen.srtt_us / 1000
        sent.last_s = max(self._sampled_s, at_s - seen.since_sent_ms / 1000)
        if seen.bytes_out <= COOKIE_BYTES:
            sent.busy_before_ms = seen.busy_us / 1000
        elif sent.began_s is None:
            began_s = at_s - (seen.busy_us / 1000 - sent.busy_before_ms) / 1000
            sent.began_s = max(self._sampled_s, began_s)

    def sampled(self, at_s: float) -> None:
        """All sockets were looked at."""
        self._sampled_s = at_s

    def of(self, flow: Flow, legs: Iterable[Leg], sending: str) -> DataTimes | None:
        """When a flow's data left; None where no socket of its own sent enough to tell."""
        own = {leg.name for leg in legs if leg.flow == flow.name}
        first = next((name for name in FIRST_LEGS[sending] if name in own), None)
        found = [
            sent
            for sent in self._sockets
            if (sent.leg.flow, sent.leg.name, sent.end) == (flow.name, first, sending)
            and sent.is_data
        ]
        began = [sent.began_s for sent in found if sent.began_s is not None]
        if not began:
            return None
        last = max(found, key=lambda sent: sent.last_s)
        return DataTimes(round(min(began), 6), round(last.last_s, 6), last.srtt_ms)
