"""LeoReplayer's pairs (LeoCC, SIGCOMM 2025): a capacity trace like Mahimahi's, each stamp 12 Mbit/s
for its millisecond, and the one-way delay of every 10 ms, a line each.
"""

import re
from collections.abc import Sequence

from gostlab.importers.base import Format, Observed, Probe, Recording, UnreadableRecording
from gostlab.importers.mahimahi import opportunities_s

DELAY_EVERY_S = 0.010


def read(recordings: Sequence[Recording]) -> Observed:
    """The capacity and one-way delay that a pair says. Raises Unreadable."""
    times, delays = opportunities_s(recordings[0]), recordings[1]
    probes = []
    for number, line in enumerate(delays.text.splitlines(), 1):
        if not re.fullmatch(r"\s*[0-9]{1,6}(\.[0-9]{1,9})?\s*", line):
            raise UnreadableRecording(
                f"{delays.shown}:{number}: {line.strip()[:40]!r} is not a delay in milliseconds"
            )
        probes.append(Probe((number - 1) * DELAY_EVERY_S, float(line)))
    if not probes:
        raise UnreadableRecording(f"{delays.shown}: no delays in it")
    length_s = min(times[-1], len(probes) * DELAY_EVERY_S)
    said = ("The recording says capacity and one-way delay, and nothing of loss.",)
    return Observed(length_s, sendable_s=times, probes=probes, one_way=True, assumptions=said)


SAYS = "a millisecond for each 12 Mbit/s of capacity, and a delay for every 10 ms"
FILES = ("the capacity", "the delays")
# Its first file is Mahimahi's: two files are what tells.
FORMAT = Format("leoreplayer", SAYS, FILES, lambda _text: False, read, vague=2)
