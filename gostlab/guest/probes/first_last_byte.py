"""Determine when a flow's data began and ended, from its sending sockets.

Linux counts for how long a socket has had data to send (tcp_info's tcpi_busy_time), and how long
ago it last sent some (tcpi_last_data_sent). From both, a sample gives the first byte to the
microsecond, if the sender was not idle since, and the last one to a jiffy.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from gostlab.guest.probes.netlink import NO_MIN_RTT, SendingInfo

# iperf3's cookie, which each of its connections sends first, has 37 bytes; the options of its
# control connection have some hundred more.
COOKIE_BYTES = 64
# Legs that a flow's program sends into, by the sending end; and legs that its receiver reads from.
FIRST_LEGS = {"near": ("app", "inner", "wan"), "far": ("exit", "inner", "wan")}
LAST_LEGS = {"near": FIRST_LEGS["far"], "far": FIRST_LEGS["near"]}


@dataclass(slots=True)
class SentData:
    """The data sent by one socket, as far as samples show. Times are seconds of the load."""

    busy_before_ms: float  # busy time of its cookie; a round trip until a sample shows it
    began_s: float | None = None
    last_s: float = 0.0
    segments_sent: int = 0
    is_data: bool = False
    srtt_ms: float = 0.0

    @classmethod
    def of(cls, end: str, seen: SendingInfo) -> Self:
        """Create the state of a socket at the first sample that shows it."""
        knows_rtt = end == "near" and seen.min_rtt_us != NO_MIN_RTT  # the far end sends no cookie
        return cls(seen.min_rtt_us / 1000 if knows_rtt else 0.0)

    def note(self, at_s: float, before_s: float, seen: SendingInfo, *, sends_data: bool) -> None:
        """Update the state from a sample, given the time of the sample before it."""
        self.is_data |= sends_data
        if seen.data_segments_out == self.segments_sent:
            if not self.segments_sent:
                self.busy_before_ms = seen.busy_us / 1000
            return
        self.segments_sent, self.srtt_ms = seen.data_segments_out, seen.srtt_us / 1000
        self.last_s = max(before_s, at_s - seen.since_sent_ms / 1000)
        if seen.bytes_out <= COOKIE_BYTES:
            self.busy_before_ms = seen.busy_us / 1000
        elif self.began_s is None:
            began_s = at_s - (seen.busy_us / 1000 - self.busy_before_ms) / 1000
            self.began_s = max(before_s, began_s)


@dataclass(frozen=True)
class SendTimes:
    """The times when a flow's first and last byte left its sender, and its last smoothed RTT."""

    began_s: float
    ended_s: float
    srtt_ms: float

    @classmethod
    def of(cls, sockets: Iterable[SentData]) -> Self | None:
        """Compute the times from the sockets of a flow's program, or None if none sent enough."""
        data_sockets = [sent for sent in sockets if sent.is_data]
        began = [sent.began_s for sent in data_sockets if sent.began_s is not None]
        if not began:
            return None
        last_sender = max(data_sockets, key=lambda sent: sent.last_s)
        return cls(round(min(began), 6), round(last_sender.last_s, 6), last_sender.srtt_ms)
