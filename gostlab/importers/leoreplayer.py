# SPDX-License-Identifier: MIT
"""Parse LeoReplayer's pairs of files (LeoCC, SIGCOMM 2025).

The first file is a capacity trace like Mahimahi's, in which each timestamp is 12 Mbit/s for its
millisecond. The second has the one-way delay of every 10 ms, one per line.
"""

import re
from collections.abc import Sequence

from gostlab.importers.base import (
    DirectionRecording,
    Evidence,
    ImportFormat,
    PathRecording,
    Probe,
    Recording,
    UnreadableRecording,
)
from gostlab.importers.mahimahi import delivery_times_s

DELAY_INTERVAL_S = 0.010
MAX_DELAY_MS = 10_000


def read(recordings: Sequence[Recording]) -> PathRecording:
    """Return the capacity and the one-way delays of a pair. Raises UnreadableRecording."""
    times_s, delays = delivery_times_s(recordings[0]), recordings[1]
    probes = []
    for number, line in enumerate(delays.text.splitlines(), 1):
        if not re.fullmatch(r"\s*[0-9]{1,6}(\.[0-9]{1,9})?\s*", line):
            raise UnreadableRecording(
                f"{delays.label}:{number}: {line.strip()[:40]!r} is not a delay in milliseconds"
            )
        if float(line) > MAX_DELAY_MS:
            raise UnreadableRecording(
                f"{delays.label}:{number}: {line.strip()} ms is more than a path's delay"
                f" ({MAX_DELAY_MS} ms): is it a delivery trace (--format mahimahi)?"
            )
        probes.append(Probe((number - 1) * DELAY_INTERVAL_S, float(line)))
    if not probes:
        raise UnreadableRecording(f"{delays.label}: no delays in it")
    delays_s = len(probes) * DELAY_INTERVAL_S
    # Both files are of one recording: they begin again together, when the shorter one ends.
    length_s = min(times_s[-1], delays_s)
    excess_s = max(times_s[-1], delays_s) - length_s
    longer = "capacity" if times_s[-1] > delays_s else "delays"
    capacity, delay = (one.label.rpartition("/")[2] for one in recordings)
    return PathRecording(
        length_s,
        forward=DirectionRecording(
            sendable_s=[at_s for at_s in times_s if at_s <= length_s + 1e-9],
            probes=[probe for probe in probes if probe.at_s < length_s - 1e-9],
        ),
        evidence=(
            Evidence(f"capacity of {length_s:g} s", capacity, "forward"),
            Evidence(f"one-way delays of {length_s:g} s", delay, "forward"),
        ),
        left_out=(
            f"the last {excess_s:g} s of the {longer} (the other file is shorter)"
            if excess_s > 1e-9
            else "nothing (the files have no loss)",
        ),
    )


DESCRIPTION = "a millisecond for each 12 Mbit/s of capacity, and a delay for every 10 ms"
FILES = ("the capacity", "the delays")
# The first file looks like one of Mahimahi's, so only the number of files identifies this format.
FORMAT = ImportFormat("leoreplayer", DESCRIPTION, FILES, lambda _text: False, read, vague=2)
