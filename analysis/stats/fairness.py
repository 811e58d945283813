# SPDX-License-Identifier: MIT
"""Measure how flows of one run share the link and how fast they converge.

Times are seconds, rates Mbit/s of payload. Results are None or empty if the series lack data.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

from gostlab.analysis.load import series
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.results import metrics
from gostlab.results.coexistence import Side
from gostlab.results.metrics import (
    FAIR_DELTA,
    FAIR_HOLD_S,
    FAIR_WINDOW_S,
    DeliveryCurve,
    jain_index,
)

# A rate has settled if it stays within this relative band of its new value for the hold time.
SETTLE_BAND = 0.1
SETTLE_HOLD_S = 2.0
# Window length: one cycle of BBR's bandwidth probing (eight RTTs), which averages its gains of 1.25
# and 0.75, and at least MIN_SETTLE_WINDOW_S.
PROBE_CYCLE_ROUNDS = 8
MIN_SETTLE_WINDOW_S = 0.25
# A path with more changes has no steady states.
MAX_EVENTS = 20


def active_rates(run: RunFolder) -> dict[str, float]:
    """Return each flow's mean rate while all competing flows are active.

    Empty if they never are. The mean covers the measured part of the run, or, if all of it is
    measured, the common time without its first quarter (WARM_UP_SHARE). Background UDP is excluded.
    """
    return metrics.active_rates_mbit(competitor_curves(run), run.measured_s)


@lru_cache(maxsize=2)  # all metrics of a run's shares read it
def competitor_curves(run: RunFolder) -> dict[str, DeliveryCurve]:
    """Return the delivery curves of flows with a congestion control; {} if one is unknown."""
    flows = run.competitors
    progress = {flow.name: series.delivery_curve_of(run, flow) for flow in flows}
    known = {name: curve for name, curve in progress.items() if curve is not None}
    return known if len(known) == len(flows) else {}


def flow_shares(run: RunFolder) -> dict[str, float]:
    """Return each flow's share of the total rate, over the time of active_rates."""
    rates = active_rates(run)
    total = math.fsum(rates.values())
    return {name: rate / total for name, rate in rates.items()} if total > 0 else {}


def jain_of_run(run: RunFolder) -> float | None:
    """Return Jain's index of the active flows' rates; None for fewer than two."""
    rates = active_rates(run)
    return jain_index(list(rates.values())) if len(rates) > 1 and any(rates.values()) else None


def convergence_s(run: RunFolder) -> float | None:
    """Return the time from the last flow's start until shares are fair; None for never.

    RFC 5166, section 2.3: the delta-fair convergence time is the time that two flows take from
    shares of 100/101 and 1/101 to (1 + delta)/2 and (1 - delta)/2. So each of n flows must have 1/n
    within delta (0.1), which is the RFC's definition for n = 2; the initial shares are those at the
    last start, not 100/101. Shares are measured in windows of 1 s from the last start on and must
    stay fair for 5 s while all flows are active; the time is the beginning of the first such
    window. For a single competing flow it is the maximum of its `settling` times.
    """
    if len(run.competitors) < 2:
        return max_time_s(settling_times_s(run).values())
    return metrics.fair_after_s(list(competitor_curves(run).values()))


def fair_share_sides(run: RunFolder) -> dict[str, Side]:
    """Return which flows have yielded, and since when.

    {} if they are not active together for long enough. Shares in windows of 1 s are averaged over 5
    s, so that BBR's ProbeRTT is no change of sides; a fair share is within FAIR_DELTA of
    1/n. A flow's side is its side at the end, since the instant after which it is on no other.
    """
    import numpy as np

    flows = run.competitors
    since_s = max((series.flow_span_s(flow)[0] for flow in flows), default=0.0)
    windows = list(
        metrics.common_windows(competitor_curves(run).values(), FAIR_WINDOW_S, since_s).values()
    )
    held = round(FAIR_HOLD_S / FAIR_WINDOW_S)
    means = [np.mean(windows[at : at + held], axis=0) for at in range(len(windows) - held + 1)]
    shared = [mean * len(flows) / mean.sum() - 1 for mean in means if mean.sum() > 0]
    if len(flows) < 2 or not shared:
        return {}
    result = {}
    for index, flow in enumerate(flows):
        standing = [int(np.sign(off[index])) * bool(abs(off[index]) > FAIR_DELTA) for off in shared]
        stood = next((n for n, side in enumerate(reversed(standing)) if side != standing[-1]), None)
        first = 0 if stood is None else len(standing) - stood
        result[flow.name] = Side(standing[-1], since_s + first * FAIR_WINDOW_S)
    return result


def settling_times_s(run: RunFolder) -> dict[float, float | None]:
    """Return the settling time of the rate after each event; None for never.

    Events are changes of the path, and starts and stops of background flows. The rate settles when
    it stays near its new value, the median of the later half of the time until the next event; so
    the target is what the flows reach, not what they could reach. Near is within SETTLE_BAND,
    staying is for 2 s and until the next event at most. The rate is that of all competing flows, in
    windows of 0.25 s or of BBR's probing cycle (8 RTTs) if that is longer; the time is the
    beginning of the first such window. Empty without events, or with too many.
    """
    import numpy as np

    times = {}
    for event_s in convergence_events_s(run) if series.rows_by_flow(run) else ():
        windows = total_rates_after(run, event_s)
        later = windows[len(windows) // 2 :]
        target_mbit = float(np.median(later)) if later else math.inf
        near = [abs(rate - target_mbit) <= SETTLE_BAND * target_mbit for rate in windows]
        times[event_s] = metrics.first_lasting_window(near, settle_window_s(run), SETTLE_HOLD_S)
    return times


def convergence_events_s(run: RunFolder) -> tuple[float, ...]:
    """Return the times of changes of path or traffic while competing flows are active.

    Of events that follow each other too fast for settling (2 s) only the last counts, and none so
    close to the end. Empty for more than 20: such a path has no steady states.
    """
    spans = [series.flow_span_s(flow) for flow in run.competitors]
    if not spans:
        return ()
    first_s, last_s = min(start for start, _ in spans), max(end for _, end in spans)
    happens = {change.at_s for change in run.changes} | {
        instant for flow in run.flows for instant in series.flow_span_s(flow)
    }
    inside = sorted(instant for instant in happens if first_s < instant < last_s)
    if len(inside) > MAX_EVENTS:
        return ()
    return tuple(
        first for first, second in pairwise([*inside, last_s]) if second - first >= SETTLE_HOLD_S
    )


def can_converge(run: RunFolder) -> bool:
    """Return whether a run has an event to converge from and recorded rates."""
    return bool(active_rates(run)) and (len(run.competitors) > 1 or bool(convergence_events_s(run)))


def settle_window_s(run: RunFolder) -> float:
    """Return the window length for detecting that a run's rate has settled."""
    return max(
        MIN_SETTLE_WINDOW_S, PROBE_CYCLE_ROUNDS * max(flow.rtt_ms for flow in run.flows) / 1000
    )


def total_rates_after(run: RunFolder, event_s: float) -> list[float]:
    """Return the total rate of competing flows in windows after an event.

    The windows end with the next event or with the first flow.
    """
    curves = [series.delivery_curve_of(run, flow) for flow in run.competitors]
    known = [curve for curve in curves if curve is not None]
    until_s = min(
        (instant for instant in convergence_events_s(run) if instant > event_s), default=math.inf
    )
    windows = metrics.common_windows(known, settle_window_s(run), event_s).items()
    return [math.fsum(at) for end_s, at in windows if end_s <= until_s + 1e-6]


def max_time_s(times: Iterable[float | None]) -> float | None:
    """Return the maximum of times; None for an empty list or an infinite time."""
    durations = [math.inf if duration is None else duration for duration in times]
    return max(durations) if durations and max(durations) < math.inf else None
