"""The files of a path that somebody else recorded: the profile and its trace."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from gostlab.importers.base import Format, Observed, Recording
from gostlab.profile_import.profile_writer import direction, profile_text, write_profile
from gostlab.profile_import.rate_steps import (
    ReplayError,
    delay_steps,
    loss_steps,
    packet_bits,
    rate_steps,
    repeated,
    replay_error,
    trace_text,
)
from gostlab.spec import units
from gostlab.spec.profile import share_text
from gostlab.spec.trace import MAX_ROWS
from gostlab.spec.value_types import MAX_DELAY_S
from gostlab.spec.yaml_source import BadInput

# A delay changes in place so often: netem lets a packet overtake one that it holds for longer.
DELAY_BIN_S = 0.1


@dataclass(frozen=True)
class ImportOrder:
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


@dataclass(frozen=True)
class ImportedPath:
    """A recording as the lab replays it."""

    trace: pd.DataFrame  # both ways over time (steps.trace_text)
    length_s: Fraction
    rate_bps: int  # the mean, for the buffer and for what no step says
    delay_ms: dict[str, float]  # by way, at the least
    error: ReplayError


def replay_of(order: ImportOrder, observed: Observed) -> ImportedPath:
    """The steps of a recording, and the path that they change. Raises BadInput."""
    length_s = order.length_s or Fraction(str(round(observed.length_s, 6)))
    if observed.sendable_s:
        times = repeated(observed.sendable_s, observed.length_s, float(length_s))
        bits = packet_bits(observed.sendable_bytes)
        rates = rate_steps(times, bits, length_s, order.bin_s)
        error = replay_error(times, bits, rates, length_s)
        rate_bps = max(units.MIN_RATE_BPS, round(len(times) * bits / float(length_s)))
    else:
        rates, error = pd.Series(dtype=float), ReplayError(0.0, 0)
        rate_bps = units.rate(order.rate) if order.rate else observed.rate_bps or 0
    if not rate_bps:
        raise BadInput(
            f"{order.recordings[0].shown} says no rate: give one by --rate (like 50mbit)"
        )
    check_delays(order, observed)
    delay_ms = least_delays_ms(order, observed)
    less_ms = 0.0 if observed.one_way else delay_ms[other(order.way)]
    probes, back_probes = (
        [probe for probe in each if probe.at_s < length_s] if order.rtt_s is None else []
        for each in (observed.probes, observed.reverse_probes)
    )
    delays = delay_steps(probes, less_ms, DELAY_BIN_S)
    losses = loss_steps(probes, float(length_s))
    back = pd.DataFrame({"delay_ms": delay_steps(back_probes, 0.0, DELAY_BIN_S)})
    ways = {
        order.way: pd.DataFrame({"rate_bps": rates, "delay_ms": delays, "loss": losses}),
        other(order.way): back,
    }
    rows = pd.concat([way.assign(direction=name) for name, way in sorted(ways.items())])
    trace = rows.sort_index(kind="stable")
    if len(trace) > MAX_ROWS:
        raise BadInput(
            f"{order.recordings[0].shown}: {len(trace)} changes, more than {MAX_ROWS}:"
            f" use a longer --bin than {units.show_s(order.bin_s)}, or a part of it (--for 60s)"
        )
    if not observed.sendable_s and observed.probes and observed.rate_bps:
        trace = trace.iloc[:0]  # a rate and an RTT: no path over time
    return ImportedPath(trace, length_s, rate_bps, delay_ms, error)


def check_delays(order: ImportOrder, observed: Observed) -> None:
    """Raises BadInput, naming the recording, for a delay that no path of the lab has."""
    most_ms = 1000 * MAX_DELAY_S * (1 if observed.one_way else 2)
    for probe in (*observed.probes, *observed.reverse_probes):
        if probe.delay_ms is not None and not 0 <= probe.delay_ms <= most_ms:
            raise BadInput(
                f"{order.recordings[0].shown}: at {probe.at_s:.6g} s a delay of"
                f" {probe.delay_ms:g} ms: not within 0 to {most_ms:g} ms (is it in another unit?)"
            )


def least_delays_ms(order: ImportOrder, observed: Observed) -> dict[str, float]:
    """What each direction takes at the least. Raises BadInput where nobody says."""
    back = other(order.way)
    if order.rtt_s is not None:
        half_ms = float(order.rtt_s * 500)
        return {order.way: half_ms, back: half_ms}
    there = [probe.delay_ms for probe in observed.probes if probe.delay_ms is not None]
    if not there:
        raise BadInput(
            f"{order.recordings[0].shown} says no delay: give the path's idle round trip by --rtt"
            " (like 40ms)"
        )
    if not observed.one_way:
        return {order.way: min(there) / 2, back: min(there) / 2}
    backs = [probe.delay_ms for probe in observed.reverse_probes if probe.delay_ms is not None]
    return {order.way: min(there), back: min(backs or there)}


def other(way: str) -> str:
    return "reverse" if way == "forward" else "forward"


def write_import(order: ImportOrder, observed: Observed, replay: ImportedPath) -> Path:
    """Write the profile and its trace into order.out. Raises BadInput as write_profile does."""
    texts = {
        ".csv": trace_text(replay.trace) if len(replay.trace) else None,
        ".yaml": imported_text(order, observed, replay),
    }
    return write_profile(order.out, order.name, texts)


def imported_text(order: ImportOrder, observed: Observed, replay: ImportedPath) -> str:
    """The path at its mean rate and least delay; the trace says the rest."""
    rate = f"{replay.rate_bps}bit"
    document = {
        "name": order.name,
        "title": f"{order.name}, from {order.format.name}",
        "imported": evidence(order, replay),
        "assumptions": assumptions(order, observed),
        "notes": notes(order, replay),
        "forward": direction(rate, replay.delay_ms["forward"]),
        "reverse": direction(rate, replay.delay_ms["reverse"]),
    }
    comment = "A path that somebody else recorded. Made by ./lab profile import."
    return profile_text([comment], document)


def evidence(order: ImportOrder, replay: ImportedPath) -> dict[str, Any]:
    """What was imported, as a profile's `imported` has it."""

    hashes = [
        hashlib.sha256(recording.text.encode("utf-8", "surrogateescape")).hexdigest()
        for recording in order.recordings
    ]
    return {
        "format": order.format.name,
        "files": [Path(recording.shown).name for recording in order.recordings],
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
    """Which of the path's numbers are not in the recording."""
    said = list(observed.assumptions)
    if order.rtt_s is not None:
        rtt_ms = units.show_ms(float(order.rtt_s * 1000))
        said.append(f"A round trip of {rtt_ms} ms, half of it each way: given by --rtt.")
    elif not observed.one_way:
        said.append(
            "Half the least round trip is given to each direction; what is above it, and every"
            f" loss, to {order.way}."
        )
    if order.rate and not observed.sendable_s:
        said.append(f"Rate {order.rate}, each way: given by --rate.")
    elif observed.sendable_s:
        said.append(
            f"The {other(order.way)} direction has the recording's mean rate all the time; nobody"
            " measured it."
        )
    said.append("Buffer one BDP of the mean rate: nobody measured it.")
    return said


def notes(order: ImportOrder, replay: ImportedPath) -> list[str]:
    if replay.trace.empty:
        return ["One rate and one round trip: nothing changes over time, and there is no trace."]
    said = [
        f"{order.name}.csv is the path over time: `trace: {order.name}.csv` in an experiment, with"
        " `bottleneck: tbf`, which follows each change of rate at once."
    ]
    if replay.trace["rate_bps"].any():
        said.append(
            f"The rate is the recording's mean of every {units.show_s(order.bin_s)}. Per 100 ms the"
            f" replayed capacity is {share_text(replay.error.share)} from the recorded, on average;"
            f" it is never more than {replay.error.ahead_bytes} bytes ahead of it or behind."
        )
    return said
