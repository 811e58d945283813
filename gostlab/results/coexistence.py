"""What a run whose flows compete came to: what the analysis makes and the terminal prints."""

from dataclasses import dataclass

from gostlab.results.metrics import Resent, Spread


@dataclass(frozen=True)
class Side:
    """Above its fair share at the end (1), below (-1) or at it (0), and since when of the load."""

    side: int
    since_s: float


@dataclass(frozen=True)
class Competitor:
    """One flow. Its rate and share are of the time when all of its rivals are active."""

    name: str
    cc: str
    rtt_ms: float  # of the idle path
    start_s: float
    rate_mbit: float
    share: float  # of what all get
    srtt_ms: Spread | None
    resent: Resent | None
    side: Side | None


@dataclass(frozen=True)
class Contest:
    flows: tuple[Competitor, ...]
    jain: float
    since_s: float  # from when to when of the load rates and shares are taken
    until_s: float
