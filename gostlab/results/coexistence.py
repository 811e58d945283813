# SPDX-License-Identifier: MIT
"""Represent the result of a run whose flows compete."""

from dataclasses import dataclass

from gostlab.results.metrics import Retransmissions, Spread


@dataclass(frozen=True)
class Side:
    """Represent on which side of its fair share a flow ended, and since when of the load.

    `side` is 1 above the fair share, -1 below it and 0 at it.
    """

    side: int
    since_s: float


@dataclass(frozen=True)
class Competitor:
    """Represent one flow; its rate and share are of the time when all its rivals are active."""

    name: str
    cc: str
    rtt_ms: float  # RTT of the idle path
    start_s: float
    rate_mbit: float
    share: float  # fraction of the sum of all rates
    srtt_ms: Spread | None
    resent: Retransmissions | None
    side: Side | None


@dataclass(frozen=True)
class Contest:
    """Represent the competing flows of one run, and Jain's fairness index of their rates."""

    flows: tuple[Competitor, ...]
    jain: float
    since_s: float  # begin of the interval of rates and shares, since the load began
    until_s: float  # end of that interval
