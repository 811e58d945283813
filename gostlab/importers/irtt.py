"""irtt's JSON (`irtt client -o`): every probe with its round trip, or lost."""

from typing import Any

from gostlab.importers.base import Observed, Probe, UnreadableRecording, json_format


def read(document: Any) -> Observed:
    """Round trips and losses."""
    interval_s = document["config"]["params"]["interval"] / 1e9
    # sent when their numbers say
    probes = []
    for trip in document["round_trips"]:
        rtt_ms = None if str(trip["lost"]) != "false" else trip["delay"]["rtt"] / 1e6
        probes.append(Probe(trip["seqno"] * interval_s, rtt_ms))
    if not probes:
        raise UnreadableRecording("no round trips in it")
    said = "irtt's clocks need not agree: only its round trips are used, not its delays each way."
    return Observed(length_s=len(probes) * interval_s, probes=probes, assumptions=(said,))


SAYS = "irtt's JSON: round trips and losses"
FORMAT = json_format("irtt", SAYS, "what `irtt client -o` writes", ["round_trips"], read)
