"""What theory says a run gets: the shape that the search begins with, before it has seen any.

Only the shape matters: the lab's own runs say how far off it is, everywhere. Windows, loss and the
rate limit a connection, whichever is least; what else a run knows of (buffers, CPUs, memory) is
left to the runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gostlab.ask.flows import Flow
from gostlab.ask.response import cubic_throughput_bps, window_limit_bps
from gostlab.ask.run_description import RunDescription

SHARP = 4  # how sharply the least of several limits is the limit
LEAST_LOSS = 1e-9
HEADERS = 0.955  # of a rate, what is not headers
# BBR's published cliff: from a loss of about 20 % on it takes the path to be slower than it is.
BBR_CLIFF = 0.2
LEAST_BPS = 1e3


def theory_bps(run: RunDescription) -> float:
    """The goodput of a run's TCP flows together, as theory has it (RFC 9438, RFC 7323)."""
    way = run.path[run.data_direction]
    rtt_s = max(1e-3, sum(run.path[each]["delay_ms"] for each in run.path) / 1000)
    loss = min(0.5, mean_loss(way["loss"]))
    wanted_bps = sum(flow_bps(flow, rtt_s, loss) for flow in run.flows if flow.is_tcp)
    rate_bps = way["rate_bps"]
    limits = [wanted_bps, HEADERS * rate_bps] if rate_bps else [wanted_bps]
    return max(LEAST_BPS, least_of(limits))


def least_of(limits: list[float]) -> float:
    """About the least, without a kink where two are alike."""
    return float(sum(limit**-SHARP for limit in limits) ** (-1 / SHARP))


def flow_bps(flow: Flow, rtt_s: float, loss: float) -> float:
    """What the connections of a flow get together on a path of any rate."""
    limits = [1e12]
    if isinstance(flow.buffers, Mapping):
        # half of a receive buffer becomes window
        window = min(flow.buffers["rmem"][2] / 2, flow.buffers["wmem"][2])
        limits.append(window_limit_bps(window, rtt_s))
    if (flow.cc or "").startswith("bbr"):
        if loss > BBR_CLIFF:
            limits.append(1e6)
    else:
        limits.append(cubic_throughput_bps(max(LEAST_LOSS, loss), rtt_s))
    return flow.streams * (1 - loss) * least_of(limits)


def mean_loss(loss: Mapping[str, Any]) -> float:
    """The share of packets that a loss model loses."""
    if loss["model"] != "gemodel":
        return float(loss["p"])
    bad = loss["p"] / (loss["p"] + loss["r"]) if loss["p"] + loss["r"] else 0.0
    return float(bad * loss["one_minus_h"] + (1 - bad) * loss["one_minus_k"])
