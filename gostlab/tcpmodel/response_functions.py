# SPDX-License-Identifier: MIT
"""Compute the rate of a TCP connection by formulas with their sources: loss, window, delay."""

import math

# RFC 9438, sections 4.1 and 4.6; Linux's tcp_cubic uses equal values (bic_scale 41/1024, beta
# 717/1024).
CUBIC_C = 0.4
CUBIC_BETA = 0.7
CUBIC_FACTOR = (CUBIC_C * (3 + CUBIC_BETA) / (4 * (1 - CUBIC_BETA))) ** 0.25
# An Ethernet packet of 1500 bytes minus IPv4 (20), TCP (20) and its timestamp option (12).
MSS_BYTES = 1448
MIN_RTO_S = 0.2  # Linux's TCP_RTO_MIN


def reno_window(loss: float) -> float:
    """Return the mean Reno window in segments with one loss every 1/loss packets: sqrt(3/2 / p).

    RFC 9438, section 5.1, AVG_W_aimd with α = 1, β = 1/2; the RFC's own table rounds sqrt(3/2) to
    1.2. CUBIC's Reno-friendly region has the same mean (section 4.3). Raises ValueError outside 0 <
    loss <= 1.
    """
    check_loss(loss)
    return math.sqrt(1.5 / loss)


def cubic_region_window(loss: float, rtt_s: float) -> float:
    """Return the mean window in segments of CUBIC in its own (not the Reno-friendly) region.

    RFC 9438, section 5.1, figure 5: (C (3 + β) / (4 (1 − β)))^¼ · RTT^¾ / p^¾, which is 1.054 ·
    RTT^¾ / p^¾ for C = 0.4, β = 0.7. Raises ValueError outside 0 < loss <= 1, rtt_s > 0.
    """
    check_loss(loss)
    check_rtt(rtt_s)
    return float(CUBIC_FACTOR * (rtt_s / loss) ** 0.75)


def cubic_window(loss: float, rtt_s: float) -> float:
    """Return the mean CUBIC window in segments with one loss every 1/loss packets.

    It is the larger of both regions' windows (RFC 9438, section 5.1). Raises ValueError outside 0 <
    loss <= 1, rtt_s > 0.
    """
    return max(cubic_region_window(loss, rtt_s), reno_window(loss))


def pftk_window(loss: float, rtt_s: float) -> float:
    """Return Reno's mean window in segments under random loss, with the time lost in timeouts.

    It is the rate of RFC 5348, section 3.1 (Padhye et al., SIGCOMM 1998), times the round trip, for
    b = 1 segment per acknowledgement and a timeout of one round trip and Linux's 200 ms. Raises
    ValueError outside 0 < loss <= 1, rtt_s > 0.
    """
    check_loss(loss)
    check_rtt(rtt_s)
    in_recovery = rtt_s * math.sqrt(2 * loss / 3)
    timeouts = 3 * math.sqrt(3 * loss / 8) * loss * (1 + 32 * loss**2)
    return rtt_s / (in_recovery + (rtt_s + MIN_RTO_S) * timeouts)


def cubic_throughput_bps(loss: float, rtt_s: float) -> float:
    """Return the rate in bit/s of a CUBIC connection that only loss limits: a window per RTT."""
    return window_limit_bps(cubic_window(loss, rtt_s) * MSS_BYTES, rtt_s)


def cubic_loss(rate_bps: float, rtt_s: float) -> float:
    """Return the loss that explains a CUBIC connection's rate (`rfc9438-inverse`).

    It is the inverse of cubic_throughput_bps. A window is reached at a larger loss in the region
    that yields the larger window, so the result is the larger of both regions' inverses, and at
    most 1. Raises ValueError for a rate or RTT not above 0.
    """
    check_rtt(rtt_s)
    if not rate_bps > 0:
        raise ValueError(f"a rate of {rate_bps} bit/s: not above 0")
    window = rate_bps * rtt_s / (8 * MSS_BYTES)
    by_cubic = rtt_s * (CUBIC_FACTOR / window) ** (4 / 3)
    return min(1.0, max(by_cubic, 1.5 / window**2))


def cubic_epoch_s(full_window: float, rtt_s: float) -> float:
    r"""Return the time that CUBIC grows from a loss at a full window (segments) to the next.

    RFC 9438: K = ((1 − β) W_max / C)^⅓ in CUBIC's own region (4.2, equation 2); in the
    Reno-friendly region the window grows by α = 3 (1 − β) / (1 + β) segments per round trip (4.3).
    The result is the smaller of both times. Raises ValueError for an RTT not above 0.

        >>> round(cubic_epoch_s(333, 0.2), 1)
        6.3
    """
    check_rtt(rtt_s)
    missing = (1 - CUBIC_BETA) * full_window
    alpha = 3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA)
    return min(float((missing / CUBIC_C) ** (1 / 3)), missing / alpha * rtt_s)


def window_limit_bps(window_bytes: float, rtt_s: float) -> float:
    """Return the rate in bit/s with this much in flight: a window per RTT (RFC 7323, 1.1)."""
    check_rtt(rtt_s)
    return 8 * window_bytes / rtt_s


def bdp_bytes(rate_bps: float, rtt_s: float) -> float:
    """Return the bandwidth-delay product: the bytes in flight on a full path with empty queues."""
    return rate_bps * rtt_s / 8


def check_loss(loss: float) -> None:
    """Reject a loss outside 0 < loss <= 1 with a ValueError."""
    if not 0 < loss <= 1:
        raise ValueError(f"a loss rate of {loss}: not within 0 to 1")


def check_rtt(rtt_s: float) -> None:
    """Reject a round-trip time that is not above 0 with a ValueError."""
    if not rtt_s > 0:
        raise ValueError(f"a round-trip time of {rtt_s} s: not above 0")
