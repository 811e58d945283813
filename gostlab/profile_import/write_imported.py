"""Write the files of a path that somebody else recorded: the profile and its trace."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from gostlab.importers.base import Format, Observed, Recording
from gostlab.profile_import.profile_writer import direction_values, profile_text, write_profile
from gostlab.profile_import.rate_steps import (
    ReplayError,
    delay_steps,
    loss_steps,
    packet_bits,
    rate_steps,
    repeat_times,
    replay_error,
    trace_text,
)
from gostlab.spec import units
from gostlab.spec.profile import share_text
from gostlab.spec.trace import MAX_ROWS
from gostlab.spec.value_types import MAX_DELAY_S
from gostlab.spec.yaml_source import BadInput

# The delay changes no more often than this: with netem, a packet may overtake one with a larger
# delay.
DELAY_BIN_S = 0.1


@dataclass(frozen=True)
class ImportOrder:
    name: str
    format: Format
    recordings: tuple[Recording, ...]
    source: str
    licence: str
    recorded_direction: str  # forward | reverse
    rate: str | None  # the argument of --rate; None: use the recording's
    rtt_s: Fraction | None  # None: the recording's
    bin_s: Fraction
    length_s: Fraction | None  # None: the recording's
    out: Path


@dataclass(frozen=True)
class ImportedPath:
    """A recording in the form that the lab replays."""

    trace: pd.DataFrame  # both directions over time (rate_steps.trace_text)
    length_s: Fraction
    rate_bps: int  # mean rate, for the buffer and if there are no rate steps
    delay_ms: dict[str, float]  # minimum delay of each direction
    error: ReplayError


def compile_replay(order: ImportOrder, observed: Observed) -> ImportedPath:
    """Compile a recording into rate, delay and loss steps. Raises BadInput."""
    length_s = order.length_s or Fraction(str(round(observed.length_s, 6)))
    if observed.sendable_s:
        times_s = repeat_times(observed.sendable_s, observed.length_s, float(length_s))
        bits = packet_bits(observed.sendable_bytes)
        rates = rate_steps(times_s, bits, length_s, order.bin_s)
        error = replay_error(times_s, bits, rates, length_s)
        rate_bps = max(units.MIN_RATE_BPS, round(len(times_s) * bits / float(length_s)))
    else:
        rates, error = pd.Series(dtype=float), ReplayError(0.0, 0)
        rate_bps = units.rate(order.rate) if order.rate else observed.rate_bps or 0
    if not rate_bps:
        raise BadInput(f"{order.recordings[0].label} has no rate: give one by --rate (like 50mbit)")
    check_delays(order, observed)
    delay_ms = min_delays_ms(order, observed)
    reverse_ms = 0.0 if observed.one_way else delay_ms[opposite(order.recorded_direction)]
    probes, reverse_probes = (
        [probe for probe in recorded if probe.at_s < length_s] if order.rtt_s is None else []
        for recorded in (observed.probes, observed.reverse_probes)
    )
    delays = delay_steps(probes, reverse_ms, DELAY_BIN_S)
    losses = loss_steps(probes, float(length_s))
    reverse_steps = pd.DataFrame({"delay_ms": delay_steps(reverse_probes, 0.0, DELAY_BIN_S)})
    directions = {
        order.recorded_direction: pd.DataFrame(
            {"rate_bps": rates, "delay_ms": delays, "loss": losses}
        ),
        opposite(order.recorded_direction): reverse_steps,
    }
    rows = pd.concat([steps.assign(direction=name) for name, steps in sorted(directions.items())])
    trace = rows.sort_index(kind="stable")
    if len(trace) > MAX_ROWS:
        raise BadInput(
            f"{order.recordings[0].label}: {len(trace)} changes, more than {MAX_ROWS}:"
            f" use a longer --bin than {units.show_s(order.bin_s)}, or a part of it (--for 60s)"
        )
    if not observed.sendable_s and observed.probes and observed.rate_bps:
        trace = trace.iloc[:0]  # a constant rate and an RTT: the path does not change over time
    return ImportedPath(trace, length_s, rate_bps, delay_ms, error)


def check_delays(order: ImportOrder, observed: Observed) -> None:
    """Reject delays outside the range of netem paths, naming the recording. Raises BadInput."""
    max_ms = 1000 * MAX_DELAY_S * (1 if observed.one_way else 2)
    for probe in (*observed.probes, *observed.reverse_probes):
        if probe.delay_ms is not None and not 0 <= probe.delay_ms <= max_ms:
            raise BadInput(
                f"{order.recordings[0].label}: at {probe.at_s:.6g} s a delay of"
                f" {probe.delay_ms:g} ms: not within 0 to {max_ms:g} ms (is it in another unit?)"
            )


def min_delays_ms(order: ImportOrder, observed: Observed) -> dict[str, float]:
    """Return the minimum delay of each direction. Raises BadInput if there is none."""
    reverse = opposite(order.recorded_direction)
    if order.rtt_s is not None:
        half_ms = float(order.rtt_s * 500)
        return {order.recorded_direction: half_ms, reverse: half_ms}
    delays_ms = [probe.delay_ms for probe in observed.probes if probe.delay_ms is not None]
    if not delays_ms:
        raise BadInput(
            f"{order.recordings[0].label} has no delay: give the path's idle round trip by --rtt"
            " (like 40ms)"
        )
    if not observed.one_way:
        return {order.recorded_direction: min(delays_ms) / 2, reverse: min(delays_ms) / 2}
    reverse_delays_ms = [
        probe.delay_ms for probe in observed.reverse_probes if probe.delay_ms is not None
    ]
    return {order.recorded_direction: min(delays_ms), reverse: min(reverse_delays_ms or delays_ms)}


def opposite(direction: str) -> str:
    return "reverse" if direction == "forward" else "forward"


def write_import(order: ImportOrder, observed: Observed, replay: ImportedPath) -> Path:
    """Write the profile and its trace into order.out. Raises BadInput as write_profile does."""
    texts = {
        ".csv": trace_text(replay.trace) if len(replay.trace) else None,
        ".yaml": imported_text(order, observed, replay),
    }
    return write_profile(order.out, order.name, texts)


def imported_text(order: ImportOrder, observed: Observed, replay: ImportedPath) -> str:
    """Return the profile: the path at its mean rate and minimum delay."""
    rate = f"{replay.rate_bps}bit"
    document = {
        "name": order.name,
        "title": f"{order.name}, from {order.format.name}",
        "imported": evidence(order, replay),
        "assumptions": assumptions(order, observed),
        "notes": notes(order, replay),
        "forward": direction_values(rate, replay.delay_ms["forward"]),
        "reverse": direction_values(rate, replay.delay_ms["reverse"]),
    }
    comment = "A path that somebody else recorded. Made by ./lab profile import."
    return profile_text([comment], document)


def evidence(order: ImportOrder, replay: ImportedPath) -> dict[str, Any]:
    """Return the source of the import, the `imported` entry of a profile."""

    hashes = [
        hashlib.sha256(recording.text.encode("utf-8", "surrogateescape")).hexdigest()
        for recording in order.recordings
    ]
    return {
        "format": order.format.name,
        "files": [Path(recording.label).name for recording in order.recordings],
        "sha256": hashes,
        "source": order.source,
        "licence": order.licence,
        "length": units.show_s(replay.length_s),
        "bin": units.show_s(order.bin_s),
        "changes": len(replay.trace),
        "capacity_error": share_text(replay.error.share),
        "ahead": replay.error.ahead_bytes,
    }


def assumptions(order: ImportOrder, observed: Observed) -> list[str]:
    """Return sentences on the properties of the path that are not in the recording."""
    sentences = list(observed.assumptions)
    if order.rtt_s is not None:
        rtt_ms = units.show_ms(float(order.rtt_s * 1000))
        sentences.append(f"A round trip of {rtt_ms} ms, half of it each way: given by --rtt.")
    elif not observed.one_way:
        sentences.append(
            "Half the least round trip is given to each direction; what is above it, and every"
            f" loss, to {order.recorded_direction}."
        )
    if order.rate and not observed.sendable_s:
        sentences.append(f"Rate {order.rate}, each way: given by --rate.")
    elif observed.sendable_s:
        sentences.append(
            f"The {opposite(order.recorded_direction)} direction has the recording's mean rate"
            " all the time; nobody measured it."
        )
    sentences.append("Buffer one BDP of the mean rate: nobody measured it.")
    return sentences


def notes(order: ImportOrder, replay: ImportedPath) -> list[str]:
    if replay.trace.empty:
        return ["One rate and one round trip: nothing changes over time, and there is no trace."]
    sentences = [
        f"{order.name}.csv is the path over time: `trace: {order.name}.csv` in an experiment, with"
        " `bottleneck: tbf`, which follows each change of rate at once."
    ]
    if replay.trace["rate_bps"].any():
        sentences.append(
            f"The rate is the recording's mean of every {units.show_s(order.bin_s)}. Per 100 ms the"
            f" replayed capacity is {share_text(replay.error.share)} from the recorded, on average;"
            f" it is never more than {replay.error.ahead_bytes} bytes ahead of it or behind."
        )
    return sentences
