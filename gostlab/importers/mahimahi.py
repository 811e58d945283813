"""Parse Mahimahi's packet-delivery traces (mm-link(1)).

Each line is the millisecond at which one packet can be sent. The file is repeated after its last
line.
"""

import re
from collections.abc import Sequence

from gostlab.importers.base import Format, Observed, Recording, UnreadableRecording

MAX_LINES = 5_000_000


def delivery_times_s(recording: Recording) -> list[float]:
    """Return the times at which packets can be sent, in seconds. Raises UnreadableRecording."""
    times_s: list[float] = []
    latest_ms = 0
    for number, line in enumerate(recording.text.splitlines(), 1):
        position = f"{recording.label}:{number}"
        if number > MAX_LINES:
            raise UnreadableRecording(f"{recording.label}: more than {MAX_LINES} lines")
        if not re.fullmatch(r"\s*[0-9]{1,10}\s*", line):
            raise UnreadableRecording(
                f"{position}: {line.strip()[:40]!r} is not a whole number of milliseconds"
            )
        at_ms = int(line)
        if at_ms < latest_ms:
            raise UnreadableRecording(f"{position}: {at_ms} ms after {latest_ms} ms: times fall")
        latest_ms = at_ms
        times_s.append(at_ms / 1000)
    if not times_s or not latest_ms:
        raise UnreadableRecording(f"{recording.label}: no time above 0 ms in it")
    return times_s


def read(recordings: Sequence[Recording]) -> Observed:
    """Return the capacity of a trace. Raises UnreadableRecording."""
    times_s = delivery_times_s(recordings[0])
    assumption = (
        "The recording says when 1500-byte packets could be sent, nothing of delay or loss."
    )
    return Observed(length_s=times_s[-1], sendable_s=times_s, assumptions=(assumption,))


def recognises(text: str) -> bool:
    """Return whether the first lines are integers in ascending order."""
    lines = text.split("\n", 50)[:50]
    numbers = [int(line) for line in lines if re.fullmatch(r"\s*[0-9]{1,10}\s*", line)]
    return len(numbers) >= len(lines) - 1 > 0 and numbers == sorted(numbers)


DESCRIPTION = "a millisecond for each 1500-byte packet that can be sent"
FORMAT = Format("mahimahi", DESCRIPTION, ("the trace",), recognises, read, vague=3)
