"""What a run, and a cell of runs, can be judged by: the one list of figures.

A table's columns, a study's `published`, the targets and the figures' axes all take theirs from
here: a new one is one more entry of MERITS. gostlab.registry reads the names out of this file's
source, so each stands as a literal.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Protocol

from gostlab.analysis.load import series
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.stats import fairness
from gostlab.analysis.stats.statistics import Summary, best_mean, paired_ratio, summarise
from gostlab.analysis.stats.text_table import count, delay, per_mille, percent, rate, ratio


class CellLike(Protocol):
    """The attributes of gostlab.analysis.stats.cells.Cell that a metric reads."""

    @property
    def counted(self) -> tuple[RunFolder, ...]: ...
    @property
    def example(self) -> RunFolder: ...
    @property
    def but_cc(self) -> Any: ...
    def by_seed(self) -> dict[Any, float]: ...


OfRun = Callable[[RunFolder], float | None]
OfFlow = Callable[[RunFolder, str], float | None]
# A cell, all cells of its experiment, and the congestion control to compare with.
OfCell = Callable[[CellLike, Sequence[CellLike], str | None], Summary | None]


@dataclass(frozen=True)
class Merit:
    """One figure: its name, how people read it, and how it comes from a run, a flow or a cell."""

    name: str  # as `published` has it
    words: str  # for a table's row, with its unit
    of_run: OfRun | None = None
    of_flow: OfFlow | None = None
    of_cell: OfCell | None = None  # where it is no summary of the runs' own values
    show: Callable[[float], str] = rate
    from_series: bool = False  # read from a run's series, which takes longer than all else
    column: str = ""  # a table's column, where that has another name
    label: str = ""  # for a figure's axis, where that has other words

    @property
    def key(self) -> str:
        """The column of a table of cells; of one flow with ":FLOW" behind."""
        return self.column or self.name

    @property
    def axis(self) -> str:
        words = self.words.removeprefix("the ")
        return self.label or words[0].upper() + words[1:]


@cache
def over_time(run: RunFolder) -> Mapping[str, float | None]:
    """A run's figures of fairness, which take longer than all else together: read once."""
    rates, parts = fairness.active_rates(run), fairness.shares(run)
    return {
        "jain": fairness.jain(run),
        "convergence_s": fairness.convergence_s(run),
        "total_mbit": sum(rates.values()) if rates else None,
        **{f"share:{name}": share for name, share in parts.items()},
    }


def together(name: str) -> OfRun:
    return lambda run: over_time(run)[name]


window_pkts = cache(series.mean_window_pkts)  # of a run, read once


def wan_share(run: RunFolder) -> float | None:
    """Retransmitted segments on the WAN per segment sent there."""
    again, sent = run.retransmitted("wan"), run.segments("wan")
    return None if again is None or not sent else again / sent


def sent_again(leg: str, where: str, label: str) -> dict[str, Any]:
    """What a figure has that is of a leg: the segments that were sent again there."""
    return {
        "words": f"sent again {where} (segments)",
        "of_run": lambda run: run.retransmitted(leg),
        "show": count,
        "label": f"{label} (segments)",
    }


def under_load(delay: str, quantile: str) -> OfRun:
    """What half (95 %) of the time a run's delay did not exceed; None where nothing was sampled."""
    return lambda run: getattr(getattr(series.latency(run), delay), quantile, None)


def ping_ms(name: str) -> OfRun:
    """One number of a run's first ping flow; None where it has none."""
    return lambda run: next(filter(None, (flow.round_trips for flow in run.flows)), {}).get(name)


def fetch_s(name: str) -> OfRun:
    """One number of a run's short downloads, of the least size; None where it has none."""
    return lambda run: next((each for flow in run.flows for each in flow.fetches), {}).get(name)


def of_a_flow(name: str) -> OfFlow:
    return lambda run, flow: getattr(run.flow(flow), name, None)


def times_to_converge(
    cell: CellLike, cells: Sequence[CellLike], versus: str | None
) -> Summary | None:
    """How long the runs took; one that could have converged and did not took for ever."""
    times = [(over_time(run)["convergence_s"], fairness.converges(run)) for run in cell.counted]
    return summarise(
        [math.inf if time is None else time for time, could in times if could or time is not None]
    )


def ratio_to(cell: CellLike, cells: Sequence[CellLike], versus: str | None) -> Summary | None:
    """The cell's goodput over that of the same cell with `versus`, seed by seed."""
    bases = (other for other in cells if other.but_cc == cell.but_cc and other.example.cc == versus)
    base = next(bases, None)
    return None if base is None else paired_ratio(base.by_seed(), cell.by_seed())


def best_three(cell: CellLike, cells: Sequence[CellLike], versus: str | None) -> Summary | None:
    """The mean of the three fastest runs."""
    values = tuple(run.goodput_mbit for run in cell.counted if run.goodput_mbit is not None)
    best = best_mean(values)
    return None if best is None else Summary(values, best)


MERITS: tuple[Merit, ...] = (
    Merit(
        "goodput_mbit",
        "goodput (Mbit/s)",
        of_run=attrgetter("goodput_mbit"),
        of_flow=of_a_flow("goodput_mbit"),
        column="goodput",
    ),
    Merit(
        "retr",
        "retransmissions (iperf3's Retr)",
        of_run=attrgetter("retr"),
        of_flow=of_a_flow("retransmits"),
        show=count,
        label="iperf3's Retr (segments)",
    ),
    Merit("app", **sent_again("app", "on the leg before the tunnel", "Before the tunnel")),
    Merit("wan", **sent_again("wan", "on the WAN", "Retransmitted on the WAN")),
    Merit("exit", **sent_again("exit", "on the leg after the tunnel", "After the tunnel")),
    Merit(
        "wan_share",
        "sent again on the WAN, share",
        of_run=wan_share,
        show=per_mille,
        label="Retransmitted on the WAN (share)",
    ),
    Merit(
        "client_nstat",
        "sent again by the client's host (segments)",
        of_run=lambda run: dict(run.nstat).get("client"),
        show=count,
        label="Client's whole host (segments)",
    ),
    Merit(
        "idle_share",
        "CPU idle, share of the median second",
        of_run=attrgetter("idle_share"),
        show=percent,
        label="CPU idle (share)",
    ),
    Merit(
        "link_share",
        "bottleneck used, share",
        of_run=attrgetter("link_share"),
        show=percent,
        label="Bottleneck used (share)",
    ),
    Merit(
        "srtt_median_ms",
        "RTT under load, median (ms)",
        under_load("srtt_ms", "median"),
        of_flow=lambda run, flow: getattr(series.flow_srtt_ms(run, flow), "median", None),
        show=delay,
    ),
    Merit(
        "srtt_p95_ms", "RTT under load, 95 % (ms)", of_run=under_load("srtt_ms", "p95"), show=delay
    ),
    Merit(
        "queue_delay_median_ms",
        "the bottleneck's queue, median (ms)",
        under_load("queue_delay_ms", "median"),
        show=delay,
    ),
    Merit(
        "queue_delay_p95_ms",
        "the bottleneck's queue, 95 % (ms)",
        under_load("queue_delay_ms", "p95"),
        show=delay,
    ),
    Merit("ping_median_ms", "ping under load, median (ms)", ping_ms("median_ms"), show=delay),
    Merit("ping_p95_ms", "ping under load, 95 % (ms)", ping_ms("p95_ms"), show=delay),
    Merit("ping_p99_ms", "ping under load, 99 % (ms)", ping_ms("p99_ms"), show=delay),
    Merit("fetch_median_s", "a short download, median (s)", fetch_s("median_s")),
    Merit("fetch_p95_s", "a short download, 95 % (s)", fetch_s("p95_s")),
    Merit(
        "window_pkts",
        "mean window (packets)",
        of_run=window_pkts,
        of_flow=window_pkts,
        from_series=True,
        label="Mean window (segments)",
    ),
    Merit(
        "jain",
        "Jain's index",
        of_run=together("jain"),
        show=ratio,
        from_series=True,
        label="Jain's index (1 is fair)",
    ),
    Merit(
        "convergence_s",
        "time to converge (s)",
        of_run=together("convergence_s"),
        of_cell=times_to_converge,
        from_series=True,
    ),
    Merit(
        "total_mbit",
        "all flows together (Mbit/s)",
        of_run=together("total_mbit"),
        from_series=True,
        label="All flows (Mbit/s)",
    ),
    Merit(
        "share",
        "share of the sum",
        of_flow=lambda run, flow: over_time(run).get(f"share:{flow}"),
        show=percent,
        label="Share of the sum (%)",
    ),
    Merit("ratio", "goodput, ratio", of_cell=ratio_to, show=ratio, label="Goodput (ratio)"),
    Merit(
        "goodput_best3",
        "goodput, mean of the fastest three (Mbit/s)",
        of_cell=best_three,
        label="Goodput, fastest three (Mbit/s)",
    ),
)
BY_KEY: Mapping[str, Merit] = MappingProxyType(
    {key: merit for merit in MERITS for key in (merit.name, merit.key)}
)


def merit_of(figure: str) -> Merit:
    """The figure of that name, or of that column, whichever flow it is of. Raises KeyError."""
    return BY_KEY[figure.partition(":")[0]]


def value_of(run: RunFolder, figure: str) -> float | None:
    """A figure of a run ("goodput"), or of one of its flows ("share:flow2")."""
    flow, merit = figure.partition(":")[2], merit_of(figure)
    if flow:
        found = merit.of_flow(run, flow) if merit.of_flow else None
    else:
        found = merit.of_run(run) if merit.of_run else None
    return None if found is None else float(found)
