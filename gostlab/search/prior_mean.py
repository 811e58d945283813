"""What theory says a run gets: the shape that the search begins with, before it has seen any.

Only the shape matters: the lab's own runs say how far off it is, everywhere. Windows, loss and the
rate limit a connection, whichever is least; what else a run knows of (buffers, CPUs, memory) is
left to the runs.
"""

from dataclasses import astuple, dataclass
from statistics import mean

from gostlab.analysis.load.run_json import mean_loss
from gostlab.spec.flow import FlowSpec
from gostlab.spec.flow_windows import flow_windows
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.response import cubic_throughput_bps, window_limit_bps

SHARP = 4  # how sharply the least of several limits is the limit
MIN_LOSS = 1e-9
HEADERS = 0.955  # of a rate, what is not headers
# BBR's published cliff: from a loss of about 20 % on it takes the path to be slower than it is.
BBR_CLIFF = 0.2
MIN_BPS = 1e3


@dataclass(frozen=True)
class Limits:
    """What theory looks at in a run."""

    rate_bps: int | None
    loss: float  # of all packets, 0 to 1
    rtt_s: float
    flows: tuple[FlowSpec, ...]
    windows_bytes: tuple[float, ...]  # of each flow: what its buffers allow, all streams together

    @property
    def goodput_bps(self) -> float:
        """What the TCP flows get together, as theory has it (RFC 9438, RFC 7323)."""
        loss = min(0.5, self.loss)
        wanted_bps = sum(
            flow_bps(flow, window_bytes, self.rtt_s, loss)
            for flow, window_bytes in zip(self.flows, self.windows_bytes, strict=True)
            if flow.is_tcp
        )
        limits = [wanted_bps, HEADERS * self.rate_bps] if self.rate_bps else [wanted_bps]
        return max(MIN_BPS, least_of(limits))


def limits_of(run: RunSpec) -> Limits:
    way = run.path[run.data_direction]
    rtt_s = max(1e-3, sum(run.path[each]["delay_ms"] for each in run.path) / 1000)
    return Limits(
        rate_bps=way["rate_bps"],
        loss=mean_loss(way["loss"]),
        rtt_s=rtt_s,
        flows=tuple(run.flows),
        windows_bytes=tuple(mean(astuple(flow_windows(run, flow))) for flow in run.flows),
    )


def least_of(limits: list[float]) -> float:
    """About the least, without a kink where two are alike."""
    return float(sum(limit**-SHARP for limit in limits) ** (-1 / SHARP))


def flow_bps(flow: FlowSpec, window_bytes: float, rtt_s: float, loss: float) -> float:
    """What the connections of a flow get together on a path of any rate."""
    limits = [min(1e12, window_limit_bps(window_bytes / flow.streams, rtt_s))]
    if (flow.cc or "").startswith("bbr"):
        if loss > BBR_CLIFF:
            limits.append(1e6)
    else:
        limits.append(cubic_throughput_bps(max(MIN_LOSS, loss), rtt_s))
    return flow.streams * (1 - loss) * least_of(limits)
