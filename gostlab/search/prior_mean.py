# SPDX-License-Identifier: MIT
"""Predict the goodput of a run by theory, as the prior mean of the search.

Only the shape matters: the lab's runs determine a constant correction. The minimum of window, loss
and rate limits a connection; the effect of other settings (buffers, CPUs, memory) is learnt from
the runs.
"""

from dataclasses import astuple, dataclass
from statistics import mean

from gostlab.analysis.load.run_json import mean_loss
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.tcp_windows import flow_windows
from gostlab.tcpmodel.response_functions import cubic_throughput_bps, window_limit_bps

SHARP = 4  # sharpness of the soft minimum of several limits
MIN_LOSS = 1e-9
HEADERS = 0.955  # payload share of a rate
# Above a loss of about 20 % BBR underestimates the bandwidth (published cliff).
BBR_CLIFF = 0.2
MIN_BPS = 1e3


@dataclass(frozen=True)
class TheoryInputs:
    """The parameters of a run that the theory uses."""

    rate_bps: int | None
    loss: float  # loss rate of all packets, 0 to 1
    rtt_s: float
    flows: tuple[FlowSpec, ...]
    # Each value is the sum of the windows that the buffers allow to a flow's streams.
    windows_bytes: tuple[float, ...]

    @property
    def goodput_bps(self) -> float:
        """Return the total goodput of the TCP flows in theory (RFC 9438, RFC 7323)."""
        loss = min(0.5, self.loss)
        wanted_bps = sum(
            flow_bps(flow, window_bytes, self.rtt_s, loss)
            for flow, window_bytes in zip(self.flows, self.windows_bytes, strict=True)
            if flow.is_tcp
        )
        limits = [wanted_bps, HEADERS * self.rate_bps] if self.rate_bps else [wanted_bps]
        return max(MIN_BPS, smooth_minimum(limits))


def theory_inputs(run: RunSpec) -> TheoryInputs:
    direction = run.path[run.data_direction]
    rtt_s = max(1e-3, run.path.rtt_ms / 1000)
    return TheoryInputs(
        rate_bps=direction.rate_bps,
        loss=mean_loss(direction.loss),
        rtt_s=rtt_s,
        flows=tuple(run.flows),
        windows_bytes=tuple(mean(astuple(flow_windows(run, flow))) for flow in run.flows),
    )


def smooth_minimum(limits: list[float]) -> float:
    """Return a smooth approximation of the minimum."""
    return float(sum(limit**-SHARP for limit in limits) ** (-1 / SHARP))


def flow_bps(flow: FlowSpec, window_bytes: float, rtt_s: float, loss: float) -> float:
    """Return the total rate of a flow's connections on a path of unlimited rate."""
    limits = [min(1e12, window_limit_bps(window_bytes / flow.streams, rtt_s))]
    if (flow.cc or "").startswith("bbr"):
        if loss > BBR_CLIFF:
            limits.append(1e6)
    else:
        limits.append(cubic_throughput_bps(max(MIN_LOSS, loss), rtt_s))
    return flow.streams * (1 - loss) * smooth_minimum(limits)
