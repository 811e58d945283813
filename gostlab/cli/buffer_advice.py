# SPDX-License-Identifier: MIT
"""Compute the TCP window and the buffer sizes that a path needs."""

import math
from dataclasses import dataclass

from gostlab.spec.units import show_rate, show_size
from gostlab.tcpmodel.response_functions import MSS_BYTES, bdp_bytes, window_limit_bps
from gostlab.tcpmodel.run_limits import MAX_BUFFER_BYTES
from gostlab.tcpmodel.socket_buffers import (
    DEBIAN_BUFFERS,
    SCALING_RATIO_SINCE,
    Windows,
    socket_windows,
)

# Both buffers must be twice the window: before Linux 6.6 half of a receive buffer is advertised,
# and a paced sender has three fifths of its send buffer in flight.
BUFFER_PER_WINDOW = 2
# After a loss a sender needs a second window while the first waits for what is retransmitted.
WINDOWS_AFTER_LOSS = 2


@dataclass(frozen=True)
class WindowAdvice:
    """Represent the buffer sizes that one connection across a path needs, in bytes."""

    rate_bps: int
    rtt_s: float
    streams: int
    bdp_bytes: int  # total BDP of all streams
    window_bytes: int  # window per stream
    rmem_bytes: int  # tcp_rmem's third number, without loss
    wmem_bytes: int  # tcp_wmem's third number, without loss
    rmem_after_loss_bytes: int
    wmem_after_loss_bytes: int
    debian_bps: int  # total rate with Debian's buffers and any congestion control
    debian_most_bps: int  # with a sender that does not pace, before Linux 6.6
    debian_most_since_6_6_bps: int

    @property
    def enough(self) -> bool:
        return self.debian_bps >= self.rate_bps

    @property
    def enough_after_loss(self) -> bool:
        return self.debian_bps >= WINDOWS_AFTER_LOSS * self.rate_bps

    def lines(self) -> list[str]:
        rtt = f"{1000 * self.rtt_s:g} ms"
        per_stream = f", {show_size(self.window_bytes)} for each of {self.streams} streams"
        lines = [
            f"{show_rate(self.rate_bps)} times {rtt}: {show_size(self.bdp_bytes)} are on their way"
            f" when the path is full{per_stream if self.streams > 1 else ''}.",
            f"Debian's own sizes (6 and 4 MiB) allow {show_rate(self.debian_bps)} to"
            f" {show_rate(self.debian_most_bps)}, as the sender paces or sends bursts (since Linux"
            f" 6.6 to {show_rate(self.debian_most_since_6_6_bps)}){self.verdict}",
        ]
        if self.rmem_bytes > MAX_BUFFER_BYTES:
            return [*lines, "One connection cannot: a TCP window ends at 1 GiB (more streams)."]
        if self.enough_after_loss:
            return lines
        if self.enough:
            return [
                *lines,
                "With loss, or a deep queue to fill, twice as much is needed. On both machines"
                f" {ENDS}:",
                *self.sysctls_after_loss,
                OWN_SIZES,
            ]
        return [
            *lines,
            f"On both machines {ENDS}, at the least:",
            *self.sysctls,
            "With loss, or a deep queue to fill, twice as much:",
            *self.sysctls_after_loss,
            OWN_SIZES,
        ]

    @property
    def verdict(self) -> str:
        if self.enough_after_loss:
            return ": enough, after losses too."
        return ": enough without loss." if self.enough else "."

    @property
    def sysctls(self) -> list[str]:
        return sysctl_lines(self.rmem_bytes, self.wmem_bytes)

    @property
    def sysctls_after_loss(self) -> list[str]:
        return sysctl_lines(self.rmem_after_loss_bytes, self.wmem_after_loss_bytes)


ENDS = "whose TCP connection crosses the path (of a relay its two ends, of a VPN the application's)"
OWN_SIZES = (
    "A program that sets its own SO_RCVBUF or SO_SNDBUF takes no notice, up to net.core.rmem_max."
)


def sysctl_lines(rmem_bytes: int, wmem_bytes: int) -> list[str]:
    return [
        f'  sysctl -w net.ipv4.tcp_{name}="{least} {first} {most}"'
        for name, most in (("rmem", rmem_bytes), ("wmem", wmem_bytes))
        for least, first, _ in [DEBIAN_BUFFERS[name]]
    ]


def buffer_bytes_for_window(name: str, window_bytes: int) -> int:
    """Return the buffer size for a window, no smaller than Debian's default."""
    return max(DEBIAN_BUFFERS[name][2], BUFFER_PER_WINDOW * window_bytes)


def debian_windows(streams: int, version: tuple[int, ...]) -> Windows:
    """Return the windows that Debian's buffers allow on a Linux version, with 1500-byte packets."""
    return socket_windows(DEBIAN_BUFFERS, streams, version, MSS_BYTES, super_packets=False)


def advise_window(rate_bps: int, rtt_s: float, streams: int = 1) -> WindowAdvice:
    """Compute buffer sizes for a path. Raises ValueError if the RTT is not positive."""
    if rtt_s <= 0:
        raise ValueError("no round trip: a window limits nothing there")
    bdp = bdp_bytes(rate_bps, rtt_s)
    window = math.ceil(bdp / streams)
    twice = WINDOWS_AFTER_LOSS * window
    before, since = (debian_windows(streams, version) for version in ((5, 10), SCALING_RATIO_SINCE))
    return WindowAdvice(
        rate_bps=rate_bps,
        rtt_s=rtt_s,
        streams=streams,
        bdp_bytes=math.ceil(bdp),
        window_bytes=window,
        rmem_bytes=buffer_bytes_for_window("rmem", window),
        wmem_bytes=buffer_bytes_for_window("wmem", window),
        rmem_after_loss_bytes=min(MAX_BUFFER_BYTES, buffer_bytes_for_window("rmem", twice)),
        wmem_after_loss_bytes=min(MAX_BUFFER_BYTES, buffer_bytes_for_window("wmem", twice)),
        debian_bps=round(window_limit_bps(before.min_bytes, rtt_s)),
        debian_most_bps=round(window_limit_bps(before.max_bytes, rtt_s)),
        debian_most_since_6_6_bps=round(window_limit_bps(since.max_bytes, rtt_s)),
    )
