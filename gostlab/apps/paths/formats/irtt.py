"""irtt's JSON (`irtt client -o`): every probe with its round trip, or lost."""

import json
from collections.abc import Sequence

from gostlab.apps.paths.recordings import Format, Observed, Probe, Recording, Unreadable, readable


def read(recordings: Sequence[Recording]) -> Observed:
    """Round trips and losses. Raises Unreadable."""
    recording = recordings[0]
    with readable(recording, "what `irtt client -o` writes"):
        document = json.loads(recording.text)
        interval_s = document["config"]["params"]["interval"] / 1e9
        # sent when their numbers say
        probes = []
        for trip in document["round_trips"]:
            rtt_ms = None if str(trip["lost"]) != "false" else trip["delay"]["rtt"] / 1e6
            probes.append(Probe(trip["seqno"] * interval_s, rtt_ms))
    if not probes:
        raise Unreadable(f"{recording.shown}: no round trips in it")
    said = "irtt's clocks need not agree: only its round trips are used, not its delays each way."
    return Observed(length_s=len(probes) * interval_s, probes=probes, assumptions=(said,))


def recognises(text: str) -> bool:
    """Whether it says round_trips near its end or begin."""
    return text.lstrip().startswith("{") and '"round_trips"' in text


FORMAT = Format("irtt", "irtt's JSON: round trips and losses", ("irtt's output",), recognises, read)
