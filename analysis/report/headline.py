# SPDX-License-Identifier: MIT
"""Write the headline of a matrix: its main metric over its cells and congestion controls."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gostlab.analysis.load.run_json import FlowRecord
from gostlab.analysis.stats.cells import Cell, MatrixResults, display_order, without_names
from gostlab.analysis.stats.metrics import Metric, metric_of
from gostlab.analysis.stats.statistics import Summary
from gostlab.analysis.stats.table_formats import NBSP, cc_name, format_range
from gostlab.results.metrics import format_clusters
from gostlab.spec.labels import cell_label


@dataclass(frozen=True)
class Headline:
    """One sentence on a matrix, and the range of the runs of each cell that it names."""

    sentence: str
    spread: str = ""  # "" if one of them has a single run
    contrast: str = ""  # a sentence on the condition where the congestion controls differ most

    @property
    def text(self) -> str:
        return f"{self.sentence} {self.contrast}".rstrip()


@dataclass(frozen=True)
class HeadlineEntry:
    """A summary of the main metric, of a cell or of one of its flows."""

    summary: Summary
    cell: Cell
    flow: FlowRecord | None = None

    @property
    def location_label(self) -> str:
        """Return the flow and the levels of the cell."""
        levels = self.cell.label if self.cell.factors else ""
        if self.flow is None:
            return levels
        flow = f"{self.flow.name}, {cc_name(self.flow.cc or self.flow.traffic_type)}"
        return "; ".join(filter(None, (flow, levels)))


def write_headline(matrix: MatrixResults, metrics: Sequence[str]) -> Headline | None:
    """Return the headline on the first metric with a value, else on goodput; None without runs."""
    for name in dict.fromkeys((*metrics, "goodput")):
        entries = sorted(entries_of(matrix, name), key=lambda entry: entry.summary.median)
        if entries:
            headline = to_headline(metric_of(name), entries)
            return replace(headline, contrast=contrast_sentence(metric_of(name), entries))
    return None


def contrast_sentence(metric: Metric, entries: Sequence[HeadlineEntry]) -> str:
    """Name the condition in which the congestion controls differ most, and their values.

    "" if there is one condition or one congestion control, or if flows have the metric.
    """
    by_condition: dict[Any, dict[str, HeadlineEntry]] = {}
    for entry in entries:
        if entry.flow is None:
            by_condition.setdefault(entry.cell.key_without_cc, {})[entry.cell.example.cc] = entry
    several = [list(of_cc.values()) for of_cc in by_condition.values() if len(of_cc) > 1]
    if len(by_condition) < 2 or not several:
        return ""
    widest = max(several, key=lambda alike: alike[-1].summary.median - alike[0].summary.median)
    low, high = widest[0].summary.median, widest[-1].summary.median
    cell = widest[0].cell
    levels = cell_label(display_order(without_names(cell.factors, "cc")), cc_name)
    values = ", ".join(
        f"{cc_name(entry.cell.example.cc)} {format_amount(metric, entry)}"
        for entry in reversed(widest)
    )
    factor = f", a factor of {high / low:.3g}" if low > 0 and high / low >= 1.005 else ""
    return f"The congestion controls differ most at {levels}: {values}{factor}."


def format_amount(metric: Metric, entry: HeadlineEntry) -> str:
    states = format_clusters(entry.summary.states, metric.show)
    return f"{states or metric.show(entry.summary.median)}{NBSP}{metric.unit}".rstrip(NBSP)


def entries_of(matrix: MatrixResults, name: str) -> Iterator[HeadlineEntry]:
    """Yield the summaries of a metric over all cells, of each flow if only flows have it."""
    for cell in matrix.cells:
        of_flows = metric_of(name).of_run is None
        for flow in cell.example.competitors if of_flows else (None,):
            summary = cell.summary(name if flow is None else f"{name}:{flow.name}")
            if summary is not None:
                yield HeadlineEntry(summary, cell, flow)


def to_headline(metric: Metric, entries: Sequence[HeadlineEntry]) -> Headline:
    """Format the headline of entries by rising value."""
    named = entries if len(entries) == 1 else [entries[0], entries[-1]]
    values = [format_amount(metric, entry) for entry in named]
    sizes = [entry.summary.n for entry in entries]
    runs = f"n{NBSP}={NBSP}{format_range(min(sizes), max(sizes))}"
    cells = {entry.cell.key: entry.cell for entry in entries}
    degraded = sum(cell.verdict == "degraded" for cell in cells.values())
    basis = f"{runs}, {degraded} degraded" if degraded else runs
    label = metric.label[:1].upper() + metric.label[1:]
    if len(entries) == 1:
        text = (
            f"{label}: {values[0]} ({'; '.join(filter(None, (named[0].location_label, basis)))})."
        )
    else:
        ends = " to ".join(
            f"{value} ({entry.location_label})" for value, entry in zip(values, named, strict=True)
        )
        over = f" over {len(cells)} cells" if len(cells) > 1 else ""
        text = f"{label}: from {ends}{over} ({basis})."
    return Headline(text, range_of_runs(metric, named))


def range_of_runs(metric: Metric, entries: Sequence[HeadlineEntry]) -> str:
    """Format the ranges of the runs behind some summaries; "" if one has a single run."""
    if any(entry.summary.n < 2 for entry in entries):
        return ""
    ranges = [
        dict.fromkeys(map(metric.show, (min(entry.summary.values), max(entry.summary.values))))
        for entry in entries
    ]
    return " and ".join(" to ".join(ends) for ends in ranges)
