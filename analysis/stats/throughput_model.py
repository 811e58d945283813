# SPDX-License-Identifier: MIT
"""Model the throughput of congestion controls by published formulas.

Windows are means in segments of MSS_BYTES, rates Mbit/s of payload. No formula covers queues,
buffers at the bottleneck or start-up: a model is a paper's result for one long flow on an otherwise
idle path.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from gostlab.tcpmodel.response_functions import cubic_window

# Payload of a packet of 1500 bytes, without headers of IPv4, TCP and its timestamp option; netem
# counts the Ethernet header of 14 bytes, too.
MSS_BYTES = 1448
TCP_IP_BYTES = 52
ETHERNET_BYTES = 14
# Additive increase and multiplicative decrease of CUBIC in Li et al. 2018, section 4.1.
LI_ALPHA = 1.0
LI_BETA = 0.8
# Share of time that BBR spends outside ProbeRTT (Li et al. 2018, equation 7; Cardwell et al., ACM
# Queue 14(5), 2016).
PROBE_RTT_REST = 0.98
# Share of tcp_rmem that Linux uses as window; it reserves half of the receive buffer for overhead
# (tcp_adv_win_scale = 1).
RMEM_WINDOW_SHARE = 0.5


@dataclass(frozen=True)
class ModelPath:
    """Parameters of a path that a model depends on."""

    rate_bps: float | None
    rtt_ms: float
    loss: float
    rmem_bytes: float | None = None  # maximum of tcp_rmem
    mtu_bytes: int = 1500

    @property
    def payload_mbit(self) -> float:
        """Return the payload rate of a full link; infinite without a rate."""
        return math.inf if self.rate_bps is None else payload_mbit(self.rate_bps, self.mtu_bytes)


def payload_mbit(rate_bps: float, mtu_bytes: int = 1500) -> float:
    """Return a link's rate without the headers of full packets, in Mbit/s."""
    return rate_bps / 1e6 * (mtu_bytes - TCP_IP_BYTES) / (mtu_bytes + ETHERNET_BYTES)


def goodput_mbit(window_pkts: float, rtt_ms: float) -> float:
    """Return the rate of one window per RTT (RFC 7323, section 1.1), in Mbit/s."""
    return window_pkts * MSS_BYTES * 8 / (rtt_ms / 1000) / 1e6


def window_pkts(rate_mbit: float, rtt_ms: float) -> float:
    """Return the mean window that sustains a rate, the inverse of goodput_mbit."""
    return rate_mbit * 1e6 * (rtt_ms / 1000) / 8 / MSS_BYTES


# -- windows by loss


def reno_window(loss: float) -> float:
    """Return Reno's mean window with a loss per 1/loss packets: 1.2 / √p (RFC 9438, table 1)."""
    return 1.2 / math.sqrt(loss)


def mathis_window(loss: float) -> float:
    """Return Reno's mean window with delayed ACKs: √(3/4) / √p.

    Source: Mathis, Semke, Mahdavi & Ott, CCR 27(3), 1997.
    """
    return math.sqrt(0.75 / loss)


def li_cubic_window(loss: float) -> float:
    """Return CUBIC's mean window by Li et al. 2018, equation 6.

    The window √(α/2 · (1+β)/(1−β) / p) is that of any AIMD; per RTT it is the rate.
    """
    return math.sqrt(LI_ALPHA / 2 * (1 + LI_BETA) / (1 - LI_BETA) / loss)


# -- BBR


def bbr_mbit(path: ModelPath) -> float:
    """Return BBR's bound under random loss: (1 − p) C (Cardwell et al., CACM 60(2), 2017)."""
    return (1 - path.loss) * path.payload_mbit


def li_bbr_mbit(path: ModelPath, window_share: float = 1.0) -> float:
    """Return BBR's rate by Li et al. 2018, equation 7.

    The rate is bandwidth · 0.98 · min(1, tcp_rmem / BDP), limited by the link's payload; infinite
    without a rate.

    window_share: share of tcp_rmem that is window: all of it in the paper, half of it in Linux
    (RMEM_WINDOW_SHARE). The paper's 960 Mbit/s at 1 Gbit/s and 10 ms uses 1025 kB for the BDP; it
    is 1250 kB.
    """
    if path.rate_bps is None:
        return math.inf
    limited, bdp_bytes = 1.0, path.rate_bps * path.rtt_ms / 1000 / 8
    if path.rmem_bytes is not None:
        limited = min(1.0, window_share * path.rmem_bytes / bdp_bytes)
    return min(path.rate_bps / 1e6 * PROBE_RTT_REST * limited, path.payload_mbit)


# -- models as curves


@dataclass(frozen=True)
class ThroughputModel:
    """A curve: congestion control, label, line style and rate function."""

    name: str
    cc: str
    label: str
    dashes: tuple[float, ...]
    rate: Callable[[ModelPath], float]  # Mbit/s, not limited by the link

    def mbit(self, path: ModelPath) -> float | None:
        """Return the goodput on a path, limited by the link's payload.

        None without both loss and a link rate.
        """
        # Without loss every window grows until the link is full; BBR's models need no loss.
        endless = path.loss <= 0 and self.cc != "bbr"
        rate_mbit = min(math.inf if endless else self.rate(path), path.payload_mbit)
        return None if math.isinf(rate_mbit) else rate_mbit

    def window(self, path: ModelPath) -> float | None:
        """Return the mean window of the goodput, in segments."""
        rate_mbit = self.mbit(path)
        return None if rate_mbit is None else window_pkts(rate_mbit, path.rtt_ms)


def mbit_from_window(window: Callable[[float], float]) -> Callable[[ModelPath], float]:
    """Return the rate function of a model that gives a window for a loss."""
    return lambda path: goodput_mbit(window(path.loss), path.rtt_ms)


def rfc_cubic_mbit(path: ModelPath) -> float:
    """Return CUBIC's rate by RFC 9438; its window also depends on the RTT."""
    return goodput_mbit(cubic_window(path.loss, path.rtt_ms / 1000), path.rtt_ms)


LI_BBR_LINUX = partial(li_bbr_mbit, window_share=RMEM_WINDOW_SHARE)
DASHED, DOTTED, MIXED = (5.0, 2.0), (1.0, 1.5), (6.0, 2.0, 1.0, 2.0)
MODELS = (
    ThroughputModel("rfc9438", "cubic", "CUBIC by RFC 9438", DASHED, rfc_cubic_mbit),
    ThroughputModel(
        "reno", "reno", "Reno by RFC 9438: 1.2/√p", DASHED, mbit_from_window(reno_window)
    ),
    ThroughputModel(
        "mathis", "reno", "Reno by Mathis, delayed ACKs", DOTTED, mbit_from_window(mathis_window)
    ),
    ThroughputModel("bbr", "bbr", "BBR at most: (1 − p) × link", DASHED, bbr_mbit),
    ThroughputModel(
        "li-cubic", "cubic", "CUBIC by Li 2018, eq. 6", DOTTED, mbit_from_window(li_cubic_window)
    ),
    ThroughputModel("li-bbr", "bbr", "BBR by Li 2018, eq. 7", DOTTED, li_bbr_mbit),
    ThroughputModel("li-bbr-linux", "bbr", "eq. 7, window = ½ tcp_rmem", MIXED, LI_BBR_LINUX),
)
GENERAL = ("rfc9438", "reno", "mathis", "bbr")


def models_for(ccs: list[str], names: Sequence[str] = GENERAL) -> list[ThroughputModel]:
    """Return the models with these names for any of these congestion controls."""
    return [model for model in MODELS if model.name in names and model.cc in ccs]
