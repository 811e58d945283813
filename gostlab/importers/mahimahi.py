"""Mahimahi's packet-delivery traces (mm-link(1)): a line for each packet that can be sent, with the
millisecond at which; the file begins anew after its last line.
"""

import re
from collections.abc import Sequence

from gostlab.importers.base import Format, Observed, Recording, UnreadableRecording

MAX_LINES = 5_000_000


def opportunities_s(recording: Recording) -> list[float]:
    """When each packet can be sent, seconds. Raises Unreadable."""
    times: list[float] = []
    latest_ms = 0
    for number, line in enumerate(recording.text.splitlines(), 1):
        where = f"{recording.shown}:{number}"
        if number > MAX_LINES:
            raise UnreadableRecording(f"{recording.shown}: more than {MAX_LINES} lines")
        if not re.fullmatch(r"\s*[0-9]{1,10}\s*", line):
            raise UnreadableRecording(
                f"{where}: {line.strip()[:40]!r} is not a whole number of milliseconds"
            )
        at_ms = int(line)
        if at_ms < latest_ms:
            raise UnreadableRecording(f"{where}: {at_ms} ms after {latest_ms} ms: times fall")
        latest_ms = at_ms
        times.append(at_ms / 1000)
    if not times or not latest_ms:
        raise UnreadableRecording(f"{recording.shown}: no time above 0 ms in it")
    return times


def read(recordings: Sequence[Recording]) -> Observed:
    """The capacity that a trace says. Raises Unreadable."""
    times = opportunities_s(recordings[0])
    said = "The recording says when 1500-byte packets could be sent, nothing of delay or loss."
    return Observed(length_s=times[-1], sendable_s=times, assumptions=(said,))


def recognises(text: str) -> bool:
    """Whether the first lines are whole numbers that do not fall."""
    lines = text.split("\n", 50)[:50]
    numbers = [int(line) for line in lines if re.fullmatch(r"\s*[0-9]{1,10}\s*", line)]
    return len(numbers) >= len(lines) - 1 > 0 and numbers == sorted(numbers)


SAYS = "a millisecond for each 1500-byte packet that can be sent"
FORMAT = Format("mahimahi", SAYS, ("the trace",), recognises, read, vague=3)
