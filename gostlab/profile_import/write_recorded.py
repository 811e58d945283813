# SPDX-License-Identifier: MIT
"""Write the files of a path that ping recorded: profile, delay distribution and trace."""

import math
import statistics
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pandas as pd

from gostlab.profile_import import path_estimator
from gostlab.profile_import.ping_parser import Pings
from gostlab.profile_import.profile_writer import (
    MultilineMapping,
    direction_values,
    profile_text,
    write_profile,
)
from gostlab.profile_import.rate_steps import trace_text
from gostlab.spec import units
from gostlab.spec.path_spec import LossSpec
from gostlab.spec.profile import DISTRIBUTION_SCALE, share_text


@dataclass(frozen=True)
class RecordingOptions:
    host: str
    name: str
    count: int
    interval_s: Fraction
    interval_written: bool  # whether the user gave it: the default may be raised
    rate: str  # the argument of --rate
    out: Path


def write_recorded(order: RecordingOptions, pings: Pings, date: str) -> Path:
    """Write a recording's profile, distribution and trace into order.out. Raises BadInput."""
    fitted = path_estimator.fit_path(pings, float(order.interval_s), units.parse_rate(order.rate))
    windows = path_estimator.bin_by_window(pings, float(order.interval_s))
    texts = {
        ".dist": distribution_text(order, fitted.forward) if fitted.forward.table else None,
        ".csv": trace_text(trace_rows(windows, fitted, units.parse_rate(order.rate))),
        ".yaml": recorded_text(order, pings, fitted, date),
    }
    return write_profile(order.out, order.name, texts)


def distribution_text(order: RecordingOptions, delay: path_estimator.DelayTable) -> str:
    """Return a delay table in the format of tc."""
    rows = (delay.table[start : start + 8] for start in range(0, len(delay.table), 8))
    return (
        f"# The delay to {order.host}, recorded: of {units.show_ms(delay.delay_ms)} ms,"
        f" {DISTRIBUTION_SCALE} is {units.show_ms(delay.jitter_ms)} ms more.\n"
        + "".join(" " + " ".join(str(entry) for entry in row) + "\n" for row in rows)
    )


def trace_rows(
    windows: pd.DataFrame, fitted: path_estimator.PathEstimate, rate_bps: int
) -> pd.DataFrame:
    """Return a recording as the rows of its trace, which has no rates."""
    fixed_ms = fitted.reverse_ms + 2 * 1000 * path_estimator.PING_BITS / rate_bps
    losses = [float(f"{loss:.4g}") for loss in windows["loss"]]
    return windows.assign(delay_ms=(windows["delay_ms"] - fixed_ms).clip(0), loss=losses)


def recorded_text(
    order: RecordingOptions, pings: Pings, fitted: path_estimator.PathEstimate, date: str
) -> str:
    delay = fitted.forward
    window_s = path_estimator.trace_row_s(float(order.interval_s))
    window = "second" if window_s == 1 else f"{window_s:g} seconds"
    distribution: dict[str, object] = (
        {"distribution": f"{order.name}.dist", "ordered": fitted.ordered} if delay.table else {}
    )
    comments = [
        f"The path to {order.host} as ping saw it. Recorded by",
        f"    ./lab profile record {order.host} --name {order.name} --count {order.count}"
        f" --interval {units.show_s(order.interval_s)} --rate {order.rate}",
    ]
    document = {
        "name": order.name,
        "title": f"Ping to {order.host}, {date[:10]}",
        "recorded": MultilineMapping(recorded_evidence(order, pings, date)),
        "assumptions": assumptions(order, pings, fitted),
        "notes": [
            f"{order.name}.csv has the median delay and the loss of every {window}: a"
            " trace, for a path without jitter and loss of its own."
        ],
        "forward": direction_values(
            order.rate,
            delay.delay_ms,
            jitter_ms=delay.jitter_ms,
            loss=format_loss(fitted.loss),
            **distribution,
        ),
        "reverse": direction_values(order.rate, fitted.reverse_ms),
    }
    return profile_text(comments, document)


def recorded_evidence(order: RecordingOptions, pings: Pings, date: str) -> dict[str, object]:
    """Return the measurements of ping, the `recorded` entry of a profile."""
    rtts_ms = sorted(answer.rtt_ms for answer in pings.answers)
    bursts = path_estimator.burst_lengths(pings.lost)
    times = {
        "min": rtts_ms[0],
        "median": statistics.median(rtts_ms),
        "mean": statistics.fmean(rtts_ms),
        "p95": rtts_ms[math.ceil(0.95 * len(rtts_ms)) - 1],
        "max": rtts_ms[-1],
    }
    counts = {
        "sent": pings.sent,
        "answered": len(pings.answers),
        "lost": sum(pings.lost),
        "bursts": len(bursts),
        "longest_burst": max(bursts, default=0),
        "duplicates": pings.duplicates,
        "errors": pings.errors,
        "overtaken": pings.overtaken,
    }
    return {
        "host": order.host,
        **({"address": pings.address} if pings.address else {}),
        "date": date,
        "interval": units.show_s(order.interval_s),
        **counts,
        **{f"rtt_{name}_ms": Decimal(units.show_ms(rtt_ms)) for name, rtt_ms in times.items()},
    }


def assumptions(
    order: RecordingOptions, pings: Pings, fitted: path_estimator.PathEstimate
) -> list[str]:
    """Return sentences on the properties of the path that nobody measured."""
    lost, bursts = sum(pings.lost), len(path_estimator.burst_lengths(pings.lost))
    min_ms = min(answer.rtt_ms for answer in pings.answers)
    interval = units.show_s(order.interval_s)
    sentences = [
        "ping cannot tell the two directions apart. Half the least round trip,"
        f" {units.show_ms(min_ms / 2)} ms, is given to each; all that is above it, and all loss,"
        " to forward. What the rate takes to send a ping is taken off.",
        f"Rate {order.rate}, each way: given by --rate. Buffer one BDP: nobody measured it.",
        "Routers may answer or drop ping's packets by rules of their own.",
    ]
    if fitted.forward.table:
        chance = path_estimator.overtaken_by_chance(pings, float(order.interval_s))
        consequence = (
            "one held up holds up those close behind it" if fitted.ordered else "they overtake"
        )
        sentences += [
            "Each packet has a delay of its own: the distribution has how often a delay"
            f" was seen, not how long it stayed ({order.name}.csv has that).",
            f"{pings.overtaken} of {len(pings.answers)} answers were overtaken by a later packet's,"
            f" about {chance:.0f} would be if each had a delay of its own: {consequence}.",
        ]
    if pings.resolution_ms > 0.01:
        sentences.append(f"ping rounds to {pings.resolution_ms:g} ms; so does the distribution.")
    if fitted.loss.model == "gemodel":
        sentences.append(
            f"Loss: Gilbert's model, fitted to {lost} packets lost in {bursts} bursts, as many"
            f" packets long as ping's, which were {interval} apart, however close packets are."
        )
    elif lost:
        sentences.append(
            f"Loss: {lost} of {pings.sent} packets, in {bursts} burst{'s' if bursts > 1 else ''}."
            f" Fewer than {path_estimator.BURSTS_TO_FIT} are too few to fit a model of them: each"
            " packet is lost with that share."
        )
    else:
        sentences.append(
            f"No loss: none of {pings.sent} packets was lost: less than"
            f" {share_text(3 / pings.sent)} are likely to be (95 of 100 times)."
        )
    return sentences


def format_loss(loss: LossSpec) -> str | dict[str, str]:
    if loss.model == "random":
        return share_text(loss.p)
    return {"model": "gemodel", "p": share_text(loss.p), "r": share_text(loss.r or 0.0)}
