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

from gostlab.importers.base import Format, Observed, Probe, Recording, UnreadableRecording

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
    at, up, down, rtt = (
        next((columns[name] for name in names if name in columns), None)
        for names in (TIMES, UPLINKS, DOWNLINKS, ROUND_TRIPS)
    )
    if at is None:
        raise UnreadableRecording(f"{recording.shown}:1: no column {' or '.join(TIMES)}")
    if rtt is None and None in (up, down):
        raise UnreadableRecording(
            f"{recording.shown}:1: no column rtt, nor both uplink and downlink"
        )
    lines = {f"{recording.shown}:{number}": row for number, row in enumerate(rows, 2)}
    times = [time_s(row[at], where) for where, row in lines.items()]
    if not times:
        raise UnreadableRecording(f"{recording.shown}: no rows below its header")
    begin_s = times[0]
    if any(later < sooner for sooner, later in itertools.pairwise(times)):
        raise UnreadableRecording(f"{recording.shown}: its times fall")

    def probes(name: str) -> list[Probe]:
        return [
            Probe(time - begin_s, delay_ms(row, name, where))
            for time, (where, row) in zip(times, lines.items(), strict=True)
        ]

    length_s = (times[-1] - begin_s) * len(times) / max(1, len(times) - 1)
    if up and down:
        return Observed(length_s, probes=probes(up), one_way=True, reverse_probes=probes(down))
    assert rtt is not None
    return Observed(length_s, probes=probes(rtt))


def time_s(text: str | None, where: str) -> float:
    """A timestamp as seconds. Raises Unreadable."""
    try:
        number = float(text or "")
    except ValueError:
        try:
            return datetime.fromisoformat((text or "").strip().replace("Z", "+00:00")).timestamp()
        except ValueError:
            raise UnreadableRecording(f"{where}: {str(text)[:40]!r} is not a time") from None
    if not math.isfinite(number) or number < 0:
        raise UnreadableRecording(f"{where}: {str(text)[:40]!r} is not a time")
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
        raise UnreadableRecording(
            f"{where}: {name} {text[:40]!r} is not a number of milliseconds"
        ) from None
    return number if math.isfinite(number) and number >= 0 else None


def recognises(text: str) -> bool:
    """Whether its first line names a time and a delay."""
    names = {name.strip().lower() for name in text.split("\n", 1)[0].split(",")}
    return bool(names & set(TIMES)) and bool(names & {*ROUND_TRIPS, *UPLINKS})


SAYS = "a line per probe: timestamp and rtt, or uplink and downlink, in ms (LENS, irtt)"
FORMAT = Format("csv", SAYS, ("the CSV",), recognises, read, vague=1)
