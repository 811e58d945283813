"""Parse Flent's data files (.flent, .flent.gz): a rate and an RTT from its series."""

import math
import statistics
from collections.abc import Mapping
from typing import Any

from gostlab.importers.base import Observed, Probe, UnreadableRecording, json_format
from gostlab.importers.iperf3_json import PAYLOAD_SHARE

TOTALS = ("TCP totals", "TCP upload sum", "TCP download sum")


def read(document: Any) -> Observed:
    """Return the median rate of the TCP series, on the wire, and the probes of the ping series."""
    times = [float(at_s) for at_s in document["x_values"]]
    series: Mapping[str, list[Any]] = document["results"]
    pings = next((name for name in series if name.lower().startswith("ping")), None)
    load = select_rate_series(series)
    rates = [float(rate) for rate in (series[load] if load else ()) if rate]
    probes = [
        Probe(at_s, float(rtt))
        for at_s, rtt in zip(times, series[pings] if pings else (), strict=False)
        if rtt is not None and math.isfinite(float(rtt))
    ]
    if not rates and not probes:
        raise UnreadableRecording("neither a TCP series nor a ping series in it")
    assumptions = [
        f"Of the series in the file, {load or 'no rate'} and {pings or 'no ping'} are used."
    ]
    if rates:
        assumptions.append(
            "The rate is the median of what TCP got, with its headers: the path's own may be"
            " higher."
        )
    return Observed(
        length_s=times[-1],
        rate_bps=round(1e6 * statistics.median(rates) / PAYLOAD_SHARE) if rates else None,
        probes=probes,
        assumptions=tuple(assumptions),
    )


def select_rate_series(series: Mapping[str, Any]) -> str | None:
    """Return the name of the series used as the path's rate: a total if there is one."""
    names = [name for name in series if name.startswith("TCP")]
    return next((name for name in TOTALS if name in names), names[0] if names else None)


DESCRIPTION, KEYS = "Flent's data file: a rate and an RTT", ["x_values", "results"]
FORMAT = json_format("flent", DESCRIPTION, "one of Flent's data files", KEYS, read)
