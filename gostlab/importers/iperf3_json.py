"""Parse iperf3's JSON (`iperf3 -J`): a rate and RTTs from the intervals of a TCP test."""

import statistics
from typing import Any

from gostlab.importers.base import Observed, Probe, UnreadableRecording, json_format

# iperf3 counts 1448 bytes of payload in a full-sized segment's frame of 1514 bytes, which the
# emulated queues count; the rest is headers.
PAYLOAD_SHARE = 1448 / 1514
# The first seconds are slow start, on any path whose RTT is not very long.
SKIP_S = 2.0


def read(document: Any) -> Observed:
    """Return the median rate of the intervals, on the wire, and the RTTs."""
    if document.get("error"):
        raise UnreadableRecording(f"iperf3 failed: {document['error']}")
    intervals: list[dict[str, Any]] = document["intervals"]
    rates = {
        float(interval["sum"]["start"]): float(interval["sum"]["bits_per_second"])
        for interval in intervals
    }
    probes = [
        Probe(float(stream["start"]), stream["rtt"] / 1000)
        for interval in intervals
        for stream in interval["streams"][:1]
        if stream.get("rtt")
    ]
    retransmitted = sum(interval["sum"].get("retransmits", 0) for interval in intervals)
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


DESCRIPTION, KEYS = "iperf3's JSON: a rate and an RTT", ["intervals", "test_start"]
FORMAT = json_format("iperf3", DESCRIPTION, "what `iperf3 -J` writes", KEYS, read)
