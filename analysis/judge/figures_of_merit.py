"""What a run, and a cell of runs, can be judged by: the one list of figures.

A table's columns, a study's `published`, the targets and the figures' axes all take theirs from
here: a new one is one more entry of MERITS. gostlab.declared reads the names out of this file's
source, so each stands as a literal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol

from analysis.judge import fairness
from analysis.judge.statistics import Summary, best_mean, paired_ratio, summarise
from analysis.judge.table import count, delay, per_mille, percent, rate, ratio
from analysis.read import series
from analysis.read.folder import Run
from gostlab.measures import Spread


class Cell(Protocol):
    """What a figure asks of a cell (analysis.judge.cells.Cell)."""

    @property
    def counted(self) -> tuple[Run, ...]:
        """The runs that count."""

    @property
    def example(self) -> Run:
        """A run that stands for all of them."""

    @property
    def but_cc(self) -> Any:
        """Its place, whatever the congestion control."""

    def by_seed(self) -> dict[Any, float]:
        """The goodput of every run that counts, by what pairs it with another cell's."""


OfRun = Callable[[Run], float | None]
OfFlow = Callable[[Run, str], float | None]
# A cell, all cells of its experiment, and the congestion control to compare with.
OfCell = Callable[[Cell, Sequence[Cell], str | None], Summary | None]


@dataclass(frozen=True)
class Merit:
    """One figure: its name, how people read it, and how it comes from a run, a flow or a cell."""

    name: str  # as `published` has it
    words: str  # for a table's row, with its unit
    axis: str  # for a figure's axis, with its unit
    of_run: OfRun | None = None
    of_flow: OfFlow | None = None
    of_cell: OfCell | None = None  # where it is no summary of the runs' own values
    show: Callable[[float], str] = rate
    from_series: bool = False  # read from a run's series, which takes longer than all else
    column: str = ""  # a table's column, where that has another name

    @property
    def key(self) -> str:
        """The column of a table of cells; of one flow with ":FLOW" behind."""
        return self.column or self.name


@cache
def over_time(run: Run) -> Mapping[str, float | None]:
    """A run's figures of fairness, which take longer than all else together: read once."""
    rates, parts = fairness.active_rates(run), fairness.shares(run)
    return {
        "jain": fairness.jain(run),
        "convergence_s": fairness.convergence_s(run),
        "total_mbit": sum(rates.values()) if rates else None,
        **{f"share:{name}": share for name, share in parts.items()},
    }


@cache
def window_pkts(run: Run, flow: str | None = None) -> float | None:
    """A run's mean window, read once."""
    return series.mean_window_pkts(run, flow)


def wan_share(run: Run) -> float | None:
    """Retransmitted segments on the WAN per segment sent there."""
    again, sent = run.retransmitted("wan"), run.segments("wan")
    return None if again is None or not sent else again / sent


def median_of(spread: Spread | None) -> float | None:
    """What half of the time did not exceed; None where nothing was sampled."""
    return spread.median if spread else None


def p95_of(spread: Spread | None) -> float | None:
    """What 95 % of the time did not exceed; None where nothing was sampled."""
    return spread.p95 if spread else None


def ping_ms(name: str) -> OfRun:
    """One number of a run's first ping flow; None where it has none."""

    def of_run(run: Run) -> float | None:
        found = (flow.round_trips for flow in run.flows if flow.round_trips)
        return next(found, {}).get(name)

    return of_run


def flow_goodput(run: Run, flow: str) -> float | None:
    """One flow's goodput."""
    found = run.flow(flow)
    return found.goodput_mbit if found else None


def flow_retransmits(run: Run, flow: str) -> float | None:
    """One flow's Retr, as iperf3 counts it."""
    found = run.flow(flow)
    return found.retransmits if found else None


def times_to_converge(cell: Cell, cells: Sequence[Cell], versus: str | None) -> Summary | None:
    """How long the runs took; one that had something to converge from and never did took for
    ever.
    """
    times = [(over_time(run)["convergence_s"], fairness.converges(run)) for run in cell.counted]
    return summarise(
        [math.inf if time is None else time for time, could in times if could or time is not None]
    )


def ratio_to(cell: Cell, cells: Sequence[Cell], versus: str | None) -> Summary | None:
    """The cell's goodput over that of the same cell with the congestion control `versus`, run
    against run of one seed.
    """
    bases = (other for other in cells if other.but_cc == cell.but_cc and other.example.cc == versus)
    base = next(bases, None)
    return None if base is None else paired_ratio(base.by_seed(), cell.by_seed())


def best_three(cell: Cell, cells: Sequence[Cell], versus: str | None) -> Summary | None:
    """The mean of the three fastest runs."""
    values = [run.goodput_mbit for run in cell.counted if run.goodput_mbit is not None]
    best = best_mean(values)
    return None if best is None else Summary(tuple(values), best, None)


MERITS: tuple[Merit, ...] = (
    Merit(
        "goodput_mbit",
        "goodput (Mbit/s)",
        "Goodput (Mbit/s)",
        of_run=lambda run: run.goodput_mbit,
        of_flow=flow_goodput,
        column="goodput",
    ),
    Merit(
        "retr",
        "retransmissions (iperf3's Retr)",
        "iperf3's Retr (segments)",
        of_run=lambda run: run.retr,
        of_flow=flow_retransmits,
        show=count,
    ),
    Merit(
        "app",
        "sent again on the leg before the tunnel (segments)",
        "Before the tunnel (segments)",
        of_run=lambda run: run.retransmitted("app"),
        show=count,
    ),
    Merit(
        "wan",
        "sent again on the WAN (segments)",
        "Retransmitted on the WAN (segments)",
        of_run=lambda run: run.retransmitted("wan"),
        show=count,
    ),
    Merit(
        "exit",
        "sent again on the leg after the tunnel (segments)",
        "After the tunnel (segments)",
        of_run=lambda run: run.retransmitted("exit"),
        show=count,
    ),
    Merit(
        "wan_share",
        "sent again on the WAN, share",
        "Retransmitted on the WAN (share)",
        of_run=wan_share,
        show=per_mille,
    ),
    Merit(
        "client_nstat",
        "sent again by the client's host (segments)",
        "Client's whole host (segments)",
        of_run=lambda run: dict(run.nstat).get("client"),
        show=count,
    ),
    Merit(
        "idle_share",
        "CPU idle, share of the median second",
        "CPU idle (share)",
        of_run=lambda run: run.idle_share,
        show=percent,
    ),
    Merit(
        "link_share",
        "bottleneck used, share",
        "Bottleneck used (share)",
        of_run=lambda run: run.link_share,
        show=percent,
    ),
    Merit(
        "srtt_median_ms",
        "RTT under load, median (ms)",
        "RTT under load, median (ms)",
        of_run=lambda run: median_of(series.latency(run).srtt_ms),
        show=delay,
    ),
    Merit(
        "srtt_p95_ms",
        "RTT under load, 95 % (ms)",
        "RTT under load, 95 % (ms)",
        of_run=lambda run: p95_of(series.latency(run).srtt_ms),
        show=delay,
    ),
    Merit(
        "queue_delay_median_ms",
        "the bottleneck's queue, median (ms)",
        "Bottleneck's queue, median (ms)",
        of_run=lambda run: median_of(series.latency(run).queue_delay_ms),
        show=delay,
    ),
    Merit(
        "queue_delay_p95_ms",
        "the bottleneck's queue, 95 % (ms)",
        "Bottleneck's queue, 95 % (ms)",
        of_run=lambda run: p95_of(series.latency(run).queue_delay_ms),
        show=delay,
    ),
    Merit(
        "ping_median_ms",
        "ping under load, median (ms)",
        "Ping under load, median (ms)",
        of_run=ping_ms("median_ms"),
        show=delay,
    ),
    Merit(
        "ping_p95_ms",
        "ping under load, 95 % (ms)",
        "Ping under load, 95 % (ms)",
        of_run=ping_ms("p95_ms"),
        show=delay,
    ),
    Merit(
        "ping_p99_ms",
        "ping under load, 99 % (ms)",
        "Ping under load, 99 % (ms)",
        of_run=ping_ms("p99_ms"),
        show=delay,
    ),
    Merit(
        "window_pkts",
        "mean window (packets)",
        "Mean window (segments)",
        of_run=window_pkts,
        of_flow=window_pkts,
        from_series=True,
    ),
    Merit(
        "jain",
        "Jain's index",
        "Jain's index (1 is fair)",
        of_run=lambda run: over_time(run)["jain"],
        show=ratio,
        from_series=True,
    ),
    Merit(
        "convergence_s",
        "time to converge (s)",
        "Time to converge (s)",
        of_run=lambda run: over_time(run)["convergence_s"],
        of_cell=times_to_converge,
        from_series=True,
    ),
    Merit(
        "total_mbit",
        "all flows together (Mbit/s)",
        "All flows (Mbit/s)",
        of_run=lambda run: over_time(run)["total_mbit"],
        from_series=True,
    ),
    Merit(
        "share",
        "share of the sum",
        "Share of the sum (%)",
        of_flow=lambda run, flow: over_time(run).get(f"share:{flow}"),
        show=percent,
    ),
    Merit("ratio", "goodput, ratio", "Goodput (ratio)", of_cell=ratio_to, show=ratio),
    Merit(
        "goodput_best3",
        "goodput, mean of the fastest three (Mbit/s)",
        "Goodput, fastest three (Mbit/s)",
        of_cell=best_three,
    ),
)
BY_KEY: Mapping[str, Merit] = MappingProxyType(
    {key: merit for merit in MERITS for key in (merit.name, merit.key)}
)


def merit_of(figure: str) -> Merit:
    """The figure of that name, or of that column, whichever flow it is of. Raises KeyError."""
    return BY_KEY[figure.partition(":")[0]]


def value_of(run: Run, figure: str) -> float | None:
    """A figure of a run ("goodput"), or of one of its flows ("share:flow2"); None where it has
    none.
    """
    flow = figure.partition(":")[2]
    merit = merit_of(figure)
    if flow:
        found = merit.of_flow(run, flow) if merit.of_flow else None
    else:
        found = merit.of_run(run) if merit.of_run else None
    return None if found is None else float(found)
