"""A recording's files: the profile, the shape of its delay, the trace."""

from __future__ import annotations

import json
import math
import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from gostlab.ask import units
from gostlab.ask.profile import (
    DISTRIBUTION_SCALE,
    LossModel,
    share_text,
)
from gostlab.recording.fitting import (
    BURSTS_TO_FIT,
    PING_BITS,
    WINDOW_PACKETS,
    WINDOW_S,
    DelayTable,
    Fitted,
    Window,
    burst_lengths,
    fit_path,
    overtaken_by_chance,
    windows_of,
)
from gostlab.recording.pings import Pings
from gostlab.recording.whole import write_whole


@dataclass(frozen=True)
class Order:
    """What was asked for."""

    host: str
    name: str
    count: int
    interval_s: Fraction
    interval_written: bool  # False: the default, which may give way
    rate: str  # as written
    out: Path
    force: bool


def write_profile(order: Order, pings: Pings, date: str) -> Path:
    """Write a recording's profile, distribution and trace into order.out, and read them back before
    they get their names.

    Raises BadInput, also where the folder cannot be written; then nothing is there that was not
    before.
    """
    fitted = fit_path(pings, float(order.interval_s), units.rate(order.rate))
    windows = windows_of(pings, float(order.interval_s))
    texts = {
        ".dist": distribution_text(order, fitted.forward) if fitted.forward.table else None,
        ".csv": trace_text(windows, fitted, units.rate(order.rate)),
        ".yaml": profile_text(order, pings, fitted, date),
    }
    return write_whole(order.out, order.name, texts)


def distribution_text(order: Order, delay: DelayTable) -> str:
    """A table as tc reads it."""
    rows = (delay.table[start : start + 8] for start in range(0, len(delay.table), 8))
    return (
        f"# The delay to {order.host}, recorded: of {show_ms(delay.delay_ms)} ms,"
        f" {DISTRIBUTION_SCALE} is {show_ms(delay.jitter_ms)} ms more.\n"
        + "".join(" " + " ".join(str(entry) for entry in row) + "\n" for row in rows)
    )


def trace_text(windows: Sequence[Window], fitted: Fitted, rate_bps: int) -> str:
    """A recording as gostlab.ask.trace reads it; nobody measured a rate."""
    rest_ms = fitted.reverse_ms + 2 * 1000 * PING_BITS / rate_bps
    lines = ["time_s,delay_ms,loss,rate_bps"]
    for window in windows:
        delay = "" if window.rtt_ms is None else show_ms(max(0.0, window.rtt_ms - rest_ms))
        lines.append(f"{window.at_s:g},{delay},{window.loss:.4g},")
    return "\n".join(lines) + "\n"


def profile_text(order: Order, pings: Pings, fitted: Fitted, date: str) -> str:
    """A recording as a profile."""
    delay = fitted.forward
    direction = (
        f"rate: {order.rate}, delay: {{delay}}ms, jitter: {{jitter}}ms, {{more}}buffer: 1bdp"
    )
    shape = f"distribution: {order.name}.dist, " if delay.table else ""
    ordered = f"ordered: {'true' if fitted.ordered else 'false'}, " if delay.table else ""
    forward = direction.format(
        delay=show_ms(delay.delay_ms),
        jitter=show_ms(delay.jitter_ms),
        more=f"{shape}{ordered}loss: {loss_text(fitted.loss)}, ",
    )
    reverse = direction.format(delay=show_ms(fitted.reverse_ms), jitter="0", more="loss: 0%, ")
    lines = [
        f"# The path to {order.host} as ping saw it. Recorded by",
        (
            f"#     ./lab profile record {order.host} --name {order.name} --count {order.count}"
            f" --interval {show_interval(order.interval_s)} --rate {order.rate}"
        ),
        f"name: {order.name}",
        f"title: {json.dumps(f'Ping to {order.host}, {date[:10]}', ensure_ascii=False)}",
        "recorded:",
        *(f"  {key}: {value}" for key, value in evidence(order, pings, date).items()),
        "assumptions:",
        *(line for text in assumptions(order, pings, fitted) for line in folded(text)),
        "notes:",
        *folded(
            f"{order.name}.csv has the median delay and the loss of every {window_words(order)}: a"
            " trace, for a path without jitter and loss of its own."
        ),
        f"forward: {{{forward}}}",
        f"reverse: {{{reverse}}}",
    ]
    return "\n".join(lines) + "\n"


def evidence(order: Order, pings: Pings, date: str) -> dict[str, str]:
    """What ping saw, as a profile's `recorded` has it."""
    rtts_ms = sorted(answer.rtt_ms for answer in pings.answers)
    bursts = burst_lengths(pings.lost)
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
        "host": json.dumps(order.host, ensure_ascii=False),
        **({"address": json.dumps(pings.address)} if pings.address else {}),
        "date": json.dumps(date),
        "interval": show_interval(order.interval_s),
        **{name: str(count) for name, count in counts.items()},
        **{f"rtt_{name}_ms": show_ms(rtt_ms) for name, rtt_ms in times.items()},
    }


def assumptions(order: Order, pings: Pings, fitted: Fitted) -> list[str]:
    """Which of the path's numbers nobody measured."""
    lost, bursts = sum(pings.lost), len(burst_lengths(pings.lost))
    least_ms = min(answer.rtt_ms for answer in pings.answers)
    interval = show_interval(order.interval_s)
    said = [
        (
            "ping cannot tell the two directions apart. Half the least round trip,"
            f" {show_ms(least_ms / 2)} ms, is given to each; all that is above it, and all loss, to"
            " forward. What the rate takes to send a ping is taken off."
        ),
        (
            f"Rate {order.rate}, each way: not measured, given by --rate. Buffer one BDP: nobody"
            " measured it."
        ),
        (
            "Routers may treat ping's packets unlike others, and answer or drop them by rules of"
            " their own."
        ),
    ]
    if fitted.forward.table:
        said.append(
            "The delay of each packet is drawn by itself: the distribution has how often a delay"
            f" was seen, not how long it stayed ({order.name}.csv has that)."
        )
        chance = overtaken_by_chance(pings, float(order.interval_s))
        said.append(
            f"{pings.overtaken} of {len(pings.answers)} answers were overtaken by a later packet's,"
            f" where about {chance:.0f} would have been if each packet were delayed by itself: "
            + (
                "none is, and one held up holds up those close behind it."
                if fitted.ordered
                else "packets overtake."
            )
        )
    if pings.resolution_ms > 0.01:
        said.append(
            f"ping rounds times of this length to {pings.resolution_ms:g} ms; so does the"
            " distribution."
        )
    if fitted.loss.model == "gemodel":
        said.append(
            f"Loss: Gilbert's model, fitted to {lost} packets lost in {bursts} bursts. Its bursts"
            f" are as many packets long as ping's, which were {interval} apart, however close the"
            " packets are."
        )
    elif lost:
        said.append(
            f"Loss: {lost} of {pings.sent} packets, in {bursts} burst{'s' if bursts > 1 else ''}."
            f" Fewer than {BURSTS_TO_FIT} bursts are too few to fit a model of them: each packet is"
            " lost with that share, whatever became of the one before."
        )
    else:
        said.append(
            f"No loss: none of {pings.sent} packets was lost, so that less than"
            f" {share_text(3 / pings.sent)} are likely to be (95 of 100 times, if each is by"
            " itself)."
        )
    return said


def loss_text(loss: LossModel) -> str:
    """A loss model as a profile writes it."""
    if loss.model == "random":
        return share_text(loss.p)
    return f"{{model: gemodel, p: {share_text(loss.p)}, r: {share_text(loss.r)}}}"


def folded(text: str) -> list[str]:
    """An item of a YAML list, a text of several lines."""
    return [
        "  - >-",
        *(
            f"    {line}"
            for line in textwrap.wrap(text, 112, break_long_words=False, break_on_hyphens=False)
        ),
    ]


def show_ms(time_ms: float) -> str:
    """Milliseconds to a nanosecond, without an exponent and needless zeros."""
    return f"{time_ms:.6f}".rstrip("0").rstrip(".")


def show_interval(interval_s: Fraction) -> str:
    """An interval as it would be written."""
    return f"{show_ms(float(interval_s * 1000))}ms"


def window_words(order: Order) -> str:
    """How long the trace's windows are."""
    length_s = max(WINDOW_S, math.ceil(WINDOW_PACKETS * order.interval_s))
    return "second" if length_s == 1 else f"{length_s:g} seconds"
