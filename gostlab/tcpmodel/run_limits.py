# SPDX-License-Identifier: MIT
"""Define the numbers that bound a run, its preflight checks and its execution."""

MIB = 2**20
MAX_BUFFER_BYTES = 2**30  # TCP's window scale ends at 1 GiB.
# The entry of netem's delay table that stands for one jitter.
DISTRIBUTION_SCALE = 8192
# A trap that a run may allow on purpose, with the setting `allow`.
SUPER_PACKETS = "super-packets"
# The MTU of the lab's links; a buffer counts packets of this size.
MTU_BYTES = 1500
# TCP's initial window, which is sent at once (RFC 6928).
FIRST_WINDOW_PKTS = 10
# The assumed rate of a path without a rate.
UNLIMITED_BPS = 10**10
# The delay line must never drop; a large limit of netem's tree costs nothing until it is used.
DELAY_LIMIT_PKTS = 1_000_000
# The number of datagrams that an iperf3 without threads sends back to back: sent one at a time, it
# reads the clock and waits in select() between any two, and the CPU for that would determine the
# rate.
UDP_BURST_PKTS = 8
# A flow of fewer round trips is mostly slow start.
MIN_ROUND_TRIPS = 20
# The maximum that one tc action counts to; two in series count to the product.
MAX_PERIOD = 10_000


def period_factors(packets: int) -> tuple[int, int] | None:
    """Return two numbers, larger first, that two tc actions in series count to, or None."""
    for factor in range(min(packets, MAX_PERIOD), 0, -1):
        if packets % factor == 0:
            other = packets // factor
            return (factor, other) if other <= MAX_PERIOD else None
    return None
