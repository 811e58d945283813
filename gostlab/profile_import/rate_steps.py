# SPDX-License-Identifier: MIT
"""Derive a trace from a recording, and compute how far its replay deviates. Pure.

A path over time is a table with a row for each change. Its index is the time in seconds, its
columns are among COLUMNS, and a missing value means no change.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pandas as pd

from gostlab.importers.base import Probe
from gostlab.spec.units import MAX_RATE_BPS, MIN_RATE_BPS, show_ms
from gostlab.tcpmodel.run_limits import MTU_BYTES

# The emulated queues count the Ethernet header of a packet.
ETHERNET_HEADER_BYTES = 14
# Length of the windows over which capacity is compared.
WINDOW_S = 0.1
# Minimum number of probes, and minimum time, of which a loss share is computed.
MIN_LOSS_PROBES, MIN_LOSS_S = 10, 1.0
# The expected number of runs of lost probes below which such a run is no accident.
OUTAGE_CHANCE = 0.05
# The columns of a trace, in order, and the format of their values.
COLUMNS = {"delay_ms": show_ms, "loss": "{:g}".format, "rate_bps": "{:.0f}".format}


@dataclass(frozen=True)
class ReplayError:
    """The deviation of a replay's capacity from the recording's."""

    share: float  # mean over 100 ms windows of |replayed - recorded|, divided by mean recorded
    ahead_bytes: int  # maximum difference of the cumulative bytes, in either direction


def packet_bits(ip_bytes: int) -> int:
    """Return the size in bits of a packet as the emulated queues count it."""
    return 8 * (min(ip_bytes, MTU_BYTES) + ETHERNET_HEADER_BYTES)


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


def repeat_probes(probes: Sequence[Probe], length_s: float, until_s: float) -> list[Probe]:
    """Repeat a recording's probes after its end, until a given time."""
    rounds = 1 if length_s <= 0 else max(1, math.ceil(until_s / length_s - 1e-9))
    return [
        replace(probe, at_s=probe.at_s + number * length_s)
        for number in range(rounds)
        for probe in probes
        if probe.at_s + number * length_s < until_s - 1e-9
    ]


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


def bin_numbers(probes: Sequence[Probe], bin_s: float) -> np.ndarray:
    """Return the bin of each probe; a time that is a bin's edge but for rounding begins it."""
    at_s = np.array([probe.at_s for probe in probes], dtype=float)
    return np.floor(at_s / bin_s + 1e-6)


def bin_probes(probes: Sequence[Probe], bin_s: float) -> pd.DataFrame:
    """Return the median delay (ms) and the loss share of each bin that has probes.

    The delay is missing if no probe of the bin has one.
    """
    probe_table = pd.DataFrame(
        {
            "delay_ms": pd.Series([probe.delay_ms for probe in probes], dtype=float),
            "loss": pd.Series([probe.lost for probe in probes], dtype=float),
        }
    )
    bins = probe_table.groupby((bin_numbers(probes, bin_s) * bin_s).round(9))
    return pd.DataFrame({"delay_ms": bins["delay_ms"].median(), "loss": bins["loss"].mean()})


def delay_steps(probes: Sequence[Probe], reverse_ms: float, bin_s: float) -> pd.Series:
    """Return the median delay of each bin where it changes, less the reverse path's delay.

    A bin without a delay keeps the one before it; the first delay holds from 0 on.
    """
    delays = bin_probes(probes, bin_s)["delay_ms"].dropna()
    if len(delays) and delays.index[0] > 0:
        delays = pd.concat([pd.Series({0.0: delays.iloc[0]}), delays])
    return changed_values(delays.map(lambda ms: round(max(0.0, ms - reverse_ms), 3)))


@dataclass(frozen=True)
class Outage:
    """A time in which every packet is lost."""

    begin_s: float
    end_s: float


def find_outages(probes: Sequence[Probe], length_s: float) -> tuple[list[Outage], list[Probe]]:
    """Return the outages among probes, and the probes outside of them.

    A run of k lost probes is an outage if losses that are independent of each other, with the share
    of the losses outside such runs, would hardly make one (n p^k < OUTAGE_CHANCE). It lasts from
    its first lost probe to the next that arrived.
    """
    runs = [
        (lost, list(group))
        for lost, group in itertools.groupby(range(len(probes)), lambda n: probes[n].lost)
    ]
    lengths = sorted({len(run) for lost, run in runs if lost})
    for min_length in lengths:
        others = sum(len(run) for lost, run in runs if lost and len(run) < min_length)
        share = (others + 1) / len(probes)
        if len(probes) * share**min_length < OUTAGE_CHANCE:
            break
    else:
        return [], list(probes)
    outages, remaining = [], list[Probe]()
    for lost, run in runs:
        if not lost or len(run) < min_length:
            remaining += probes[run[0] : run[-1] + 1]
            continue
        after = run[-1] + 1
        end_s = probes[after].at_s if after < len(probes) else length_s
        outages.append(Outage(probes[run[0]].at_s, end_s))
    return outages, remaining


def loss_steps(
    probes: Sequence[Probe], length_s: float, min_bin_s: float = MIN_LOSS_S
) -> pd.Series:
    """Return the loss share where it changes: 1 in outages.

    Outside of them it is the share per min_bin_s, or per ten probes if that is longer.
    """
    if not any(probe.lost for probe in probes):
        return pd.Series(dtype=float)
    outages, others = find_outages(probes, length_s)
    bin_s = max(min_bin_s, MIN_LOSS_PROBES * length_s / max(1, len(probes)))
    shares = bin_probes(others, bin_s)["loss"].map(lambda loss: round(loss, 5))
    losses = overlay_outages(shares, outages)
    return losses[losses.index < length_s]


def overlay_outages(shares: pd.Series, outages: Sequence[Outage]) -> pd.Series:
    """Return loss shares over time, where they change, with 1 in the outages."""
    if not len(shares) or shares.index[0] > 0:
        shares = pd.concat([pd.Series({0.0: 0.0}), shares])
    for outage in outages:
        after = float(shares[shares.index <= outage.end_s + 1e-9].iloc[-1])
        outside = (shares.index < outage.begin_s - 1e-9) | (shares.index > outage.end_s + 1e-9)
        edges = pd.Series({round(outage.begin_s, 6): 1.0, round(outage.end_s, 6): after})
        shares = pd.concat([shares[outside], edges]).sort_index(kind="stable")
    return changed_values(shares)


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
