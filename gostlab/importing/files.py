"""An import's files: the profile and its trace."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from gostlab.ask import units
from gostlab.ask.document import BadInput
from gostlab.ask.profile import share_text
from gostlab.ask.trace import MAX_ROWS
from gostlab.importing.binned import (
    ReplayError,
    Step,
    delay_steps,
    loss_steps,
    merged,
    packet_bits,
    rate_steps,
    repeated,
    replay_error,
)
from gostlab.importing.seen import Format, Probe, Recording, Seen
from gostlab.recording.files import folded, show_ms
from gostlab.recording.whole import write_whole

# A delay changes in place so often: netem lets a packet overtake one that it holds for longer.
DELAY_BIN_S = 0.1


@dataclass(frozen=True)
class ImportOrder:
    """What was asked for."""

    name: str
    format: Format
    recordings: tuple[Recording, ...]
    source: str
    licence: str
    way: str  # forward | reverse
    rate: str | None  # as written; None: the recording's
    rtt_s: Fraction | None  # None: the recording's
    bin_s: Fraction
    length_s: Fraction | None  # None: the recording's
    out: Path
    force: bool


@dataclass(frozen=True)
class Made:
    """A recording as the lab replays it. `steps` are of the order's way, `back` of the other."""

    steps: Sequence[Step]
    back: Sequence[Step]
    length_s: Fraction
    rate_bps: int  # the mean, for the buffer and for what no step says
    delay_ms: dict[str, float]  # by way, at the least
    error: ReplayError


def make(order: ImportOrder, seen: Seen) -> Made:
    """The steps of a recording, and the path that they change. Raises BadInput."""
    length_s = order.length_s or Fraction(str(round(seen.length_s, 6)))
    if seen.sendable_s:
        times = repeated(seen.sendable_s, seen.length_s, float(length_s))
        bits = packet_bits(seen.sendable_bytes)
        rates = rate_steps(times, bits, length_s, order.bin_s)
        error = replay_error(times, bits, rates, length_s)
        rate_bps = max(units.MIN_RATE_BPS, round(len(times) * bits / float(length_s)))
    else:
        rates, error = [], ReplayError(0.0, 0)
        rate_bps = units.rate(order.rate) if order.rate else seen.rate_bps or 0
    if not rate_bps:
        raise BadInput(
            f"{order.recordings[0].shown} says no rate: give one by --rate (like 50mbit)"
        )
    delay_ms = least_delays_ms(order, seen)
    less_ms = 0.0 if seen.one_way else delay_ms[other(order.way)]
    probes = up_to(seen.probes, float(length_s)) if order.rtt_s is None else ()
    steps = merged(
        rates,
        delay_steps(probes, less_ms, float(length_s), DELAY_BIN_S),
        loss_steps(probes, float(length_s)),
    )
    back_probes = up_to(seen.reverse_probes, float(length_s)) if order.rtt_s is None else ()
    back = delay_steps(back_probes, 0.0, float(length_s), DELAY_BIN_S)
    if len(steps) + len(back) > MAX_ROWS:
        raise BadInput(
            f"{order.recordings[0].shown}: {len(steps) + len(back)} changes, more than {MAX_ROWS}:"
            f" use a longer --bin than {show_s(order.bin_s)}, or a part of it (--for 60s)"
        )
    if len(merged(rates)) <= 1 and not seen.sendable_s and len(seen.probes) and seen.rate_bps:
        steps, back = [], []  # a rate and an RTT: no path over time
    return Made(steps, back, length_s, rate_bps, delay_ms, error)


def least_delays_ms(order: ImportOrder, seen: Seen) -> dict[str, float]:
    """What each direction takes at the least. Raises BadInput where nobody says."""
    back = other(order.way)
    if order.rtt_s is not None:
        half_ms = float(order.rtt_s * 500)
        return {order.way: half_ms, back: half_ms}
    there = [probe.delay_ms for probe in seen.probes if probe.delay_ms is not None]
    if not there:
        raise BadInput(
            f"{order.recordings[0].shown} says no delay: give the path's idle round trip by --rtt"
            " (like 40ms)"
        )
    if not seen.one_way:
        return {order.way: min(there) / 2, back: min(there) / 2}
    backs = [probe.delay_ms for probe in seen.reverse_probes if probe.delay_ms is not None]
    return {order.way: min(there), back: min(backs or there)}


def up_to(probes: Sequence[Probe], length_s: float) -> list[Probe]:
    """The probes before a time."""
    return [probe for probe in probes if probe.at_s < length_s]


def other(way: str) -> str:
    """The other direction."""
    return "reverse" if way == "forward" else "forward"


def write_import(order: ImportOrder, seen: Seen, made: Made) -> Path:
    """Write the profile and its trace into order.out, and read them back before they get their
    names. Raises BadInput, also where the folder cannot be written; then nothing is there that was
    not before.
    """
    texts = {
        ".csv": trace_text(order, made) if made.steps or made.back else None,
        ".yaml": profile_text(order, seen, made),
    }
    return write_whole(order.out, order.name, texts)


def trace_text(order: ImportOrder, made: Made) -> str:
    """The steps as gostlab.ask.trace reads them; both directions begin at 0."""
    rows = [(order.way, step) for step in made.steps]
    rows += [(other(order.way), step) for step in made.back]
    rows.sort(key=lambda row: (row[1].at_s, row[0]))
    lines = ["time_s,direction,delay_ms,loss,rate_bps"]
    for way, step in rows:
        at = f"{float(step.at_s):.6f}".rstrip("0").rstrip(".")
        delay = "" if step.delay_ms is None else f"{step.delay_ms:g}"
        loss = "" if step.loss is None else f"{step.loss:g}"
        lines.append(f"{at},{way},{delay},{loss},{step.rate_bps or ''}")
    return "\n".join(lines) + "\n"


def profile_text(order: ImportOrder, seen: Seen, made: Made) -> str:
    """The path at its mean rate and least delay; the trace says the rest."""
    direction = "rate: {rate}bit, delay: {delay}ms, jitter: 0ms, loss: 0%, buffer: 1bdp"
    ways = {
        way: direction.format(rate=made.rate_bps, delay=show_ms(made.delay_ms[way]))
        for way in ("forward", "reverse")
    }
    lines = [
        "# A path that somebody else recorded. Made by ./lab profile import.",
        f"name: {order.name}",
        f"title: {json.dumps(title_of(order), ensure_ascii=False)}",
        "imported:",
        *(f"  {key}: {value}" for key, value in evidence(order, made).items()),
        "assumptions:",
        *(line for text in assumptions(order, seen, made) for line in folded(text)),
        "notes:",
        *(line for text in notes(order, made) for line in folded(text)),
        *(f"{way}: {{{text}}}" for way, text in ways.items()),
    ]
    return "\n".join(lines) + "\n"


def title_of(order: ImportOrder) -> str:
    """A line for lists."""
    return f"{order.name}, from {order.format.name}"


def evidence(order: ImportOrder, made: Made) -> dict[str, str]:
    """What was imported, as a profile's `imported` has it."""

    def listed(texts: Sequence[str]) -> str:
        return json.dumps(list(texts), ensure_ascii=False)

    hashes = [
        hashlib.sha256(recording.text.encode("utf-8", "surrogateescape")).hexdigest()
        for recording in order.recordings
    ]
    return {
        "format": order.format.name,
        "files": listed([Path(recording.shown).name for recording in order.recordings]),
        "sha256": listed(hashes),
        "source": json.dumps(order.source, ensure_ascii=False),
        "licence": json.dumps(order.licence, ensure_ascii=False),
        "length": show_s(made.length_s),
        "bin": show_s(order.bin_s),
        "changes": str(len(made.steps) + len(made.back)),
        "capacity_error": share_text(made.error.share),
        "ahead": str(made.error.ahead_bytes),
    }


def assumptions(order: ImportOrder, seen: Seen, made: Made) -> list[str]:
    """Which of the path's numbers are not in the recording."""
    said = list(seen.assumptions)
    if order.rtt_s is not None:
        said.append(
            f"A round trip of {show_ms(float(order.rtt_s * 1000))} ms, half of it each way: given"
            " by --rtt."
        )
    elif not seen.one_way:
        said.append(
            "Half the least round trip is given to each direction; what is above it, and every"
            f" loss, to {order.way}."
        )
    if order.rate and not seen.sendable_s:
        said.append(f"Rate {order.rate}, each way: given by --rate.")
    elif seen.sendable_s:
        said.append(
            f"The {other(order.way)} direction has the recording's mean rate all the time; nobody"
            " measured it."
        )
    said.append("Buffer one BDP of the mean rate: nobody measured it.")
    return said


def notes(order: ImportOrder, made: Made) -> list[str]:
    """How it is replayed."""
    if not made.steps and not made.back:
        return ["One rate and one round trip: nothing changes over time, and there is no trace."]
    said = [
        f"{order.name}.csv is the path over time: `trace: {order.name}.csv` in an experiment, with"
        " `bottleneck: tbf`, which follows each change of rate at once."
    ]
    if any(step.rate_bps for step in made.steps):
        said.append(
            f"The rate is the recording's mean of every {show_s(order.bin_s)}. Per 100 ms the"
            f" replayed capacity is {share_text(made.error.share)} from the recorded, on average;"
            f" it is never more than {made.error.ahead_bytes} bytes ahead of it or behind."
        )
    return said


def show_s(time_s: Fraction) -> str:
    """A time as a profile writes it."""
    return f"{show_ms(float(time_s * 1000))}ms"
