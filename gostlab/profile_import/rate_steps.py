"""Derive a trace from a recording, and compute how far its replay deviates. Pure.

A path over time is a table with a row for each change. Its index is the time in seconds, its
columns are among COLUMNS, and a missing value means no change.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from gostlab.importers.base import Probe
from gostlab.spec.units import MAX_RATE_BPS, MIN_RATE_BPS, show_ms
from gostlab.tcpmodel.constants import MTU_BYTES

# The emulated queues count the Ethernet header of a packet.
HEADER_BYTES = 14
# Length of the windows over which capacity is compared.
WINDOW_S = 0.1
# Minimum number of probes, and minimum time, of which a loss share is computed.
MIN_LOSS_PROBES, MIN_LOSS_S = 10, 1.0
# The columns of a trace, in order, and the format of their values.
COLUMNS = {"delay_ms": show_ms, "loss": "{:g}".format, "rate_bps": "{:.0f}".format}


@dataclass(frozen=True)
class ReplayError:
    """The deviation of a replay's capacity from the recording's."""

    share: float  # mean over 100 ms windows of |replayed - recorded|, divided by mean recorded
    ahead_bytes: int  # maximum difference of the cumulative bytes, in either direction


def packet_bits(ip_bytes: int) -> int:
    """Return the size in bits of a packet as the emulated queues count it."""
    return 8 * (min(ip_bytes, MTU_BYTES) + HEADER_BYTES)


def rate_steps(sendable_s: np.ndarray, bits: int, length_s: Fraction, bin_s: Fraction) -> pd.Series:
    """Return the mean rate of each bin (bit/s) at which it changes.

    A bin without packets gets the minimum rate, 1 kbit/s.

        sendable_s    send times of packets of `bits` bits: in (0, length_s], ascending
    """
    bins = -(-length_s // bin_s)
    edges_s = np.array([min(length_s, n * bin_s) for n in range(bins + 1)], dtype=float)
    rates = np.diff(bits * packets_sent_until(sendable_s, edges_s)) / np.diff(edges_s)
    return changed_values(pd.Series(rates.round().clip(MIN_RATE_BPS, MAX_RATE_BPS), edges_s[:-1]))


def changed_values(values: pd.Series) -> pd.Series:
    """Return the values that differ from the one before."""
    return values[values.diff() != 0]


def packets_sent_until(sendable_s: np.ndarray, at_s: np.ndarray) -> np.ndarray:
    """Return the number of packets that could be sent until each given time.

    Half a nanosecond is added to compensate for the rounding of floats.
    """
    return np.searchsorted(sendable_s, at_s + 5e-10, side="right")


def repeat_times(times_s: Sequence[float], length_s: float, until_s: float) -> np.ndarray:
    """Repeat a recording's times after its end, until a given time."""
    begins_s = length_s * np.arange(until_s // length_s + 1)
    repeated_s = np.add.outer(begins_s, times_s).ravel()
    return repeated_s[repeated_s <= until_s]


def replay_error(
    sendable_s: np.ndarray, bits: int, rates: pd.Series, length_s: Fraction
) -> ReplayError:
    """Return how far a replay with these rates deviates from the recording."""
    at_s = np.append(rates.index, float(length_s))
    replayed = np.append(0.0, np.cumsum(rates * np.diff(at_s)))
    edges_s = WINDOW_S * np.arange(int(length_s / Fraction(1, 10)) + 1)
    recorded = np.diff(bits * packets_sent_until(sendable_s, edges_s))
    deviation = abs(np.diff(np.interp(edges_s, at_s, replayed)) - recorded)
    # The extremes of the difference are just before a packet and just after it.
    ahead_bits = np.interp(sendable_s, at_s, replayed) - bits * np.arange(len(sendable_s))
    max_ahead_bits = max(abs(ahead_bits).max(), abs(ahead_bits - bits).max())
    share = deviation.mean() / recorded.mean() if recorded.any() else 0.0
    return ReplayError(round(float(share), 6), round(max_ahead_bits / 8))


def bin_probes(probes: Sequence[Probe], bin_s: float) -> pd.DataFrame:
    """Return the median delay (ms) and the loss share of each bin that has probes.

    The delay is missing if all probes of the bin were lost.
    """
    delays = pd.Series([probe.delay_ms for probe in probes], dtype=float)
    bin_numbers = np.array([probe.at_s for probe in probes]) // bin_s
    bins = delays.groupby((bin_numbers * bin_s).round(9))
    return pd.DataFrame({"delay_ms": bins.median(), "loss": 1 - bins.count() / bins.size()})


def delay_steps(probes: Sequence[Probe], reverse_ms: float, bin_s: float) -> pd.Series:
    """Return the median delay of each bin where it changes, less the reverse path's delay.

    A bin in which all probes were lost keeps the delay before it.
    """
    delays = bin_probes(probes, bin_s)["delay_ms"].dropna()
    return changed_values(delays.map(lambda ms: round(max(0.0, ms - reverse_ms), 3)))


def loss_steps(probes: Sequence[Probe], length_s: float) -> pd.Series:
    """Return the loss share where it changes, per second or per ten probes if that is longer."""
    bin_s = max(MIN_LOSS_S, MIN_LOSS_PROBES * length_s / max(1, len(probes)))
    losses = changed_values(bin_probes(probes, bin_s)["loss"].map(lambda loss: round(loss, 5)))
    return losses if losses.any() else losses.iloc[:0]


def trace_text(trace: pd.DataFrame) -> str:
    """Return a path over time in the format of gostlab.spec.trace.

    If both directions are in the trace, its column `direction` names that of each row.
    """
    written = pd.DataFrame({"time_s": [show_ms(at_s) for at_s in trace.index]})
    if "direction" in trace:
        written["direction"] = trace["direction"].to_numpy()
    for name, write in COLUMNS.items():
        values = trace[name] if name in trace else [np.nan] * len(trace)
        written[name] = ["" if np.isnan(value) else write(value) for value in values]
    return str(written.to_csv(index=False, lineterminator="\n"))
