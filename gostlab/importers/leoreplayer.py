"""Parse LeoReplayer's pairs of files (LeoCC, SIGCOMM 2025).

The first file is a capacity trace like Mahimahi's, in which each timestamp is 12 Mbit/s for its
millisecond. The second has the one-way delay of every 10 ms, one per line.
"""

import re
from collections.abc import Sequence

from gostlab.importers.base import Format, Observed, Probe, Recording, UnreadableRecording
from gostlab.importers.mahimahi import delivery_times_s

DELAY_INTERVAL_S = 0.010


def read(recordings: Sequence[Recording]) -> Observed:
    """Return the capacity and the one-way delays of a pair. Raises UnreadableRecording."""
    times_s, delays = delivery_times_s(recordings[0]), recordings[1]
    probes = []
    for number, line in enumerate(delays.text.splitlines(), 1):
        if not re.fullmatch(r"\s*[0-9]{1,6}(\.[0-9]{1,9})?\s*", line):
            raise UnreadableRecording(
                f"{delays.label}:{number}: {line.strip()[:40]!r} is not a delay in milliseconds"
            )
        probes.append(Probe((number - 1) * DELAY_INTERVAL_S, float(line)))
    if not probes:
        raise UnreadableRecording(f"{delays.label}: no delays in it")
    length_s = min(times_s[-1], len(probes) * DELAY_INTERVAL_S)
    assumptions = ("The recording says capacity and one-way delay, and nothing of loss.",)
    return Observed(
        length_s, sendable_s=times_s, probes=probes, one_way=True, assumptions=assumptions
    )


DESCRIPTION = "a millisecond for each 12 Mbit/s of capacity, and a delay for every 10 ms"
FILES = ("the capacity", "the delays")
# The first file looks like one of Mahimahi's, so only the number of files identifies this format.
FORMAT = Format("leoreplayer", DESCRIPTION, FILES, lambda _text: False, read, vague=2)
