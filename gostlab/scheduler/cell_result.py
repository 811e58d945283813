# SPDX-License-Identifier: MIT
"""Summarise the runs of a cell: goodput, delays under load, losses and verdict.

A cell is one combination of levels, repeated. Its runs are read when a number is first asked for,
so a stopping rule, which needs goodputs alone, reads no samples.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from gostlab import results
from gostlab.results import metrics
from gostlab.results.coexistence import Competitor, Contest
from gostlab.results.duplicate_runs import copies
from gostlab.results.metrics import Latency, Retransmissions, RunCluster, Spread
from gostlab.results.run_result import RunResult
from gostlab.spec.experiment import StoppingRule
from gostlab.spec.labels import cell_label
from gostlab.spec.verdict import VERDICTS
from gostlab.tcpmodel.mean_median import median

# Verdicts that come with reasons.
EXPLAINED = ("degraded", "invalid")
Interval = tuple[float, float]


@dataclass(frozen=True)
class CellStatistics:
    """Represent the statistics of a cell's values; gostlab.analysis.stats has the real ones."""

    interval: Callable[[Sequence[float]], Interval | None]  # 95 % interval of the median
    states: Callable[[Sequence[float]], tuple[RunCluster, ...]]  # clusters; () for a single one
    # relative half-width of the interval; None for too few values
    halfwidth: Callable[[Sequence[float]], float | None]


@dataclass(frozen=True)
class Reason:
    """Represent the reason why a run is degraded or invalid."""

    verdict: str  # one of EXPLAINED
    why: str


@dataclass(frozen=True)
class CellResult:
    """Represent the runs of a cell and their summary.

    A delay is the median over the runs of each run's own median or 95th percentile over time.
    Reading a run's samples takes about 0.1 s if it has many streams. Raises OSError.
    """

    runs: tuple[RunResult, ...]  # whatever their outcome
    statistics: CellStatistics
    until: StoppingRule | None = None  # the stopping rule
    contests: tuple[Contest, ...] = ()  # one per run that counts, if flows compete

    @cached_property
    def matrix(self) -> str:
        return self.runs[0].run.matrix

    @cached_property
    def factors(self) -> Mapping[str, object]:
        return self.runs[0].run.factors

    @property
    def label(self) -> str:
        """Return the cell's levels as people write them: 16 streams, gost+ws, bbr."""
        return cell_label(self.factors) or self.matrix

    @cached_property
    def counted(self) -> tuple[RunResult, ...]:
        """Return the runs that count and are no copies of an earlier one."""
        good = [run for run in self.runs if run.counts]
        copied = copies((run.folder, run.goodput_bps) for run in good)
        return tuple(run for run in good if run.folder not in copied)

    @cached_property
    def copies(self) -> int:
        """Return the number of runs that would count but duplicate another run."""
        return sum(run.counts for run in self.runs) - len(self.counted)

    @cached_property
    def verdict(self) -> str:
        """Return the worst verdict of the runs, or how the first failed run ended."""
        ended_otherwise = [str(run.outcome) for run in self.runs if run.outcome != "ok"]
        if ended_otherwise:
            return ended_otherwise[0]
        verdicts = [run.verdict for run in self.runs if run.verdict in VERDICTS]
        all_known = len(verdicts) == len(self.runs)
        return max(verdicts, key=VERDICTS.index) if all_known else "no verdict"

    @cached_property
    def reasons(self) -> tuple[Reason, ...]:
        """Return the first reason of every check by which runs are degraded or invalid."""
        reasons: dict[tuple[str, str], Reason] = {}
        for run in self.runs:
            verdict = str(run.verdict)
            checks = (results.read_object(run.folder / "fidelity.json") or {}).get("checks") or ()
            listed = checks if verdict in EXPLAINED and isinstance(checks, list) else ()
            for check in listed:
                if isinstance(check, dict) and check.get("verdict") == verdict:
                    name = str(check.get("name"))
                    why = str(check.get("reason") or name)
                    reasons.setdefault((verdict, name), Reason(verdict, why))
        return tuple(reasons.values())

    # -- goodput

    @cached_property
    def goodputs_bps(self) -> tuple[float, ...]:
        """Return the goodput of every run that counts."""
        return tuple(run.goodput_bps for run in self.counted if run.goodput_bps is not None)

    @cached_property
    def goodput_bps(self) -> float | None:
        return median(self.goodputs_bps) if self.goodputs_bps else None

    @cached_property
    def states_bps(self) -> tuple[RunCluster, ...]:
        """Return the clusters of the runs; empty if there is only one."""
        return self.statistics.states(self.goodputs_bps)

    @cached_property
    def interval_bps(self) -> Interval | None:
        return self.statistics.interval(self.goodputs_bps)

    @cached_property
    def udp_beside_bps(self) -> float | None:
        """Return the goodput of udp flows, if the goodput of other flows excludes it."""
        rates = [metrics.udp_goodput_bps(run.folder) for run in self.counted]
        known = [rate for rate in rates if rate is not None]
        return median(known) if known else None

    @cached_property
    def both_directions(self) -> bool:
        """Return whether the goodput is the sum of two directions' flows."""
        flows = self.runs[0].run.flows
        loading = [flow for flow in flows if flow.traffic_type not in ("udp", "ping")]
        return len({flow.direction for flow in loading or flows}) > 1

    # -- losses

    @cached_property
    def wan_resent(self) -> Retransmissions | None:
        """Return the retransmissions on the WAN of the run with the median share."""
        return median_retransmissions(
            metrics.wan_retransmissions(run.folder) for run in self.counted
        )

    @cached_property
    def path_lost(self) -> Retransmissions | None:
        """Return the packets lost on the path, if no socket counts retransmissions."""
        if self.wan_resent is not None:
            return None
        return median_retransmissions(metrics.path_drops(run.folder) for run in self.counted)

    # -- delays

    @cached_property
    def delays(self) -> tuple[Latency, ...]:
        known = (metrics.latency_of_folder(run.folder) for run in self.counted)
        return tuple(delay for delay in known if delay is not None)

    @cached_property
    def idle_rtt_ms(self) -> float | None:
        return self.delays[0].idle_rtt_ms if self.delays else None

    @cached_property
    def srtt_ms(self) -> Spread | None:
        return median_spread(delay.srtt_ms for delay in self.delays)

    @cached_property
    def queue_delay_ms(self) -> Spread | None:
        return median_spread(delay.queue_delay_ms for delay in self.delays)

    @property
    def path_rtt_ms(self) -> Spread | None:
        """Return the path's RTT with queueing delay, if no socket's RTT is known."""
        if self.srtt_ms or self.queue_delay_ms is None or self.idle_rtt_ms is None:
            return None
        waited = self.queue_delay_ms
        return Spread(self.idle_rtt_ms + waited.median, self.idle_rtt_ms + waited.p95)

    # -- competing flows

    @property
    def flow_names(self) -> list[str]:
        """Return the names of the competing flows."""
        return list(dict.fromkeys(flow.name for contest in self.contests for flow in contest.flows))

    def competitors(self, name: str) -> list[Competitor]:
        """Return the results of a competing flow, of each run."""
        return [flow for contest in self.contests for flow in contest.flows if flow.name == name]

    # -- the stopping rule

    @cached_property
    def halfwidth(self) -> float | None:
        """Return the interval's relative half-width; None: too few runs, or several clusters."""
        return None if self.states_bps else self.statistics.halfwidth(self.goodputs_bps)

    @property
    def is_narrow(self) -> bool:
        """Return whether the cell has enough runs and they agree, by its stopping rule."""
        if self.until is None:
            return True
        agree = self.halfwidth is not None and self.halfwidth <= self.until.halfwidth
        return agree and len(self.goodputs_bps) >= self.until.least

    @property
    def wants_more(self) -> bool:
        """Return whether another repetition may help.

        It does not if none of the first runs counts, or if all of them are copies of one.
        """
        if self.is_narrow or self.until is None or not self.goodputs_bps:
            return False
        only_copies = self.copies > 0 and len(self.goodputs_bps) == 1
        if only_copies and len(self.runs) >= self.until.least:
            return False
        return len(self.runs) < self.until.most

    # -- for programs

    def to_json(self) -> dict[str, object]:
        """Return the summary for `--json`."""
        return {
            "matrix": self.matrix,
            "factors": self.factors,
            "runs": len(self.runs),
            "counted": len(self.counted),
            **{name: getattr(self, name) for name in JSON_SUMMARY},
        }

    def to_stopping_json(self) -> dict[str, object]:
        """Return how far a cell is from its stopping rule, for `--json`."""
        known = self.halfwidth is not None and math.isfinite(self.halfwidth)
        return {
            "cell": self.runs[0].run.cell,
            "repetitions": len(self.runs),
            "runs_that_count": len(self.goodputs_bps),
            "halfwidth": self.halfwidth if known else None,
            "states": [asdict(state) for state in self.states_bps],
            "asked": self.until.halfwidth if self.until else None,
        }


JSON_SUMMARY = (
    *("verdict", "reasons", "goodput_bps", "interval_bps", "states_bps", "goodputs_bps"),
    *("wan_resent", "idle_rtt_ms", "srtt_ms", "queue_delay_ms", "path_lost", "udp_beside_bps"),
    *("both_directions", "copies", "contests"),
)


def cells_of(
    runs: Iterable[RunResult],
    statistics: CellStatistics,
    until: Mapping[str, StoppingRule] | None = None,
) -> list[CellResult]:
    """Group runs into cells, in the order of each cell's first run.

    until: the stopping rules of the matrices that have one.
    """
    cells: dict[str, list[RunResult]] = {}
    for run in runs:
        cells.setdefault(run.run.cell, []).append(run)
    rules = until or {}
    return [
        CellResult(tuple(members), statistics, rules.get(members[0].run.matrix))
        for members in cells.values()
    ]


def median_retransmissions(items: Iterable[Retransmissions | None]) -> Retransmissions | None:
    """Return the run with the median share; of an even number the lower of the two."""
    ordered = sorted((item for item in items if item is not None), key=lambda item: item.share)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def median_spread(spreads: Iterable[Spread | None]) -> Spread | None:
    """Return the median over several runs of their medians and percentiles, or None."""
    known = [item for item in spreads if item is not None]
    if not known:
        return None
    return Spread(median(item.median for item in known), median(item.p95 for item in known))
