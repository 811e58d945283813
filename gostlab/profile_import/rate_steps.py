"""What changes when, made of a recording, and how far its replay is from it. Pure.

A path over time is a table with a row for each change: its index is when, in seconds, its columns
are of COLUMNS, and what has no number stays as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from gostlab.importers.base import Probe
from gostlab.spec.units import MAX_RATE_BPS, MIN_RATE_BPS, show_ms
from gostlab.tcpmodel.constants import MTU_BYTES

# The lab's queues count a packet with its Ethernet header.
HEADER_BYTES = 14
# Capacity is compared over such windows.
WINDOW_S = 0.1
# A share of lost probes is of so many at least, and of so long a time.
LOSS_PROBES, LOSS_S = 10, 1.0
# How a trace has what changes, in its order.
COLUMNS = {"delay_ms": show_ms, "loss": "{:g}".format, "rate_bps": "{:.0f}".format}


@dataclass(frozen=True)
class ReplayError:
    """How far a replay's capacity is from the recording's."""

    share: float  # mean over windows of 100 ms of |replayed - recorded|, over the mean recorded
    ahead_bytes: int  # the most that it has carried more or less, from the begin to any moment


def packet_bits(ip_bytes: int) -> int:
    """What the lab's queues count for a packet."""
    return 8 * (min(ip_bytes, MTU_BYTES) + HEADER_BYTES)


def rate_steps(sendable_s: np.ndarray, bits: int, length_s: Fraction, bin_s: Fraction) -> pd.Series:
    """The mean rate of each bin (bit/s), where it changes. A bin without packets gets the least
    rate there is, 1 kbit/s.

    sendable_s    when a packet of so many bits can be sent: in (0, length_s], rising
    """
    bins = -(-length_s // bin_s)
    edges_s = np.array([min(length_s, n * bin_s) for n in range(bins + 1)], dtype=float)
    rates = np.diff(bits * sent_until(sendable_s, edges_s)) / np.diff(edges_s)
    return where_changed(pd.Series(rates.round().clip(MIN_RATE_BPS, MAX_RATE_BPS), edges_s[:-1]))


def where_changed(values: pd.Series) -> pd.Series:
    """Those that are others than the one before."""
    return values[values.diff() != 0]


def sent_until(sendable_s: np.ndarray, at_s: np.ndarray) -> np.ndarray:
    """How many packets could be sent until some moments; half a nanosecond of a float is
    forgiven.
    """
    return np.searchsorted(sendable_s, at_s + 5e-10, side="right")


def repeated(times_s: Sequence[float], length_s: float, until_s: float) -> np.ndarray:
    """A recording once more after its end, and again, until a time."""
    begins_s = length_s * np.arange(until_s // length_s + 1)
    again_s = np.add.outer(begins_s, times_s).ravel()
    return again_s[again_s <= until_s]


def replay_error(
    sendable_s: np.ndarray, bits: int, rates: pd.Series, length_s: Fraction
) -> ReplayError:
    """How far rates are from what they were made of."""
    at_s = np.append(rates.index, float(length_s))
    replayed = np.append(0.0, np.cumsum(rates * np.diff(at_s)))
    edges_s = WINDOW_S * np.arange(int(length_s / Fraction(1, 10)) + 1)
    recorded = np.diff(bits * sent_until(sendable_s, edges_s))
    off = abs(np.diff(np.interp(edges_s, at_s, replayed)) - recorded)
    # Just before a packet, and with it: the furthest on either side.
    ahead = np.interp(sendable_s, at_s, replayed) - bits * np.arange(len(sendable_s))
    ahead_bits = max(abs(ahead).max(), abs(ahead - bits).max())
    share = off.mean() / recorded.mean() if recorded.any() else 0.0
    return ReplayError(round(float(share), 6), round(ahead_bits / 8))


def by_bin(probes: Sequence[Probe], bin_s: float) -> pd.DataFrame:
    """The median delay (ms; none where all was lost) and the share lost of each bin with probes."""
    delays = pd.Series([probe.delay_ms for probe in probes], dtype=float)
    numbers = np.array([probe.at_s for probe in probes]) // bin_s
    bins = delays.groupby((numbers * bin_s).round(9))
    return pd.DataFrame({"delay_ms": bins.median(), "loss": 1 - bins.count() / bins.size()})


def delay_steps(probes: Sequence[Probe], less_ms: float, bin_s: float) -> pd.Series:
    """The median delay of each bin, less what the other direction takes, where it changes. A bin in
    which all was lost keeps the delay before it.
    """
    delays = by_bin(probes, bin_s)["delay_ms"].dropna()
    return where_changed(delays.map(lambda ms: round(max(0.0, ms - less_ms), 3)))


def loss_steps(probes: Sequence[Probe], length_s: float) -> pd.Series:
    """The share lost in each second, or in ten probes where that is longer, where it changes."""
    bin_s = max(LOSS_S, LOSS_PROBES * length_s / max(1, len(probes)))
    losses = where_changed(by_bin(probes, bin_s)["loss"].map(lambda loss: round(loss, 5)))
    return losses if losses.any() else losses.iloc[:0]


def trace_text(trace: pd.DataFrame) -> str:
    """A path over time as gostlab.spec.trace reads it. trace: its column `direction`
    says of which way a row is, where there are two.
    """
    written = pd.DataFrame({"time_s": [show_ms(at_s) for at_s in trace.index]})
    if "direction" in trace:
        written["direction"] = trace["direction"].to_numpy()
    for name, write in COLUMNS.items():
        values = trace[name] if name in trace else [np.nan] * len(trace)
        written[name] = ["" if np.isnan(value) else write(value) for value in values]
    return str(written.to_csv(index=False, lineterminator="\n"))
