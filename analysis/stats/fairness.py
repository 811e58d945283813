"""How flows share, and how long they take to: of one run, from its series.

Times are seconds, rates Mbit/s of payload. What a run's series do not tell is None or empty.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from gostlab.analysis.load import series
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.stats.statistics import jain_index
from gostlab.results.coexistence import Side

# A share is fair within this part of 1/n: "0.1-fair" (Bansal, Balakrishnan, Floyd, Shenker, SIGCOMM
# 2001).
DELTA = 0.1
# Shares are taken over windows of this length, and must stay fair for so long to count as
# converged.
FAIR_WINDOW_S = 1.0
FAIR_HOLD_S = 5.0
# A rate has settled when it stays within this part of its new value for so long.
SETTLE_BAND = 0.1
SETTLE_HOLD_S = 2.0
# A window of BBR's bandwidth probing: a cycle of eight round trips, so that its 1.25 and 0.75 do
# not show; but no less than this.
PROBE_CYCLE_ROUNDS = 8
SETTLE_WINDOW_S = 0.25
# Where a path changes more often than this, it has no states to settle in.
MAX_EVENTS = 20


def active_rates(run: RunFolder) -> dict[str, float]:
    """Each flow's mean rate over the time when all flows that have a congestion control are active;
    empty if they never are.

    Of that the part that the run measures; where it measures all, the first quarter
    (WARM_UP_SHARE) is left out. UDP in the background is not among them.
    """
    progress = competing(run)
    first_s, last_s = active_window(run, progress)
    if last_s <= first_s:
        return {}
    return {name: each.mbit_between(first_s, last_s) for name, each in progress.items()}


def competing(run: RunFolder) -> dict[str, series.DeliveryCurve]:
    """The progress of each flow with a congestion control; {} where one's is not known."""
    flows = run.competitors
    progress = {flow.name: series.progress_of(run, flow) for flow in flows}
    known = {name: each for name, each in progress.items() if each is not None}
    return known if len(known) == len(flows) else {}


def active_window(
    run: RunFolder, progress: Mapping[str, series.DeliveryCurve]
) -> tuple[float, float]:
    """From when to when active_rates are taken; (0, 0) of no flow."""
    first_s = max((each.start_s for each in progress.values()), default=0.0)
    last_s = min((each.end_s for each in progress.values()), default=0.0)
    if run.measures_a_part:
        return max(first_s, run.measured_s[0]), min(last_s, run.measured_s[1])
    return first_s + series.WARM_UP_SHARE * (last_s - first_s), last_s


def shares(run: RunFolder) -> dict[str, float]:
    """Each flow's part of what the active flows carry together, over the time of active_rates."""
    rates = active_rates(run)
    total = math.fsum(rates.values())
    return {name: rate / total for name, rate in rates.items()} if total > 0 else {}


def jain(run: RunFolder) -> float | None:
    """Jain's index of the active flows' rates; None with fewer than two that ever are active."""
    rates = active_rates(run)
    return jain_index(list(rates.values())) if len(rates) > 1 and any(rates.values()) else None


def convergence_s(run: RunFolder) -> float | None:
    """How long after the last flow's start the shares are fair; None where they never are.

    RFC 5166, section 2.3: the delta-fair convergence time is the time that two flows take from
    shares of 100/101 and 1/101 to (1 + delta)/2 and (1 - delta)/2. So of n flows each must have
    1/n, within delta (0.1) of it: for n = 2 the RFC's own; the start is what the last flow finds,
    not 100/101. Shares are those of windows of 1 s from the last start on, and they must stay fair
    for 5 s, while all are active; the time is that of the first such window's beginning. With one
    flow that has a congestion control, it is the longest of its `settling` times.
    """
    if len(run.competitors) < 2:
        return longest(settling(run).values())
    _, windows = common_windows(run)
    return first_lasting([is_fair(at) for at in windows], FAIR_WINDOW_S, FAIR_HOLD_S)


def is_fair(rates: Sequence[float]) -> bool:
    """Whether each of n rates is 1/n of their sum, within DELTA of it."""
    total = math.fsum(rates)
    return total > 0 and all(abs(rate / total * len(rates) - 1) <= DELTA + 1e-9 for rate in rates)


def common_windows(run: RunFolder) -> tuple[float, list[tuple[float, ...]]]:
    """When the last of the flows with a congestion control starts, and the rates of all of them in
    each window from then on; none where one's is not known.
    """
    flows = run.competitors
    since_s = max((series.span(flow)[0] for flow in flows), default=0.0)
    rates = series.flow_rates(run, FAIR_WINDOW_S, since_s)
    known = [rates[flow.name] for flow in flows if flow.name in rates]
    return since_s, list(together(known, since_s).values()) if len(known) == len(flows) else []


def sides(run: RunFolder) -> dict[str, Side]:
    """Which flows have yielded, and since when; {} where they are never active together for long
    enough.

    A share is that of windows of 1 s, their mean over the next 5 s, so that BBR's ProbeRTT is no
    change of sides; a flow is at its fair share within DELTA of 1/n. A flow's side is the one that
    it is on at the end, since the instant from which on it is on no other.
    """
    flows = run.competitors
    since_s, windows = common_windows(run)
    held = round(FAIR_HOLD_S / FAIR_WINDOW_S)
    means = [np.mean(windows[at : at + held], axis=0) for at in range(len(windows) - held + 1)]
    shared = [mean * len(flows) / mean.sum() - 1 for mean in means if mean.sum() > 0]
    if len(flows) < 2 or not shared:
        return {}
    found = {}
    for place, flow in enumerate(flows):
        standing = [int(np.sign(off[place])) * bool(abs(off[place]) > DELTA) for off in shared]
        stood = next((n for n, side in enumerate(reversed(standing)) if side != standing[-1]), None)
        first = 0 if stood is None else len(standing) - stood
        found[flow.name] = Side(standing[-1], since_s + first * FAIR_WINDOW_S)
    return found


def settling(run: RunFolder) -> dict[float, float | None]:
    """How long after each event (a change, a start or stop in the background) the rate stays near
    its new value, the median of the later half of the time it has; None: never.

    So the new value is the flow's own, not what it could have had. Near is within SETTLE_BAND of
    it, staying is for 2 s and until no later than the next event. The rate is that of all flows
    that have a congestion control, in windows of 0.25 s or of BBR's probing cycle (8 round trips)
    if that is longer; the time is that of the first such window's beginning. Empty where nothing
    happens, or all the time.
    """
    found = {}
    for event_s in events(run) if series.rows_by_flow(run) else ():
        windows = summed_windows(run, event_s)
        later = windows[len(windows) // 2 :]
        target_mbit = float(np.median(later)) if later else math.inf
        near = [abs(rate - target_mbit) <= SETTLE_BAND * target_mbit for rate in windows]
        found[event_s] = first_lasting(near, settle_window_s(run), SETTLE_HOLD_S)
    return found


def events(run: RunFolder) -> tuple[float, ...]:
    """When something changes while the flows with a congestion control are active: the path, or who
    else is on it.

    Of those that follow each other too soon for anything to settle (2 s) only the last counts, and
    none so near the end. Empty where there are more than 20: such a path has no states.
    """
    spans = [series.span(flow) for flow in run.competitors]
    if not spans:
        return ()
    first_s, last_s = min(start for start, _ in spans), max(end for _, end in spans)
    happens = {change.at_s for change in run.changes} | {
        instant for flow in run.flows for instant in series.span(flow)
    }
    inside = sorted(instant for instant in happens if first_s < instant < last_s)
    if len(inside) > MAX_EVENTS:
        return ()
    return tuple(
        first for first, second in pairwise([*inside, last_s]) if second - first >= SETTLE_HOLD_S
    )


def converges(run: RunFolder) -> bool:
    """Whether a run has something to converge from, and a record of how."""
    return bool(active_rates(run)) and (len(run.competitors) > 1 or bool(events(run)))


def settle_window_s(run: RunFolder) -> float:
    """The window in which a run's rate is looked at to see it settle."""
    return max(SETTLE_WINDOW_S, PROBE_CYCLE_ROUNDS * max(flow.rtt_ms for flow in run.flows) / 1000)


def summed_windows(run: RunFolder, event_s: float) -> list[float]:
    """The rate of the flows with a congestion control together, in windows from an event until the
    next, or until one of them ends.
    """
    rates = series.flow_rates(run, settle_window_s(run), event_s)
    wanted = [rates[flow.name] for flow in run.competitors if flow.name in rates]
    until_s = min((instant for instant in events(run) if instant > event_s), default=math.inf)
    windows = together(wanted, event_s).items()
    return [math.fsum(at) for end_s, at in windows if end_s <= until_s + 1e-6]


def together(rates: Sequence[series.TimeSeries], since_s: float) -> dict[float, tuple[float, ...]]:
    """Window's end -> every series' value, of the windows since then that all of them have."""
    columns = [
        dict(zip(np.round(each.t_s, 6).tolist(), each.value.tolist(), strict=True))
        for each in rates
    ]
    common = set(columns[0]).intersection(*columns) if columns else set()
    later = sorted(t_s for t_s in common if t_s > since_s + 1e-6)
    return {t_s: tuple(column[t_s] for column in columns) for t_s in later}


def first_lasting(good: Sequence[bool], window_s: float, hold_s: float) -> float | None:
    """When the first of windows begins from which on they are good for so long."""
    needed = math.ceil(hold_s / window_s - 1e-9)
    starts = range(len(good) - needed + 1)
    return next((at * window_s for at in starts if all(good[at : at + needed])), None)


def longest(times: Iterable[float | None]) -> float | None:
    """The greatest of times; None of none, or if one of them is endless."""
    found = [math.inf if each is None else each for each in times]
    return max(found) if found and max(found) < math.inf else None
