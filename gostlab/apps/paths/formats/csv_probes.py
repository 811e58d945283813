"""CSV with a line for each probe: LENS's Starlink and OneWeb recordings (timestamp, rtt, uplink,
downlink, about every 10 ms) and irtt's as people write them down.

Delays are milliseconds; a probe without a number, or with one below 0, was lost. A timestamp is ISO
8601, or a number of seconds, milliseconds, microseconds or nanoseconds, whichever its size says.
"""

import csv
import itertools
import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from gostlab.apps.paths.recordings import Format, Observed, Probe, Recording, Unreadable

TIMES = ("timestamp", "time", "time_s", "t")
ROUND_TRIPS = ("rtt", "rtt_ms")
UPLINKS, DOWNLINKS = ("uplink", "uplink_ms", "send"), ("downlink", "downlink_ms", "receive")
# A time since 1970 has at least so many seconds; what has a thousand times as many is in ms, and so
# on.
SINCE_1970_S = 1e9
UNITS = (1.0, 1e3, 1e6, 1e9)


def read(recordings: Sequence[Recording]) -> Observed:
    """Delays and losses; one way each where both were told apart. Raises Unreadable."""
    recording = recordings[0]
    rows = csv.DictReader(recording.text.splitlines())
    columns = {name.strip().lower(): name for name in rows.fieldnames or ()}
    at = column(columns, TIMES, recording)
    both = [find(columns, names) for names in (UPLINKS, DOWNLINKS)]
    rtt = find(columns, ROUND_TRIPS)
    if rtt is None and None in both:
        raise Unreadable(f"{recording.shown}:1: no column rtt, nor both uplink and downlink")
    times, numbers = [], []
    for number, row in enumerate(rows, 2):
        where = f"{recording.shown}:{number}"
        times.append(time_s(row[at], where))
        numbers.append(row)
    if not times:
        raise Unreadable(f"{recording.shown}: no rows below its header")
    begin_s = times[0]
    if any(later < sooner for sooner, later in itertools.pairwise(times)):
        raise Unreadable(f"{recording.shown}: its times fall")

    def probes(name: str) -> list[Probe]:
        return [
            Probe(time - begin_s, delay_ms(row, name, f"{recording.shown}:{line}"))
            for line, (time, row) in enumerate(zip(times, numbers, strict=True), 2)
        ]

    length_s = (times[-1] - begin_s) * len(times) / max(1, len(times) - 1)
    if both[0] and both[1]:
        return Observed(
            length_s, probes=probes(both[0]), one_way=True, reverse_probes=probes(both[1])
        )
    assert rtt is not None
    return Observed(length_s, probes=probes(rtt))


def find(columns: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The first of some columns that is there, as the file writes it."""
    return next((columns[name] for name in names if name in columns), None)


def column(columns: Mapping[str, str], names: Sequence[str], recording: Recording) -> str:
    """A column that must be there. Raises Unreadable."""
    found = find(columns, names)
    if found is None:
        raise Unreadable(f"{recording.shown}:1: no column {' or '.join(names)}")
    return found


def time_s(text: str | None, where: str) -> float:
    """A timestamp as seconds. Raises Unreadable."""
    try:
        number = float(text or "")
    except ValueError:
        try:
            return datetime.fromisoformat((text or "").strip().replace("Z", "+00:00")).timestamp()
        except ValueError:
            raise Unreadable(f"{where}: {str(text)[:40]!r} is not a time") from None
    if not math.isfinite(number) or number < 0:
        raise Unreadable(f"{where}: {str(text)[:40]!r} is not a time")
    for unit in reversed(UNITS):
        if number >= SINCE_1970_S * unit:
            return number / unit
    return number


def delay_ms(row: Mapping[str, str | None], name: str, where: str) -> float | None:
    """A delay; None: lost. Raises Unreadable."""
    text = (row[name] or "").strip()
    if text.lower() in ("", "nan", "none", "null", "lost", "inf"):
        return None
    try:
        number = float(text)
    except ValueError:
        raise Unreadable(f"{where}: {name} {text[:40]!r} is not a number of milliseconds") from None
    return number if math.isfinite(number) and number >= 0 else None


def recognises(text: str) -> bool:
    """Whether its first line names a time and a delay."""
    names = {name.strip().lower() for name in text.split("\n", 1)[0].split(",")}
    return bool(names & set(TIMES)) and bool(names & {*ROUND_TRIPS, *UPLINKS})


FORMAT = Format(
    "csv",
    "a line per probe: timestamp and rtt, or uplink and downlink, in ms (LENS, irtt)",
    ("the CSV",),
    recognises,
    read,
    vague=1,
)
