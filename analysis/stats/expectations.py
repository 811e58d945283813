# SPDX-License-Identifier: MIT
"""Judge expectations: whether the runs of a matrix's cells are as its file says they must be."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.study import format_level
from gostlab.analysis.stats.metrics import metric_of, value_of
from gostlab.analysis.stats.statistics import summarise
from gostlab.results.duplicate_runs import copies
from gostlab.spec.expectations import (
    VERDICT,
    Bound,
    CellView,
    Expectation,
    Limit,
    Operand,
    bind_expectation,
    is_share,
)
from gostlab.spec.labels import cell_label
from gostlab.spec.yaml_source import BadInput

PASSED, FAILED, NOT_JUDGED = "passed", "failed", "not judged"


@dataclass(frozen=True)
class CellRuns:
    """Represent a cell of a matrix with all of its runs, by repetition."""

    matrix: str
    runs: tuple[RunFolder, ...]

    @property
    def factors(self) -> dict[str, str]:
        return {name: format_level(value) for name, value in self.runs[0].factors}

    @property
    def label(self) -> str:
        return cell_label(self.factors) or self.matrix

    @property
    def view(self) -> CellView:
        run = self.runs[0]
        flows = tuple(flow.name for flow in run.flows)
        competing = tuple(flow.name for flow in run.competitors)
        return CellView(self.matrix, self.factors, flows, competing, len(self.runs))


@dataclass(frozen=True)
class Judgement:
    """Represent an expectation of one cell or flow, and whether its runs meet it."""

    matrix: str
    cell: str  # label
    text: str  # the expectation's text in the file: goodput >= 8 Mbit/s
    state: str  # passed | failed | not judged
    value: str  # the value that is closest to a limit or furthest beyond it
    reason: str  # by how much, or why there is no value
    run: str = ""  # name of that run; "" if the expectation is of the median
    folder: str = ""
    flow: str = ""
    runs: int = 0

    @property
    def passed(self) -> bool:
        return self.state == PASSED

    @property
    def name(self) -> str:
        """Return the expectation with its flow, if it is of every flow."""
        return f"{self.flow}: {self.text}" if self.flow else self.text

    def to_json(self) -> dict[str, object]:
        return {
            "matrix": self.matrix,
            "cell": self.cell,
            "expectation": self.name,
            "state": self.state,
            "value": self.value,
            "reason": self.reason,
            "run": self.run,
            "folder": self.folder,
            "runs": self.runs,
        }


@dataclass(frozen=True)
class MeasuredValue:
    """Represent the value of one run, and how far it lies within the limits (negative: beyond)."""

    run: RunFolder
    value: float | None
    scale: float | None = None  # the limits are factors of it; 1 without a reference
    margin: float = -math.inf  # in the metric's unit
    reason: str = ""
    is_met: bool = False


def evaluate_matrix(
    expectations: Iterable[Expectation], cells: Sequence[CellRuns], *, partial: bool = False
) -> list[Judgement]:
    """Judge the expectations of one matrix.

    partial: do not judge expectations of cells without runs, for a report of unfinished results.
    """
    views = [cell.view for cell in cells]
    judged = []
    for expectation in expectations:
        try:
            bound = bind_expectation(expectation, views)
        except BadInput as error:
            if not partial:
                raise
            reason = str(error).removeprefix(f"{expectation.node.where}: ")
            judged.append(Judgement(cells[0].matrix, "", expectation.text, NOT_JUDGED, "", reason))
            continue
        judged += [evaluate_cell(one, cells) for one in bound]
    return judged


def evaluate_cell(bound: Bound, cells: Sequence[CellRuns]) -> Judgement:
    """Judge an expectation of one cell."""
    cell, expectation = cells[bound.subject], bound.expectation
    flow = bound.flow if bound.flow and not expectation.subject.prefix else ""
    if expectation.of_median:
        state, value, reason = evaluate_median(bound, cells)
        return Judgement(
            matrix=cell.matrix,
            cell=cell.label,
            text=expectation.text,
            state=state,
            value=value,
            reason=reason,
            flow=flow,
            runs=len(cell.runs),
        )
    others = {} if bound.reference is None else by_repetition(cells[bound.reference].runs)
    measured = [measure(bound, run, others.get(repetition_of(run))) for run in cell.runs]
    worst = min(measured, key=lambda each: (each.is_met, each.margin))
    return Judgement(
        matrix=cell.matrix,
        cell=cell.label,
        text=expectation.text,
        state=PASSED if worst.is_met else FAILED,
        value=show_value(expectation.subject, worst.run, worst.value),
        reason=worst.reason,
        run=worst.run.name,
        folder=str(worst.run.folder),
        flow=flow,
        runs=len(cell.runs),
    )


def repetition_of(run: RunFolder) -> tuple[int, int]:
    return run.repetition, run.seed


def by_repetition(runs: Iterable[RunFolder]) -> dict[tuple[int, int], RunFolder]:
    return {repetition_of(run): run for run in runs}


def measure(bound: Bound, run: RunFolder, other: RunFolder | None) -> MeasuredValue:
    """Return the value of a run with its margin to the limits."""
    expectation = bound.expectation
    if expectation.verdicts:
        verdict = run.verdict if run.state == "ok" else run.state
        is_met = verdict in expectation.verdicts
        return MeasuredValue(run, None, reason="" if is_met else why_not_ok(run), is_met=is_met)
    value, problem = metric_value_or_reason(run, expectation.subject, bound.flow)
    if value is None:
        return MeasuredValue(run, None, reason=problem)
    scale, base = 1.0, ""
    if bound.reference is not None:
        reference = expectation.reference
        assert reference is not None
        if other is None:
            return MeasuredValue(run, value, reason=f"{reference} has no run of this repetition")
        reference_value, problem = metric_value_or_reason(other, reference, bound.reference_flow)
        if reference_value is None:
            return MeasuredValue(run, value, reason=f"{reference}: {problem}")
        scale = reference_value
        base = f", {reference} is {show_amount(reference, reference_value)}"
    margin, is_met, reason = compare(expectation, value, scale)
    return MeasuredValue(run, value, scale, margin, reason + base, is_met=is_met)


def metric_value_or_reason(run: RunFolder, operand: Operand, flow: str) -> tuple[float | None, str]:
    """Return a metric of a run, or None and why it has none."""
    if not run.counts:
        return None, why_not_ok(run)
    value = value_of(run, f"{operand.metric}:{flow}" if flow else operand.metric)
    if value is None or math.isnan(value):
        return None, f"this run has no {operand.metric}"
    return value, ""


def why_not_ok(run: RunFolder) -> str:
    """Return why a run's verdict is not ok, in one line."""
    if run.state != "ok":
        return f"{run.state}: {run.error}"
    reasons = [str(c.reason or c.name) for c in run.checks if c.verdict == run.verdict != "ok"]
    return f"{run.verdict}: {reasons[0]}" if reasons else str(run.verdict)


def compare(expectation: Expectation, value: float, scale: float) -> tuple[float, bool, str]:
    """Return the margin of a value to its limits, whether it meets them, and the margin as text.

    `scale` is the value of the reference, of which the limits are factors.
    """
    ends = [(distance_to(value, end, scale), end) for end in limit_ends(expectation)]
    is_met = all(is_within(distance, end.limit, value) for distance, end in ends)
    distance, end = min(ends, key=lambda pair: pair[0])
    limit = end.limit.value * scale
    at = show_amount(expectation.subject, limit)
    side = "above" if (distance > 0) == (end.sign > 0) else "below"
    amount = show_difference(expectation.subject, distance, limit)
    return distance, is_met, f"{amount} {side} {at}" if distance else f"at {at}"


@dataclass(frozen=True)
class LimitEnd:
    """Represent the lower (sign 1) or upper (sign -1) end of the expected values."""

    limit: Limit
    sign: int


def limit_ends(expectation: Expectation) -> list[LimitEnd]:
    ends = ((expectation.low, 1), (expectation.high, -1))
    return [LimitEnd(limit, sign) for limit, sign in ends if limit is not None]


def distance_to(value: float, end: LimitEnd, scale: float) -> float:
    """Return how far a value lies within an end (negative: beyond it), in the metric's unit."""
    return end.sign * (value - end.limit.value * scale)


# The shares of a pair are 0.5 and 1 - 0.5 plus rounding of the last bit.
ROUNDING = 1e-12


def is_within(distance: float, limit: Limit, value: float) -> bool:
    """Return whether a value lies on the right side of a limit, but for rounding."""
    if limit.is_inclusive:
        return distance >= -ROUNDING * abs(value)
    return distance > 0


def evaluate_median(bound: Bound, cells: Sequence[CellRuns]) -> tuple[str, str, str]:
    """Return the state, value and reason of the median: its whole 95 % interval must be right."""
    expectation, cell = bound.expectation, cells[bound.subject]
    alike = copies((run.folder, run.goodput_mbit) for run in cell.runs if run.counts)
    others = {} if bound.reference is None else by_repetition(cells[bound.reference].runs)
    measured = [
        measure(bound, run, others.get(repetition_of(run)))
        for run in cell.runs
        if run.folder not in alike
    ]
    missing = [
        subject_value
        for subject_value in measured
        if subject_value.value is None or subject_value.scale is None
    ]
    if missing:
        return FAILED, "", missing[0].reason
    values = [
        (subject_value.value or 0.0, subject_value.scale or 0.0) for subject_value in measured
    ]
    value_text = show_median(expectation.subject, [value for value, _ in values])
    verdicts = []
    for end in limit_ends(expectation):
        low, high = interval_of([distance_to(value, end, scale) for value, scale in values])
        if low is None or high is None:
            few = f"{len(values)} different runs: too few for an interval"
            return FAILED, value_text, few
        is_met = is_within(low, end.limit, values[0][0])
        by = show_difference(expectation.subject, low if is_met else high, 0)
        reason = f"by {by}" if is_met else f"missed by {by}"
        if not is_met and high >= 0:
            reason = "undecided: the limit lies within the interval"
        verdicts.append((is_met, low, reason))
    is_met, _, reason = min(verdicts)
    return PASSED if is_met else FAILED, value_text, reason


def interval_of(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the median's 95 % interval, the range of several clusters, or (None, None)."""
    summary = summarise(values)
    if summary is None:
        return None, None
    if summary.interval is not None:
        return summary.interval.low, summary.interval.high
    if summary.states or min(values) == max(values):
        return min(values), max(values)
    return None, None


def show_median(operand: Operand, values: Sequence[float]) -> str:
    """Format the median of several values with its interval."""
    summary = summarise(values)
    if summary is None:
        return ""
    value_text, interval = show_amount(operand, summary.median), summary.interval
    if interval is None:
        return value_text
    low, high = show_amount(operand, interval.low), show_amount(operand, interval.high)
    return f"{value_text} ({low} to {high})"


# -- text


def show_value(operand: Operand, run: RunFolder, value: float | None) -> str:
    """Format the value of a run, or its verdict; "" if it has none."""
    if operand.metric == VERDICT:
        return str(run.verdict if run.state == "ok" else run.state)
    return "" if value is None else show_amount(operand, value)


def show_amount(operand: Operand, value: float) -> str:
    """Format a metric's value with its unit, to six digits."""
    metric = metric_of(operand.metric)
    if is_share(metric):
        return f"{100 * value:.6g} %"
    return f"{value:.6g} {metric.unit}".strip()


def show_difference(operand: Operand, difference: float, limit: float) -> str:
    """Format a distance from a limit, absolute and as a part of the limit."""
    metric = metric_of(operand.metric)
    if is_share(metric):
        return f"{100 * abs(difference):.4g} points"
    amount = f"{abs(difference):.4g} {metric.unit}".strip()
    return f"{amount} ({100 * abs(difference / limit):.3g} %)" if limit else amount


def summary_line(judged: Sequence[Judgement]) -> str:
    """Return how many expectations passed and failed."""
    states = [judgement.state for judgement in judged]
    line = (
        f"{len(judged)} expectations: {states.count(PASSED)} passed, {states.count(FAILED)} failed"
    )
    without = states.count(NOT_JUDGED)
    return f"{line}, {without} not judged" if without else line


def cells_by_levels(runs: Iterable[RunFolder]) -> list[CellRuns]:
    """Group the runs of one variant of a matrix by their levels and settings, in order."""
    groups: dict[Any, list[RunFolder]] = {}
    for run in runs:
        groups.setdefault((run.matrix, run.factors, run.settings), []).append(run)
    return [
        CellRuns(key[0], tuple(sorted(group, key=repetition_of))) for key, group in groups.items()
    ]


def evaluate_expectations(
    expectations: Mapping[str, Sequence[Expectation]], runs: Sequence[RunFolder]
) -> list[Judgement]:
    """Judge the expectations of several matrices, by name, over their runs."""
    judged = []
    for matrix, of_matrix in expectations.items():
        cells = cells_by_levels(run for run in runs if run.matrix == matrix)
        if cells:
            judged += evaluate_matrix(of_matrix, cells)
    return judged
