"""Parse irtt's JSON (`irtt client -o`): the RTT of each probe, or its loss."""

from typing import Any

from gostlab.importers.base import Observed, Probe, UnreadableRecording, json_format


def read(document: Any) -> Observed:
    """Return RTTs and losses."""
    interval_s = document["config"]["params"]["interval"] / 1e9
    # irtt sends at fixed intervals, so a probe's sequence number gives its send time.
    probes = []
    for trip in document["round_trips"]:
        rtt_ms = None if str(trip["lost"]) != "false" else trip["delay"]["rtt"] / 1e6
        probes.append(Probe(trip["seqno"] * interval_s, rtt_ms))
    if not probes:
        raise UnreadableRecording("no round trips in it")
    assumption = (
        "irtt's clocks need not agree: only its round trips are used, not its delays each way."
    )
    return Observed(length_s=len(probes) * interval_s, probes=probes, assumptions=(assumption,))


DESCRIPTION = "irtt's JSON: round trips and losses"
FORMAT = json_format("irtt", DESCRIPTION, "what `irtt client -o` writes", ["round_trips"], read)
