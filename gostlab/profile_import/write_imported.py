# SPDX-License-Identifier: MIT
"""Write the files of a path that somebody else recorded: the profile and its trace."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd

from gostlab.importers.base import (
    LIMITED_SHARE,
    DirectionRecording,
    ImportFormat,
    PathRecording,
    Probe,
    Recording,
)
from gostlab.profile_import.find_importers import reader_package_notes
from gostlab.profile_import.profile_writer import (
    direction_values,
    profile_text,
    source_lines,
    source_notes,
    write_profile,
)
from gostlab.profile_import.rate_steps import (
    ReplayError,
    delay_steps,
    loss_steps,
    packet_bits,
    rate_steps,
    repeat_probes,
    repeat_times,
    replay_error,
    trace_text,
)
from gostlab.spec import units
from gostlab.spec.profile import DIRECTIONS, share_text
from gostlab.spec.trace import MAX_ROWS
from gostlab.spec.value_types import MAX_DELAY_S
from gostlab.spec.yaml_source import BadInput

# The delay changes no more often than this: with netem, a packet may overtake one with a larger
# delay.
DELAY_BIN_S = 0.1
MAX_LENGTH_S = Fraction(24 * 3600)
MAX_SAMPLES = 20_000_000
OPPOSITE = {"forward": "reverse", "reverse": "forward"}


@dataclass(frozen=True)
class ImportOrder:
    name: str
    format: ImportFormat
    recordings: tuple[Recording, ...]
    source: str
    licence: str
    recorded_direction: str  # direction of what the recording calls forward
    rate: str | None  # the argument of --rate; None: use the recording's
    rtt_s: Fraction | None  # None: the recording's
    bin_s: Fraction
    length_s: Fraction | None  # None: the recording's
    out: Path

    @property
    def label(self) -> str:
        return self.recordings[0].label


@dataclass(frozen=True)
class ImportedDirection:
    """One direction of an imported path, as a profile has it, and its changes over time."""

    rate_bps: int  # mean rate, for the buffer and if there are no rate steps
    delay_ms: float  # minimum delay
    jitter_ms: float
    loss_share: float
    steps: pd.DataFrame  # rate_steps.COLUMNS by time
    error: ReplayError


@dataclass(frozen=True)
class ImportedPath:
    """A recording in the form that the lab replays, and what the user is told of it."""

    directions: Mapping[str, ImportedDirection]
    length_s: Fraction
    trace: pd.DataFrame  # both directions over time (rate_steps.trace_text)
    sources: tuple[str, str]  # profile_writer.source_lines
    assumptions: tuple[str, ...]

    @property
    def error(self) -> ReplayError:
        """Return the larger deviation of the two directions."""
        return max((one.error for one in self.directions.values()), key=lambda one: one.share)


# -- compile


@dataclass
class SentenceList:
    """The sentences that come up while a recording is compiled."""

    left_out: list[str]
    assumptions: list[str]


def compile_replay(order: ImportOrder, recorded: PathRecording) -> ImportedPath:
    """Compile a recording into the values and changes of both directions. Raises BadInput."""
    if order.recorded_direction == "reverse":
        recorded = recorded.swapped()
    if not math.isfinite(recorded.length_s):
        raise BadInput(f"{order.label}: its length is not a number: look at its times")
    length_s = order.length_s or Fraction(str(round(recorded.length_s, 6)))
    check_import_size(order, recorded, length_s)
    sentences = SentenceList(list(recorded.left_out), list(recorded.assumptions))
    rates = {name: capacity_steps(order, recorded, name, length_s) for name in DIRECTIONS}
    rates_bps = choose_rates(order, recorded, rates, sentences)
    delays = choose_delays(order, recorded, sentences)
    if recorded.loss_share or any(probe.lost for probe in recorded.round_trips):
        sentences.assumptions.append(
            f"Every loss is {order.recorded_direction}'s where its direction is not recorded."
        )
    directions = {}
    for name in DIRECTIONS:
        one: DirectionRecording = getattr(recorded, name)
        steps, error = rates[name] or (pd.Series(dtype=float), ReplayError(0.0, 0))
        delay_ms, probes, offset_ms = delays[name]
        has_limit, loss_share = is_limited(order, one), one.loss_share
        if name == order.recorded_direction:
            loss_share = loss_share or recorded.loss_share
        if one.offered_bps and not has_limit and loss_share:
            loss_share = 0.0
            sentences.left_out.append(
                f"{name}'s loss as the line's (a full queue drops what was offered above the rate;"
                " --rate with the path's own rate takes it)"
            )
        jitter_ms = min(one.jitter_ms, delay_ms) if has_limit or not one.offered_bps else 0.0
        repeated = repeat_probes(probes, recorded.length_s, float(length_s))
        lossy = loss_probes(recorded, name, order.recorded_direction)
        lossy = repeat_probes(lossy, recorded.length_s, float(length_s))
        directions[name] = ImportedDirection(
            rate_bps=rates_bps[name],
            delay_ms=delay_ms,
            jitter_ms=jitter_ms,
            loss_share=loss_share,
            steps=pd.DataFrame(
                {
                    "rate_bps": steps,
                    "delay_ms": delay_steps(repeated, offset_ms, DELAY_BIN_S),
                    "loss": loss_steps(lossy, float(length_s)),
                }
            ),
            error=error,
        )
    trace = to_trace(order, directions)
    sentences.assumptions.append("Buffer one BDP of the mean rate: nobody measured it.")
    return ImportedPath(
        directions,
        length_s,
        trace,
        sources=source_lines([*map(str, recorded.evidence)], sentences.left_out),
        assumptions=tuple(sentences.assumptions),
    )


def check_import_size(order: ImportOrder, recorded: PathRecording, length_s: Fraction) -> None:
    """Reject a recording that is too long, or repeated too often. Raises BadInput."""
    if not 0 <= length_s <= MAX_LENGTH_S:
        raise BadInput(
            f"{order.label}: {float(length_s):.6g} s long, more than a day: take a part (--for 60s)"
        )
    both = (recorded.forward, recorded.reverse)
    sequences = [
        *((one.sendable_s, one.period_s or recorded.length_s) for one in both),
        *((one.probes, recorded.length_s) for one in both),
        (recorded.round_trips, recorded.length_s),
    ]
    count = sum(len(some) * float(length_s) / period_s for some, period_s in sequences if period_s)
    if count > MAX_SAMPLES:
        raise BadInput(
            f"{order.label}: {count:.0f} samples in {units.show_s(length_s)}, more than"
            f" {MAX_SAMPLES}: take a shorter part (--for 60s)"
        )


def capacity_steps(
    order: ImportOrder, recorded: PathRecording, name: str, length_s: Fraction
) -> tuple[pd.Series, ReplayError] | None:
    """Return the rate steps of a direction and their error; None without a capacity trace."""
    one: DirectionRecording = getattr(recorded, name)
    if not one.sendable_s:
        return None
    times_s = repeat_times(one.sendable_s, one.period_s or recorded.length_s, float(length_s))
    bits = packet_bits(one.sendable_bytes)
    rates = rate_steps(times_s, bits, length_s, order.bin_s)
    return rates, replay_error(times_s, bits, rates, length_s)


def mean_rate_bps(one: DirectionRecording, default_period_s: float) -> int:
    """Return the mean rate of a capacity trace."""
    period_s = one.period_s or default_period_s
    bits = packet_bits(one.sendable_bytes)
    return max(units.MIN_RATE_BPS, round(len(one.sendable_s) * bits / period_s))


def is_limited(order: ImportOrder, one: DirectionRecording) -> bool:
    """Return whether a sender got all that it offered, or less than the rate that the user gave.

    The rate that arrived is then not the path's.
    """
    if not one.offered_bps or not one.rate_bps:
        return False
    if order.rate is not None:
        return units.parse_rate(order.rate) >= one.offered_bps
    return one.rate_bps >= LIMITED_SHARE * one.offered_bps


def choose_rates(
    order: ImportOrder,
    recorded: PathRecording,
    over_time: Mapping[str, object],
    sentences: SentenceList,
) -> dict[str, int]:
    """Return the mean rate of each direction: recorded, given, or the other one's.

    Raises BadInput if there is none.
    """
    given_bps = units.parse_rate(order.rate) if order.rate else None
    if given_bps and all(over_time.values()):
        raise BadInput(
            f"--rate {order.rate}: {order.label} has both directions' capacity: leave --rate out"
        )
    rates_bps: dict[str, int | None] = {}
    given = []
    for name in DIRECTIONS:
        one: DirectionRecording = getattr(recorded, name)
        if over_time[name]:
            rates_bps[name] = mean_rate_bps(one, recorded.length_s)
            continue
        if given_bps is None and is_limited(order, one):
            raise BadInput(
                f"{order.label}: the {name} test offered {units.show_rate(one.offered_bps)} and got"
                f" {units.show_rate(one.rate_bps)}: the path's rate is higher: give it by --rate"
                " (like 50mbit)"
            )
        rates_bps[name] = given_bps or one.rate_bps
        if given_bps:
            given.append(name)
            if one.rate_bps:
                sentences.left_out.append(
                    f"{name}'s recorded rate, {units.show_rate(one.rate_bps)} (--rate replaces it)"
                )
    if given:
        where = "each way" if len(given) == len(DIRECTIONS) else given[0]
        sentences.assumptions.append(f"Rate {order.rate}, {where}: given by --rate.")
    for name, other in OPPOSITE.items():
        if not rates_bps[name] and rates_bps[other]:
            rates_bps[name] = rates_bps[other]
            what = "mean rate" if over_time[other] else "rate"
            sentences.assumptions.append(
                f"The {name} direction has the {other} direction's {what} all the time; nobody"
                " measured it."
            )
    forward_bps, reverse_bps = rates_bps["forward"], rates_bps["reverse"]
    if not forward_bps or not reverse_bps:
        raise BadInput(f"{order.label} has no rate: give one by --rate (like 50mbit)")
    return {"forward": forward_bps, "reverse": reverse_bps}


Delays = tuple[float, list[Probe], float]


def choose_delays(
    order: ImportOrder, recorded: PathRecording, sentences: SentenceList
) -> dict[str, Delays]:
    """Return each direction's minimum delay, its delay probes, and what to subtract from them.

    Raises BadInput if there is no delay, or one outside the range of netem paths.
    """
    check_delays(order, recorded)
    one_way = {name: probes_with_delay(getattr(recorded, name).probes) for name in DIRECTIONS}
    trips = probes_with_delay(recorded.round_trips)
    if order.rtt_s is not None:
        rtt_ms = units.show_ms(float(order.rtt_s * 1000))
        sentences.assumptions.append(
            f"A round trip of {rtt_ms} ms, half of it each way: given by --rtt."
        )
        if trips or any(one_way.values()) or recorded.rtt_ms is not None:
            sentences.left_out.append("the recorded delays (--rtt replaces them)")
        return dict.fromkeys(DIRECTIONS, (float(order.rtt_s * 500), [], 0.0))
    if any(one_way.values()):
        delays: dict[str, Delays] = {}
        for name, other in OPPOSITE.items():
            probes = one_way[name] or one_way[other]
            delays[name] = (min(probe.delay_ms or 0.0 for probe in probes), one_way[name], 0.0)
            if not one_way[name]:
                sentences.assumptions.append(
                    f"The {name} direction has the {other} direction's least delay; nobody"
                    " measured it."
                )
        return delays
    rtt = recorded.rtt_ms if not trips else min(probe.delay_ms or 0.0 for probe in trips)
    if rtt is None:
        raise BadInput(
            f"{order.label} has no delay: give the path's idle round trip by --rtt (like 40ms)"
        )
    variable = order.recorded_direction
    sentences.assumptions.append(
        "Half the least round trip is given to each direction"
        + (f"; what is above it, to {variable}." if trips else ".")
    )
    return {
        name: (rtt / 2, trips if name == variable else [], rtt / 2 if name == variable else 0.0)
        for name in DIRECTIONS
    }


def probes_with_delay(probes: Any) -> list[Probe]:
    return [probe for probe in probes if probe.delay_ms is not None]


def loss_probes(recorded: PathRecording, name: str, variable: str) -> list[Probe]:
    """Return the probes that tell a direction's losses.

    Losses of unknown direction are those of the `variable` one.
    """
    probes = list(getattr(recorded, name).probes)
    if name != variable:
        return probes
    if not probes:
        return list(recorded.round_trips)
    lost = (probe for probe in recorded.round_trips if probe.lost)
    return sorted([*probes, *lost], key=lambda probe: probe.at_s)


def check_delays(order: ImportOrder, recorded: PathRecording) -> None:
    """Reject delays outside the range of netem paths, naming the recording. Raises BadInput."""
    one_way = (*recorded.forward.probes, *recorded.reverse.probes)
    for probes, max_ms in (
        (one_way, 1000 * MAX_DELAY_S),
        (recorded.round_trips, 2000 * MAX_DELAY_S),
        ([Probe(0.0, recorded.rtt_ms)], 2000 * MAX_DELAY_S),
    ):
        for probe in probes:
            if probe.delay_ms is not None and not 0 <= probe.delay_ms <= max_ms:
                raise BadInput(
                    f"{order.label}: at {probe.at_s:.6g} s a delay of {probe.delay_ms:g} ms: not"
                    f" within 0 to {max_ms:g} ms (is it in another unit?)"
                )


def to_trace(order: ImportOrder, directions: Mapping[str, ImportedDirection]) -> pd.DataFrame:
    """Return the changes of both directions, sorted by time. Raises BadInput for too many."""
    rows = pd.concat([one.steps.assign(direction=name) for name, one in sorted(directions.items())])
    trace = rows.sort_index(kind="stable")
    if len(trace) > MAX_ROWS:
        raise BadInput(
            f"{order.label}: {len(trace)} changes, more than {MAX_ROWS}: use a longer --bin than"
            f" {units.show_s(order.bin_s)}, or a part of it (--for 60s)"
        )
    return trace


# -- write


def write_import(order: ImportOrder, replay: ImportedPath) -> Path:
    """Write the profile and its trace into order.out. Raises BadInput as write_profile does."""
    texts = {
        ".csv": trace_text(replay.trace) if len(replay.trace) else None,
        ".yaml": imported_text(order, replay),
    }
    return write_profile(order.out, order.name, texts)


def imported_text(order: ImportOrder, replay: ImportedPath) -> str:
    """Return the profile: the path at its mean rate and minimum delay."""
    document = {
        "name": order.name,
        "title": f"{order.name}, from {order.format.name}",
        "imported": imported_evidence(order, replay),
        "assumptions": list(replay.assumptions),
        "notes": import_notes(order, replay),
        **{name: direction_document(one) for name, one in replay.directions.items()},
    }
    comment = "A path that somebody else recorded. Made by ./lab profile import."
    return profile_text([comment], document)


def direction_document(one: ImportedDirection) -> dict[str, object]:
    """Return a direction as a profile has it; jitter keeps the order of packets."""
    ordered: dict[str, object] = {"ordered": True} if one.jitter_ms else {}
    return direction_values(
        f"{one.rate_bps}bit",
        one.delay_ms,
        jitter_ms=one.jitter_ms,
        loss=share_text(round(one.loss_share, 8)),
        **ordered,
    )


def imported_evidence(order: ImportOrder, replay: ImportedPath) -> dict[str, object]:
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
        "ahead": max(one.error.ahead_bytes for one in replay.directions.values()),
    }


def import_notes(order: ImportOrder, replay: ImportedPath) -> list[str]:
    sentences = [*reader_package_notes(order.format), *source_notes(replay.sources)]
    if replay.trace.empty:
        return [*sentences, "Nothing changes over time, and there is no trace."]
    sentences.append(
        f"{order.name}.csv is the path over time: `trace: {order.name}.csv` in an experiment, with"
        " `bottleneck: tbf`, which follows each change of rate at once."
    )
    if replay.trace["rate_bps"].any():
        sentences.append(
            f"The rate is the recording's mean of every {units.show_s(order.bin_s)}. Per 100 ms the"
            f" replayed capacity is {share_text(replay.error.share)} from the recorded, on average;"
            f" it is never more than {imported_evidence(order, replay)['ahead']} bytes ahead of it"
            " or behind."
        )
    return sentences
