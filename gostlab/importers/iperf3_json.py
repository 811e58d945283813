"""iperf3's JSON (`iperf3 -J`): a rate and a round trip, from a TCP test's intervals."""

import statistics
from typing import Any

from gostlab.importers.base import Observed, Probe, UnreadableRecording, json_format

# Of a full segment's frame as the lab's queues count it, what iperf3 counts: the rest is headers.
PAYLOAD_SHARE = 1448 / 1514
# What comes before is slow start, on any path that is not very long.
SKIP_S = 2.0


def read(document: Any) -> Observed:
    """The median interval's rate, on the wire, and the round trips."""
    if document.get("error"):
        raise UnreadableRecording(f"iperf3 failed: {document['error']}")
    intervals: list[dict[str, Any]] = document["intervals"]
    rates = {
        float(each["sum"]["start"]): float(each["sum"]["bits_per_second"]) for each in intervals
    }
    probes = [
        Probe(float(stream["start"]), stream["rtt"] / 1000)
        for each in intervals
        for stream in each["streams"][:1]
        if stream.get("rtt")
    ]
    retransmitted = sum(each["sum"].get("retransmits", 0) for each in intervals)
    steady = [rate for at_s, rate in rates.items() if at_s >= SKIP_S] or list(rates.values())
    return Observed(
        length_s=float(intervals[-1]["sum"]["end"]),
        rate_bps=round(statistics.median(steady) / PAYLOAD_SHARE),
        probes=probes,
        assumptions=(
            "The rate is what one TCP test got in its median second, with its headers: the path's"
            " own may be higher, if something else held that test back.",
            "The least smoothed round trip of the loaded socket stands for the idle path's: a queue"
            " that never emptied is in it.",
            *(
                [
                    f"No loss, though {retransmitted} segments were retransmitted: the recording"
                    " does not say whether a full queue or the line lost them (write the line's"
                    " into loss)."
                ]
                if retransmitted
                else []
            ),
        ),
    )


SAYS, KEYS = "iperf3's JSON: a rate and an RTT", ["intervals", "test_start"]
FORMAT = json_format("iperf3", SAYS, "what `iperf3 -J` writes", KEYS, read)
