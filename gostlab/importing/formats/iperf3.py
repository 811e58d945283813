"""iperf3's JSON (`iperf3 -J`): a rate and a round trip, from a TCP test's intervals."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from typing import Any

from gostlab.importing.seen import Format, Probe, Recording, Seen, Unreadable

# Of a full segment's frame as the lab's queues count it, what iperf3 counts: the rest is headers.
PAYLOAD_SHARE = 1448 / 1514
# What comes before is slow start, on any path that is not very long.
SKIP_S = 2.0


def read(recordings: Sequence[Recording]) -> Seen:
    """The median interval's rate, as it is on the wire, and the socket's round trips. Raises
    Unreadable.
    """
    recording = recordings[0]
    try:
        document = json.loads(recording.text)
        if document.get("error"):
            raise Unreadable(f"{recording.shown}: iperf3 failed: {document['error']}")
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
        length_s = float(intervals[-1]["sum"]["end"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise Unreadable(
            f"{recording.shown}: not what `iperf3 -J` writes ({type(error).__name__}: {error})"
        ) from None
    settled = [rate for at_s, rate in rates.items() if at_s >= SKIP_S] or list(rates.values())
    return Seen(
        length_s,
        rate_bps=round(statistics.median(settled) / PAYLOAD_SHARE),
        probes=probes,
        assumptions=(
            "The rate is what one TCP test got in its median second, with its headers: the path's"
            " own may be higher, if something else held that test back.",
            "The least smoothed round trip of the loaded socket stands for the idle path's: a queue"
            " that never emptied is in it.",
        ),
    )


def recognises(text: str) -> bool:
    """Whether it has iperf3's intervals."""
    return text.lstrip().startswith("{") and '"intervals"' in text and '"test_start"' in text


FORMAT = Format(
    "iperf3", "iperf3's JSON: a rate and an RTT", ("iperf3's output",), recognises, read
)
