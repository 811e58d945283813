"""How large a TCP window a path needs, and what to set so that sockets have it."""

import math
from dataclasses import dataclass

from gostlab.describe.file.units import show_rate, show_size
from gostlab.describe.physics.limits import MAX_BUFFER_BYTES
from gostlab.describe.physics.response import bdp_bytes, window_limit_bps
from gostlab.describe.physics.sizing import DEBIAN_BUFFERS

# Linux offers half of a receive buffer as window (tcp_adv_win_scale's default), and counts the
# memory that a packet takes, not its bytes, against a send buffer: up to twice as much.
RMEM_PER_WINDOW = 2
WMEM_PER_WINDOW = 2


@dataclass(frozen=True)
class WindowAdvice:
    """What one connection across a path needs of its buffers, bytes."""

    rate_bps: int
    rtt_s: float
    streams: int
    bdp_bytes: int  # of all streams
    window_bytes: int  # of each
    rmem_bytes: int  # tcp_rmem's third number
    wmem_bytes: int  # tcp_wmem's third number
    debian_bps: int  # what all streams get with Debian's own

    @property
    def enough(self) -> bool:
        return self.debian_bps >= self.rate_bps

    def lines(self) -> list[str]:
        rtt = f"{1000 * self.rtt_s:g} ms"
        each = f", {show_size(self.window_bytes)} for each of {self.streams} streams"
        found = [
            f"{show_rate(self.rate_bps)} times {rtt}: {show_size(self.bdp_bytes)} are on their way"
            f" when the path is full{each if self.streams > 1 else ''}.",
            f"Debian's own sizes (6 and 4 MiB) allow {show_rate(self.debian_bps)}"
            + ("." if not self.enough else ": enough."),
        ]
        if self.rmem_bytes > MAX_BUFFER_BYTES:
            return [*found, "One connection cannot: a TCP window ends at 1 GiB (more streams)."]
        if self.enough:
            return found
        rmem, wmem = DEBIAN_BUFFERS["rmem"], DEBIAN_BUFFERS["wmem"]
        return [
            *found,
            "On both machines whose TCP connection crosses the path (of a relay its two ends, of a"
            " VPN the application's), at the least:",
            f'  sysctl -w net.ipv4.tcp_rmem="{rmem[0]} {rmem[1]} {self.rmem_bytes}"',
            f'  sysctl -w net.ipv4.tcp_wmem="{wmem[0]} {wmem[1]} {self.wmem_bytes}"',
            "With loss, or a deep queue to fill, twice as much. A program that sets its own"
            " SO_RCVBUF or SO_SNDBUF takes no notice, up to net.core.rmem_max.",
        ]


def advise_window(rate_bps: int, rtt_s: float, streams: int = 1) -> WindowAdvice:
    """What a path needs. Raises ValueError where there is no round trip."""
    if rtt_s <= 0:
        raise ValueError("no round trip: a window limits nothing there")
    bdp = bdp_bytes(rate_bps, rtt_s)
    window = math.ceil(bdp / streams)
    debian = min(DEBIAN_BUFFERS["rmem"][2] / RMEM_PER_WINDOW, DEBIAN_BUFFERS["wmem"][2])
    return WindowAdvice(
        rate_bps=rate_bps,
        rtt_s=rtt_s,
        streams=streams,
        bdp_bytes=math.ceil(bdp),
        window_bytes=window,
        rmem_bytes=max(DEBIAN_BUFFERS["rmem"][2], RMEM_PER_WINDOW * window),
        wmem_bytes=max(DEBIAN_BUFFERS["wmem"][2], WMEM_PER_WINDOW * window),
        debian_bps=round(streams * window_limit_bps(debian, rtt_s)),
    )
