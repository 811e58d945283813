"""When a flow falls below its own rate, and what that costs: of one run, from its series.

To measure the path's own round trip BBR empties the queue (ProbeRTT): for some 200 ms it sends
next to nothing, or half of what it did. A loss or a change of the path makes such a dip too; which
it was the regularity tells. Times are seconds, rates Mbit/s of payload.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.series import WARM_UP_SHARE, TimeSeries, flow_rates

# A window belongs to a dip if its rate is below this part of the flow's median rate. Half of a
# bandwidth-delay product, which BBRv3 keeps, is a rate of a half; BBRv1's 0.75 after its probe for
# bandwidth takes from the queue first.
DEEP = 0.7


@dataclass(frozen=True, eq=False)
class Dips:
    """A flow's dips, after its warm-up."""

    rates: TimeSeries
    window_s: float
    median_mbit: float
    first_s: float  # where the warm-up ends
    spans: tuple[tuple[float, float], ...]  # begin and end of each
    lost_share: float  # what the dips lacked, of all that the median rate would have carried

    @property
    def apart_s(self) -> float | None:
        """The median time from one dip's begin to the next one's; None if there is one at most."""
        begins = [begin for begin, _ in self.spans]
        gaps = [later - sooner for sooner, later in pairwise(begins)]
        return float(np.median(gaps)) if gaps else None


def dips_of(run: RunFolder, flow: str, window_s: float) -> Dips | None:
    """A flow's dips in windows of that length; None without a series, or with one of no rate.

    The first quarter of its time (WARM_UP_SHARE) is left out.
    """
    rates = flow_rates(run, window_s).get(flow)
    if rates is None or len(rates) < 4:
        return None
    begin, end = rates.t_s[0] - window_s, rates.t_s[-1]
    first_s = float(begin + WARM_UP_SHARE * (end - begin))
    judged = rates.t_s - window_s >= first_s - 1e-9
    kept = rates.value[judged]
    median = float(np.median(kept)) if len(kept) else 0.0
    if median <= 0:
        return None
    low = judged & (rates.value < DEEP * median)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], low.astype(int), [0]))))
    spans = tuple(
        (float(rates.t_s[first] - window_s), float(rates.t_s[last - 1]))
        for first, last in zip(edges[::2], edges[1::2], strict=True)
    )
    lacking = float(np.sum(median - rates.value[low]))
    return Dips(rates, window_s, median, first_s, spans, lacking / (median * len(kept)))
