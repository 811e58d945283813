# SPDX-License-Identifier: MIT
"""Parse CSV files with one line per probe.

These are LENS's Starlink and OneWeb recordings (timestamp, rtt, uplink, downlink, about every 10
ms) and CSV exports of irtt.

A column's name may end with its unit: time_s, time_ms, rtt_us. Without one, delays are
milliseconds, and a timestamp is ISO 8601 or a Unix time in seconds, milliseconds, microseconds or
nanoseconds, or seconds since the start. A probe without a number, or with 0 or a negative one, was
lost.
"""

import csv
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gostlab.importers.base import (
    DirectionRecording,
    Evidence,
    ImportFormat,
    PathRecording,
    Probe,
    Recording,
    UnreadableRecording,
)
from gostlab.spec.value_types import MAX_DELAY_S

TIMES, ROUND_TRIPS = ("timestamp", "time", "t"), ("rtt",)
UPLINKS, DOWNLINKS = ("uplink", "send"), ("downlink", "receive")
UNITS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
# A Unix timestamp in seconds is at least this large; one in ms is at least 1000 times as large, and
# so on.
SINCE_1970_S = 1e9
# Probes are rarely this far apart: numbers without a unit that rise by so much are no seconds.
MAX_INTERVAL_S = 5.0
NOT_A_NUMBER = ("", "nan", "none", "null", "lost", "inf", "*", "-")


@dataclass(frozen=True)
class CsvColumn:
    """A column of the file; `unit_s` is None if its name has no unit."""

    name: str
    position: int
    unit_s: float | None


@dataclass(frozen=True)
class DelayColumn:
    """A column of delays; None is a lost probe."""

    column: CsvColumn
    delays_ms: list[float | None]
    zeros: int


def read(recordings: Sequence[Recording]) -> PathRecording:
    """Return delays and losses, per direction if uplink and downlink are separate columns.

    Raises UnreadableRecording.
    """
    label = recordings[0].label
    lines = recordings[0].text.splitlines()
    delimiter = delimiter_of(lines[0] if lines else "")
    rows = csv.reader(lines, delimiter=delimiter)
    header = [name.strip().lower() for name in next(rows, [])]
    at, rtt, up, down = (
        find_column(header, names, label) for names in (TIMES, ROUND_TRIPS, UPLINKS, DOWNLINKS)
    )
    if at is None:
        raise UnreadableRecording(
            f"{label}:1: no column {', '.join(TIMES)} (such as time_s): add a header"
        )
    if rtt is None and None in (up, down):
        raise UnreadableRecording(
            f"{label}:1: no column rtt, nor both uplink and downlink: add a header"
        )
    positions, cells = [], []
    for row in rows:
        if not row:
            continue
        if len(row) != len(header):
            raise UnreadableRecording(
                f"{label}:{rows.line_num}: {len(row)} fields under {len(header)} columns"
            )
        positions.append(f"{label}:{rows.line_num}")
        cells.append([cell.replace(",", ".") for cell in row] if delimiter == ";" else row)
    if not cells:
        raise UnreadableRecording(f"{label}: no rows below its header")
    times_s = read_times(at, cells, positions)
    interval_s = times_s[-1] / max(1, len(times_s) - 1)
    used = {column.name for column in (at, *((up, down) if up and down else (rtt,))) if column}
    ignored = [name for name in header if name and name not in used]
    if up and down:
        forward, reverse = (read_delays(column, cells, positions) for column in (up, down))
        # A probe that was lost on its way up never set out on its way down.
        lost_up = [delay is None for delay in forward.delays_ms]
        recording = PathRecording(
            times_s[-1] + interval_s,
            forward=DirectionRecording(probes=probes_of(times_s, forward)),
            reverse=DirectionRecording(
                probes=[
                    probe
                    for probe, is_lost in zip(probes_of(times_s, reverse), lost_up, strict=True)
                    if not is_lost
                ]
            ),
            evidence=(
                evidence_of(forward, "forward"),
                evidence_of(reverse, "reverse", skipped=sum(lost_up)),
            ),
        )
        zeros = forward.zeros + reverse.zeros
    else:
        assert rtt is not None
        delays = read_delays(rtt, cells, positions)
        recording = PathRecording(
            times_s[-1] + interval_s,
            round_trips=probes_of(times_s, delays),
            evidence=(evidence_of(delays, "round trip"),),
        )
        zeros = delays.zeros
    left_out = [
        *([f"column {', '.join(ignored)}"] if ignored else []),
        *([f"{zeros} delays of 0 or less (lost: no packet takes 0 ms)"] if zeros else []),
    ]
    return replace(recording, left_out=tuple(left_out))


def delimiter_of(header: str) -> str:
    """Return the character that separates the columns."""
    return max(",;\t", key=header.count)


def find_column(header: Sequence[str], names: Sequence[str], label: str) -> CsvColumn | None:
    """Return the column with one of some names. Raises UnreadableRecording if two have it."""
    units: dict[str, float | None] = {"": None, **{f"_{unit}": s for unit, s in UNITS_S.items()}}
    spelled = {f"{name}{suffix}": unit_s for name in names for suffix, unit_s in units.items()}
    columns = [
        CsvColumn(name, position, spelled[name])
        for position, name in enumerate(header)
        if name in spelled
    ]
    if len({one.name for one in columns}) < len(columns):
        raise UnreadableRecording(f"{label}:1: column {columns[0].name} is there twice")
    columns.sort(key=lambda column: list(spelled).index(column.name))
    return columns[0] if columns else None


def read_times(
    column: CsvColumn, cells: Sequence[Sequence[str]], positions: Sequence[str]
) -> list[float]:
    """Return the time of each row in seconds since the first. Raises UnreadableRecording."""
    stamps = [
        read_time(row[column.position], position)
        for row, position in zip(cells, positions, strict=True)
    ]
    for number, position in enumerate(positions[1:], 1):
        if stamps[number] < stamps[number - 1]:
            raise UnreadableRecording(
                f"{position}: its time is before the row above's: sort the rows"
            )
    unit_s = column.unit_s
    if unit_s is None:
        unit_s = guess_unit_s(column, stamps, cells, positions)
    return [(stamp - stamps[0]) * unit_s for stamp in stamps]


def guess_unit_s(
    column: CsvColumn,
    stamps: Sequence[float],
    cells: Sequence[Sequence[str]],
    positions: Sequence[str],
) -> float:
    """Return the unit of timestamps whose column does not name it. Raises UnreadableRecording."""
    if stamps[0] >= SINCE_1970_S:
        return max(unit_s for unit_s in UNITS_S.values() if stamps[0] * unit_s < 1e3 * SINCE_1970_S)
    steps = [later - sooner for sooner, later in itertools.pairwise(stamps)]
    if steps and statistics.median(steps) >= MAX_INTERVAL_S:
        first, second = cells[0][column.position].strip(), cells[1][column.position].strip()
        raise UnreadableRecording(
            f"{positions[1]}: {column.name} rises from {first} to {second}: seconds or"
            f" milliseconds? Call the column {column.name}_s or {column.name}_ms"
        )
    return 1.0


def read_time(text: str, position: str) -> float:
    """Return a timestamp in its own unit. Raises UnreadableRecording."""
    try:
        number = float(text)
    except ValueError:
        try:
            return datetime.fromisoformat(text.strip().replace("Z", "+00:00")).timestamp()
        except (ValueError, OverflowError):
            raise UnreadableRecording(f"{position}: {text[:40]!r} is not a time") from None
    if not math.isfinite(number) or number < 0:
        raise UnreadableRecording(f"{position}: {text[:40]!r} is not a time")
    return number


def read_delays(
    column: CsvColumn, cells: Sequence[Sequence[str]], positions: Sequence[str]
) -> DelayColumn:
    """Return the delay of each row, ms; None if the probe was lost. Raises UnreadableRecording."""
    factor = 1.0 if column.unit_s is None else column.unit_s * 1e3
    delays_ms: list[float | None] = []
    zeros = 0
    for row, position in zip(cells, positions, strict=True):
        text = row[column.position].strip()
        delay_ms: float | None = None
        if text.lower() not in NOT_A_NUMBER:
            try:
                delay_ms = float(text) * factor
            except ValueError:
                raise UnreadableRecording(
                    f"{position}: {column.name} {text[:40]!r} is not a number of milliseconds"
                ) from None
            if not math.isfinite(delay_ms) or delay_ms <= 0:
                delay_ms = None
                zeros += 1
            elif delay_ms > 2000 * MAX_DELAY_S:
                raise UnreadableRecording(
                    f"{position}: {column.name} {text[:40]}: more than {2 * MAX_DELAY_S} s: is it"
                    f" in another unit (call the column {column.name}_us)?"
                )
        delays_ms.append(delay_ms)
    known = [delay for delay in delays_ms if delay is not None]
    if not known:
        raise UnreadableRecording(f"{positions[0]}: column {column.name} has no delay at all")
    if column.unit_s is None and max(known) < 1:
        raise UnreadableRecording(
            f"{positions[0]}: every {column.name} is below 1: seconds or milliseconds? Call the"
            f" column {column.name}_s or {column.name}_ms"
        )
    return DelayColumn(column, delays_ms, zeros)


def probes_of(times_s: Sequence[float], delays: DelayColumn) -> list[Probe]:
    return [
        Probe(at_s, delay_ms, lost=delay_ms is None)
        for at_s, delay_ms in zip(times_s, delays.delays_ms, strict=True)
    ]


def evidence_of(delays: DelayColumn, direction: str, skipped: int = 0) -> Evidence:
    lost = delays.delays_ms.count(None)
    what = "RTTs" if direction == "round trip" else "delays"
    value = f"{len(delays.delays_ms) - lost} {what} and {max(0, lost - skipped)} losses"
    return Evidence(value, f"column {delays.column.name}", direction)


def recognises(text: str) -> bool:
    """Return whether the first line names a time column and a delay column."""
    header = text.split("\n", 1)[0].lower()
    names = [name.strip() for name in header.split(delimiter_of(header))]
    try:
        return find_column(names, TIMES, "") is not None and (
            find_column(names, (*ROUND_TRIPS, *UPLINKS), "") is not None
        )
    except UnreadableRecording:
        return True


DESCRIPTION = "a line per probe: timestamp and rtt, or uplink and downlink, in ms (LENS, irtt)"
FORMAT = ImportFormat("csv", DESCRIPTION, ("the CSV",), recognises, read, vague=1)
