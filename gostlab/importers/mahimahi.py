# SPDX-License-Identifier: MIT
"""Parse Mahimahi's packet-delivery traces (mm-link(1)): one of a direction, or one of each.

Each line is the millisecond at which one packet can be sent. The file is repeated after its last
line: a packet at 0 ms is sent when the period before ends.
"""

import re
from collections.abc import Sequence

from gostlab.importers.base import (
    DirectionRecording,
    Evidence,
    ImportFormat,
    PathRecording,
    Recording,
    UnreadableRecording,
)

MAX_LINES = 5_000_000
DIRECTION_WORDS = {"up": "forward", "uplink": "forward", "down": "reverse", "downlink": "reverse"}


def delivery_times_s(recording: Recording) -> list[float]:
    """Return when packets can be sent, in (0, last], in seconds. Raises UnreadableRecording."""
    times_ms: list[int] = []
    for number, line in enumerate(recording.text.splitlines(), 1):
        position = f"{recording.label}:{number}"
        if number > MAX_LINES:
            raise UnreadableRecording(f"{recording.label}: more than {MAX_LINES} lines")
        if not re.fullmatch(r"\s*[0-9]{1,10}\s*", line):
            raise UnreadableRecording(
                f"{position}: {line.strip()[:40]!r} is not a whole number of milliseconds"
            )
        at_ms = int(line)
        if times_ms and at_ms < times_ms[-1]:
            raise UnreadableRecording(f"{position}: {at_ms} ms after {times_ms[-1]} ms: times fall")
        times_ms.append(at_ms)
    if not times_ms or not times_ms[-1]:
        raise UnreadableRecording(f"{recording.label}: no time above 0 ms in it")
    at_zero = times_ms.count(0)
    return [at_ms / 1000 for at_ms in [*times_ms[at_zero:], *times_ms[-1:] * at_zero]]


def file_direction(label: str) -> str | None:
    """Return the direction that a file's name tells: ATT-LTE-driving.up is forward."""
    label_words = re.split(r"[^a-z]+", label.rpartition("/")[2].lower())
    directions = {DIRECTION_WORDS[word] for word in label_words if word in DIRECTION_WORDS}
    return directions.pop() if len(directions) == 1 else None


def read(recordings: Sequence[Recording]) -> PathRecording:
    """Return the capacity of one trace, or one per direction. Raises UnreadableRecording."""
    ordered = list(recordings)
    if len(recordings) == 2 and file_direction(recordings[0].label) == "reverse":
        ordered.reverse()
    directions, evidence = [], []
    for recording, direction in zip(ordered, ("forward", "reverse"), strict=False):
        times_s = delivery_times_s(recording)
        directions.append(DirectionRecording(sendable_s=times_s, period_s=times_s[-1]))
        name = recording.label.rpartition("/")[2]
        evidence.append(
            Evidence(f"{len(times_s)} packets of 1500 bytes in {times_s[-1]:g} s", name, direction)
        )
    return PathRecording(
        length_s=max(one.sendable_s[-1] for one in directions),
        forward=directions[0],
        reverse=directions[1] if len(directions) > 1 else DirectionRecording(),
        evidence=tuple(evidence),
        left_out=("nothing (the file has neither delay nor loss)",),
    )


def recognises(text: str) -> bool:
    """Return whether the first lines are integers in ascending order."""
    lines = text.splitlines()[:50]
    numbers = [int(line) for line in lines if re.fullmatch(r"\s*[0-9]{1,10}\s*", line)]
    return len(numbers) == len(lines) > 0 and numbers == sorted(numbers)


DESCRIPTION = "a millisecond for each 1500-byte packet that can be sent, up, or up and down"
FILES = ("the trace, or the upload's", "the download's")
FORMAT = ImportFormat("mahimahi", DESCRIPTION, FILES, recognises, read, vague=3, optional_files=1)
