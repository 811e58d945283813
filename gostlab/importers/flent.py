# SPDX-License-Identifier: MIT
"""Parse Flent's data files (.flent, .flent.gz): a rate of each direction and an RTT."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gostlab.importers.base import (
    DirectionRecording,
    Evidence,
    PathRecording,
    UnreadableRecording,
    json_format,
    rate_evidence,
    wire_bps,
)

# Series that sum up others of their direction.
SUMMARIES = ("avg", "sum", "totals")
PINGS = ("Ping (ms) ICMP", "Ping (ms) avg")
LISTED = 6


def read(document: Any) -> PathRecording:
    """Return the median rate of each direction's TCP flows, and the minimum of a ping series."""
    times = [float(at_s) for at_s in document["x_values"]]
    series: Mapping[str, list[Any]] = document["results"]
    evidence, used, directions = [], set[str](), {}
    for direction, word in (("forward", "upload"), ("reverse", "download")):
        names = flows_of(series, word)
        flows = [[number(value) for value in series[name]] for name in names]
        sums = [sum(rates) for rates in zip(*flows, strict=True)]
        payload_bps = [1e6 * rate for rate in sums if math.isfinite(rate)]
        used |= set(names)
        directions[direction] = DirectionRecording()
        if payload_bps:
            median_bps = statistics.median(payload_bps)
            directions[direction] = DirectionRecording(rate_bps=wire_bps(median_bps))
            field = f'"{names[0]}"' if len(names) == 1 else f'the sum of {len(names)} "TCP {word}"'
            # netperf's client counts what it wrote into its socket, or read from it.
            end = f"median {'sent' if word == 'upload' else 'received'} by the client"
            evidence.append(rate_evidence(median_bps, f"series {field}", direction, end))
    ping = next((name for name in PINGS if name in series), None) or next(
        (name for name in series if name.startswith("Ping (ms)")), None
    )
    rtts_ms = [rtt for rtt in map(number, series[ping] if ping else ()) if math.isfinite(rtt)]
    if ping and rtts_ms:
        used.add(ping)
        evidence.append(
            Evidence(f"RTT {min(rtts_ms):g} ms", f'series "{ping}"', "round trip", "minimum")
        )
    if not evidence:
        raise UnreadableRecording("neither a TCP series nor a ping series in it")
    others = sorted(f'"{name}"' for name in series if name not in used)
    more = f" and {len(others) - LISTED} more" if len(others) > LISTED else ""
    return PathRecording(
        length_s=times[-1],
        forward=directions["forward"],
        reverse=directions["reverse"],
        rtt_ms=min(rtts_ms) if rtts_ms else None,
        evidence=tuple(evidence),
        left_out=(
            "the RTT under load (queues)",
            *([f"series {', '.join(others[:LISTED])}{more}"] if others else []),
        ),
        assumptions=(
            ("The rate is what TCP got: the path's own may be higher.",)
            if any(one.rate_bps for one in directions.values())
            else ()
        ),
    )


def flows_of(series: Mapping[str, object], word: str) -> Sequence[str]:
    """Return the series of a direction's flows, or the only one that Flent has of its sum.

    "TCP upload", "TCP upload BE", "TCP upload::1" are flows; "TCP upload sum" is their sum.
    """
    # "TCP upload::tcp_cwnd" is a state of a flow's socket.
    names = [name for name in series if name.startswith(f"TCP {word}") and "::tcp_" not in name]
    if f"TCP {word} sum" in names:
        return [f"TCP {word} sum"]
    return [name for name in names if name.rpartition(" ")[2] not in SUMMARIES]


def number(value: Any) -> float:
    """Return a series' value, NaN where it has none."""
    return math.nan if value is None else float(value)


DESCRIPTION = "Flent's data file: a rate of each direction and an RTT"
KEYS = ["x_values", "results"]
FORMAT = json_format("flent", DESCRIPTION, "one of Flent's data files", KEYS, read)
