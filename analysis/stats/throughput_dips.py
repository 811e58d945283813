# SPDX-License-Identifier: MIT
"""Detect when a flow falls below its own rate, and the cost, from a run's series.

To measure the path's RTT BBR empties the queue (ProbeRTT): for some 200 ms it sends next to
nothing, or half as much. A loss or a change of the path makes such a dip, too; the regularity
distinguishes them. Times are seconds, rates Mbit/s of payload.
"""

from dataclasses import dataclass
from itertools import pairwise

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.series import TimeSeries, flow_rates
from gostlab.results.metrics import WARM_UP_SHARE

# A window belongs to a dip if its rate is below this share of the median rate. BBRv3 keeps half
# of a bandwidth-delay product, which halves the rate; BBRv1's 0.75 after its probe for bandwidth
# drains the queue first.
DEEP = 0.7


@dataclass(frozen=True, eq=False)
class Dips:
    """The dips of a flow after its warm-up."""

    rates: TimeSeries
    window_s: float
    median_mbit: float
    first_s: float  # end of the warm-up
    spans: tuple[tuple[float, float], ...]  # begin and end of each
    lost_share: float  # bytes missing in dips, as a share of the median rate's

    @property
    def apart_s(self) -> float | None:
        """Return the median time between the starts of dips; None for fewer than two."""
        import numpy as np

        begins = [begin for begin, _ in self.spans]
        gaps = [later - sooner for sooner, later in pairwise(begins)]
        return float(np.median(gaps)) if gaps else None


def find_dips(run: RunFolder, flow: str, window_s: float) -> Dips | None:
    """Return a flow's dips in windows of the given length.

    None without a series or with a rate of 0. The first quarter of its time (WARM_UP_SHARE) is
    omitted.
    """
    import numpy as np

    rates = flow_rates(run, window_s).get(flow)
    if rates is None or len(rates) < 4:
        return None
    begin, end = rates.t_s[0] - window_s, rates.t_s[-1]
    first_s = float(begin + WARM_UP_SHARE * (end - begin))
    judged = rates.t_s - window_s >= first_s - 1e-9
    judged_rates = rates.value[judged]
    median = float(np.median(judged_rates)) if len(judged_rates) else 0.0
    if median <= 0:
        return None
    low = judged & (rates.value < DEEP * median)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], low.astype(int), [0]))))
    spans = tuple(
        (float(rates.t_s[first] - window_s), float(rates.t_s[last - 1]))
        for first, last in zip(edges[::2], edges[1::2], strict=True)
    )
    lacking = float(np.sum(median - rates.value[low]))
    return Dips(rates, window_s, median, first_s, spans, lacking / (median * len(judged_rates)))
