# SPDX-License-Identifier: MIT
"""Parse irtt's JSON (`irtt client -o`): the RTT of each probe, or the direction of its loss."""

from typing import Any

from gostlab.importers.base import (
    DirectionRecording,
    Evidence,
    PathRecording,
    Probe,
    UnreadableRecording,
    json_format,
)

ARRIVED, LOST, LOST_UP, LOST_DOWN = "false", "true", "true_up", "true_down"


def read(document: Any) -> PathRecording:
    """Return RTTs, and losses by direction as the server's counter tells them apart."""
    interval_s = document["config"]["params"]["interval"] / 1e9
    forward, reverse, round_trips = [], [], []
    for trip in document["round_trips"]:
        # irtt sends at fixed intervals, so a probe's sequence number gives its send time.
        at_s, lost = trip["seqno"] * interval_s, str(trip["lost"]).lower()
        if lost not in (ARRIVED, LOST, LOST_UP, LOST_DOWN):
            raise UnreadableRecording(f"probe {trip['seqno']}: lost {lost!r} is unknown")
        if lost == LOST:
            round_trips.append(Probe(at_s, None, lost=True))
            continue
        forward.append(Probe(at_s, None, lost=lost == LOST_UP))
        if lost != LOST_UP:
            reverse.append(Probe(at_s, None, lost=lost == LOST_DOWN))
        if lost == ARRIVED:
            round_trips.append(Probe(at_s, trip["delay"]["rtt"] / 1e6))
    if not round_trips:
        raise UnreadableRecording("no round trip in it that came back")
    lost_up, lost_down = (sum(probe.lost for probe in probes) for probes in (forward, reverse))
    unknown = sum(probe.lost for probe in round_trips)
    evidence = [
        Evidence(f"{len(round_trips) - unknown} RTTs", "round_trips[].delay.rtt", "round trip"),
        Evidence(f"{lost_up} losses", "round_trips[].lost true_up", "forward"),
        Evidence(f"{lost_down} losses", "round_trips[].lost true_down", "reverse"),
    ]
    if unknown:
        evidence.append(Evidence(f"{unknown} losses", "round_trips[].lost true", "round trip"))
    return PathRecording(
        length_s=len(document["round_trips"]) * interval_s,
        forward=DirectionRecording(probes=forward),
        reverse=DirectionRecording(probes=reverse),
        round_trips=round_trips,
        evidence=tuple(evidence),
        left_out=("delay.send and delay.receive (the two clocks need not agree)",),
    )


DESCRIPTION = "irtt's JSON: round trips and losses"
FORMAT = json_format("irtt", DESCRIPTION, "what `irtt client -o` writes", ["round_trips"], read)
