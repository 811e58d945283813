"""Parse CSV files with one line per probe.

These are LENS's Starlink and OneWeb recordings (timestamp, rtt, uplink, downlink, about every 10
ms) and CSV exports of irtt.

Delays are milliseconds. A probe without a number, or with a negative one, was lost. A timestamp is
ISO 8601 or a number of seconds, milliseconds, microseconds or nanoseconds; its size decides which.
"""

import csv
import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from gostlab.importers.base import Format, Observed, Probe, Recording, UnreadableRecording

TIMES = ("timestamp", "time", "time_s", "t")
ROUND_TRIPS = ("rtt", "rtt_ms")
UPLINKS, DOWNLINKS = ("uplink", "uplink_ms", "send"), ("downlink", "downlink_ms", "receive")
# A Unix timestamp in seconds is at least this large; one in ms is at least 1000 times as large, and
# so on.
SINCE_1970_S = 1e9
UNITS = (1.0, 1e3, 1e6, 1e9)


def read(recordings: Sequence[Recording]) -> Observed:
    """Return delays and losses, per direction if uplink and downlink are separate columns.

    Raises UnreadableRecording.
    """
    recording = recordings[0]
    rows = csv.DictReader(recording.text.splitlines())
    columns = {name.strip().lower(): name for name in rows.fieldnames or ()}
    at, up, down, rtt = (
        next((columns[name] for name in names if name in columns), None)
        for names in (TIMES, UPLINKS, DOWNLINKS, ROUND_TRIPS)
    )
    if at is None:
        raise UnreadableRecording(f"{recording.label}:1: no column {' or '.join(TIMES)}")
    if rtt is None and None in (up, down):
        raise UnreadableRecording(
            f"{recording.label}:1: no column rtt, nor both uplink and downlink"
        )
    rows_by_position = {f"{recording.label}:{number}": row for number, row in enumerate(rows, 2)}
    times_s = [time_s(row[at], position) for position, row in rows_by_position.items()]
    if not times_s:
        raise UnreadableRecording(f"{recording.label}: no rows below its header")
    begin_s = times_s[0]
    if any(later < sooner for sooner, later in itertools.pairwise(times_s)):
        raise UnreadableRecording(f"{recording.label}: its times fall")

    def probes(name: str) -> list[Probe]:
        return [
            Probe(time - begin_s, delay_ms(row, name, position))
            for time, (position, row) in zip(times_s, rows_by_position.items(), strict=True)
        ]

    length_s = (times_s[-1] - begin_s) * len(times_s) / max(1, len(times_s) - 1)
    if up and down:
        return Observed(length_s, probes=probes(up), one_way=True, reverse_probes=probes(down))
    assert rtt is not None
    return Observed(length_s, probes=probes(rtt))


def time_s(text: str | None, position: str) -> float:
    """Return a timestamp in seconds. Raises UnreadableRecording."""
    try:
        number = float(text or "")
    except ValueError:
        try:
            return datetime.fromisoformat((text or "").strip().replace("Z", "+00:00")).timestamp()
        except ValueError:
            raise UnreadableRecording(f"{position}: {str(text)[:40]!r} is not a time") from None
    if not math.isfinite(number) or number < 0:
        raise UnreadableRecording(f"{position}: {str(text)[:40]!r} is not a time")
    for unit in reversed(UNITS):
        if number >= SINCE_1970_S * unit:
            return number / unit
    return number


def delay_ms(row: Mapping[str, str | None], name: str, position: str) -> float | None:
    """Return a delay, None if the probe was lost. Raises UnreadableRecording."""
    text = (row[name] or "").strip()
    if text.lower() in ("", "nan", "none", "null", "lost", "inf"):
        return None
    try:
        number = float(text)
    except ValueError:
        raise UnreadableRecording(
            f"{position}: {name} {text[:40]!r} is not a number of milliseconds"
        ) from None
    return number if math.isfinite(number) and number >= 0 else None


def recognises(text: str) -> bool:
    """Return whether the first line names a time column and a delay column."""
    names = {name.strip().lower() for name in text.split("\n", 1)[0].split(",")}
    return bool(names & set(TIMES)) and bool(names & {*ROUND_TRIPS, *UPLINKS})


DESCRIPTION = "a line per probe: timestamp and rtt, or uplink and downlink, in ms (LENS, irtt)"
FORMAT = Format("csv", DESCRIPTION, ("the CSV",), recognises, read, vague=1)
