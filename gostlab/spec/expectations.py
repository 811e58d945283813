# SPDX-License-Identifier: MIT
"""Read expectations: what the metrics of a matrix's runs must be, and of which cells and flows.

    expect:
      - goodput: ">= 8 Mbit/s"                    every run of every cell
        median srtt_p95_ms: "<= 60 ms"            the interval of the median over a cell's runs
      - cells: {loss: 1%}                         cells with these levels
        bbr.goodput: ">= 3 × cubic.goodput"       a cell beside the cell of another level
        flow2.share: "50 % ± 5 %"                 a flow; without a flow, every flow
        verdict: ok

A relation compares runs of one repetition, which have one seed. The functions are pure;
gostlab.analysis.stats.expectations judges runs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from gostlab.registry.plot_names import metrics_by_name
from gostlab.spec import units
from gostlab.spec.run_spec import Levels, RunSpec
from gostlab.spec.units import UnitError, quoted
from gostlab.spec.verdict import VERDICTS
from gostlab.spec.yaml_source import (
    BadInput,
    JsonSchema,
    Node,
    list_of,
    mapping_of,
    suggest_name,
    takes,
    text_of,
    unknown_key,
)

VERDICT = "verdict"
MEDIAN = "median "
CELLS = "cells"
# With fewer runs no interval of the median reaches 95 % (gostlab.analysis.stats.statistics).
MIN_FOR_MEDIAN = 6
COMPARISON = re.compile(r"(>=|<=|>|<|=|≥|≤)\s*(.+)", re.DOTALL)
BAND = re.compile(r"=?\s*(.+?)\s*(?:±|\+-|\+/-)\s*(.+)", re.DOTALL)
RANGE = re.compile(r"(.+?)\s*\.\.\s*(.+)", re.DOTALL)
MULTIPLE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*[×x*]\s*(.+)", re.DOTALL)
PLAIN = re.compile(r"\d{1,12}(?:\.\d{1,12})?")
# `./lab try --expect` has key and value in one text.
TEXT = re.compile(r"\s*([^<>=≥≤:]+?)\s*(?::\s*(.+)|([<>=≥≤].*))", re.DOTALL)
# Metrics that count, but whose unit does not say so.
COUNTS = ("retr", "marked", "stalls", "switches")
NOWHERE = Node("", None, "")
FORMS = 'like ">= 8 Mbit/s", "50 % ± 5 %" or ">= 3 × cubic.goodput"'


@dataclass(frozen=True)
class Operand:
    """Represent a metric of a cell or a flow; `prefix` is resolved when the cells are known."""

    prefix: str  # "" | FLOW | LEVEL | LEVEL.FLOW
    metric: str  # column of gostlab.analysis.stats.metrics, or verdict

    def __str__(self) -> str:
        return f"{self.prefix}.{self.metric}" if self.prefix else self.metric


@dataclass(frozen=True)
class Limit:
    """Represent one end of the expected values, in the metric's unit or as a factor."""

    value: float
    is_inclusive: bool = True


@dataclass(frozen=True)
class Expectation:
    """Represent what a metric of some cells must be."""

    subject: Operand
    text: str  # the user's text: goodput >= 8 Mbit/s
    low: Limit | None = None
    high: Limit | None = None
    reference: Operand | None = None  # the limits are factors of this metric
    verdicts: tuple[str, ...] = ()  # accepted verdicts, where the metric is the verdict
    of_median: bool = False
    levels: Levels = field(default_factory=dict)  # cells that it is about; empty: all
    node: Node = NOWHERE
    cells_node: Node = NOWHERE  # the value of `cells`


@dataclass(frozen=True)
class CellView:
    """Represent what an expectation needs to know of a cell: its levels and flows."""

    matrix: str
    factors: Mapping[str, str]
    flows: tuple[str, ...]
    competing: tuple[str, ...]  # flows with a congestion control
    repetitions: int


@dataclass(frozen=True)
class Bound:
    """Represent an expectation of one cell or flow, and the cell that it is compared with.

    subject and reference are positions in the list of cells that `bind` received.
    """

    expectation: Expectation
    subject: int
    flow: str = ""
    reference: int | None = None
    reference_flow: str = ""


# -- metrics and their quantities


def metric_names() -> list[str]:
    known = metrics_by_name()
    return [VERDICT, *(name for name, metric in known.items() if metric.of_run or metric.of_flow)]


def is_share(metric: Any) -> bool:
    return not metric.unit and (metric.name == "share" or metric.name.endswith("_share"))


def is_count(metric: Any) -> bool:
    return metric.unit == "segments" or metric.name in COUNTS


def read_quantity(metric: Any, text: str) -> float:
    """Return a quantity in the metric's unit. Raises UnitError."""
    if is_share(metric):
        return float(units.parse_share(text))
    if metric.unit == "Mbit/s":
        return units.parse_rate(text) / 1e6
    if metric.unit == "ms":
        return float(1000 * units.parse_seconds(text))
    if metric.unit == "s":
        return float(units.parse_seconds(text, "s"))
    number = text.strip().removesuffix(metric.unit).strip() if metric.unit else text.strip()
    if not PLAIN.fullmatch(number):
        unit = f" of {metric.unit}" if metric.unit else ""
        raise UnitError(f"{quoted(text)} is no number{unit} (like 10)")
    return float(number)


# -- reading


def group_schema() -> JsonSchema:
    names = "|".join(re.escape(name) for name in metric_names())
    return {
        "type": "object",
        "properties": {CELLS: {"type": "object", "description": "levels of the cells it is about"}},
        "patternProperties": {rf"^\s*({MEDIAN})?(.+\.)?({names})\s*$": {"type": "string"}},
        "additionalProperties": False,
        "minProperties": 1,
    }


def expect_schema() -> JsonSchema:
    """Return the JSON Schema of a mapping of expectations, or of a list of such mappings."""
    group = group_schema()
    return {"anyOf": [group, {"type": "array", "items": group, "minItems": 1}]}


@takes(expect_schema)
def read_expectations(node: Node) -> tuple[Expectation, ...]:
    """Return the expectations of a matrix. Raises BadInput."""
    if node.items is None:
        return read_group(node)
    groups = list_of(GROUP, least=1)(node)
    return tuple(expectation for group in groups for expectation in group)


@takes(group_schema)
def GROUP(node: Node) -> tuple[Expectation, ...]:
    return read_group(node)


def read_group(node: Node) -> tuple[Expectation, ...]:
    """Return the expectations of one mapping. Raises BadInput."""
    given = dict(mapping_of(node))
    cells = given.pop(CELLS, None)
    levels = {} if cells is None else {n: text_of(v) for n, v in mapping_of(cells).items()}
    if not given:
        raise node.bad(f"no metric with what is expected of it ({FORMS})")
    expectations = []
    for key, value in given.items():
        expectation = read_expectation(node, key, value)
        expectations.append(replace(expectation, levels=levels, cells_node=cells or value))
    return tuple(expectations)


def read_expectation(group: Node, key: str, node: Node) -> Expectation:
    """Return one expectation from its key and value. Raises BadInput."""
    written = " ".join(key.split())
    of_median = written.startswith(MEDIAN)
    subject = read_operand(written.removeprefix(MEDIAN))
    if subject is None:
        raise unknown_key(group, key, [CELLS, *metric_names()])
    value = " ".join(text_of(node).split())
    text = f"{written} {value}" if COMPARISON.fullmatch(value) else f"{written}: {value}"
    expectation = Expectation(subject, text, of_median=of_median, node=node)
    if subject.metric == VERDICT:
        if of_median:
            raise node.bad("a verdict has no median (write verdict: ok)")
        return replace(expectation, verdicts=read_verdicts(node, value))
    try:
        return read_limits(expectation, value)
    except UnitError as error:
        raise node.bad_value(str(error)) from None


def read_operand(text: str) -> Operand | None:
    """Return a metric with its prefix, or None if it names no metric."""
    prefix, _, name = text.strip().rpartition(".")
    if name == VERDICT:
        return Operand(prefix, VERDICT)
    if name not in metric_names():
        return None
    return Operand(prefix, metrics_by_name()[name].key)


def read_verdicts(node: Node, text: str) -> tuple[str, ...]:
    """Return the accepted verdicts: ok; ok or degraded. Raises BadInput."""
    verdicts = tuple(text.removeprefix("=").strip().split(" or "))
    for verdict in verdicts:
        if verdict not in VERDICTS:
            raise node.bad_value(f"no verdict ({', '.join(VERDICTS)}; like ok or degraded)")
    return verdicts


def read_limits(expectation: Expectation, text: str) -> Expectation:
    """Return an expectation with its limits. Raises UnitError."""
    metric = metrics_by_name()[expectation.subject.metric]
    if band := BAND.fullmatch(text):
        return with_band(expectation, metric, *band.groups())
    if comparison := COMPARISON.fullmatch(text):
        operator, bound = comparison.groups()
        value, reference = read_term(metric, bound)
        limit = Limit(value, is_inclusive=operator not in ("<", ">"))
        if operator == "=":
            if not is_count(metric):
                raise UnitError(f"= is for counts (write a band: {bound} ± 5 %)")
            return replace(expectation, low=limit, high=limit, reference=reference)
        if operator in (">=", ">", "≥"):
            return replace(expectation, low=limit, reference=reference)
        return replace(expectation, high=limit, reference=reference)
    if limits := RANGE.fullmatch(text):
        low, high = (read_quantity(metric, end) for end in limits.groups())
        if low > high:
            raise UnitError("the lower end is above the upper one")
        return replace(expectation, low=Limit(low), high=Limit(high))
    raise UnitError(f"no bound and no relation ({FORMS})")


def with_band(expectation: Expectation, metric: Any, centre: str, tolerance: str) -> Expectation:
    """Return an expectation of a value ± a tolerance. Raises UnitError.

    A tolerance in % is a part of the value; that of a share is in percentage points.
    """
    value, reference = read_term(metric, centre)
    if reference is None and (is_share(metric) or not tolerance.endswith("%")):
        width = read_quantity(metric, tolerance)
    else:
        width = float(Fraction(value) * units.parse_share(tolerance))
    return replace(
        expectation, low=Limit(value - width), high=Limit(value + width), reference=reference
    )


def read_term(metric: Any, text: str) -> tuple[float, Operand | None]:
    """Return a quantity, or the factor of another metric and that metric. Raises UnitError."""
    multiple = MULTIPLE.fullmatch(text.strip())
    operand = read_operand(multiple[2] if multiple else text)
    if operand is None:
        if multiple:
            raise UnitError(f"{quoted(multiple[2])} is no metric ({meant_metric(multiple[2])})")
        return read_quantity(metric, text), None
    known = metrics_by_name()
    other = known.get(operand.metric)
    if other is None or quantity_of(other) != quantity_of(metric):
        raise UnitError(f"{operand.metric} is another quantity than {metric.key}")
    return (float(multiple[1]) if multiple else 1.0), operand


def quantity_of(metric: Any) -> str:
    """Return what a metric counts or measures: metrics with the same one can be compared."""
    if is_share(metric):
        return "share"
    return metric.unit or ("segments" if metric.name == "retr" else metric.name)


def meant_metric(text: str) -> str:
    return suggest_name(text.rpartition(".")[2], metric_names())


def split_text(text: str) -> tuple[str, str]:
    """Return key and value of an expectation in one text. Raises BadInput."""
    match = TEXT.fullmatch(text)
    if match is None:
        raise BadInput(
            f"--expect {quoted(text)}: no metric with a bound (like goodput >= 8 Mbit/s)"
        )
    return match[1], (match[2] or match[3]).strip()


# -- cells


def cells_of(runs: Iterable[RunSpec]) -> list[CellView]:
    """Return the cells of some runs, in their order."""
    runs = list(runs)
    repetitions = Counter(run.cell for run in runs)
    first = {run.cell: run for run in reversed(runs)}
    return [
        CellView(
            matrix=first[cell].matrix,
            factors={name: str(level) for name, level in first[cell].factors.items()},
            flows=tuple(flow.name for flow in first[cell].flows),
            competing=tuple(flow.name for flow in first[cell].flows if flow.cc),
            repetitions=repetitions[cell],
        )
        for cell in repetitions
    ]


def bind_expectation(expectation: Expectation, cells: Sequence[CellView]) -> list[Bound]:
    """Return an expectation of each cell and flow of one matrix that it is about.

    Raises BadInput if there are none, or if it is not clear which.
    """
    node, wanted = expectation.node, expectation.levels
    check_levels(expectation, cells)
    selected = [n for n, cell in enumerate(cells) if matches_levels(cell, wanted)]
    if not selected:
        raise expectation.cells_node.bad(f"no cell has all of {describe_levels(wanted)}")
    factor, level, flow = resolve_reference(expectation, expectation.subject, cells, selected)
    about = [n for n in selected if not factor or cells[n].factors.get(factor) == level]
    if not about:
        raise node.bad(f"{expectation.subject.prefix}: no cell of these has it")
    too_few = [cells[n].repetitions for n in about if cells[n].repetitions < MIN_FOR_MEDIAN]
    if expectation.of_median and too_few:
        raise node.bad_value(
            f"the median's interval needs {MIN_FOR_MEDIAN} runs of a cell, and there are"
            f" {too_few[0]} (raise repetitions, or write {expectation.subject})"
        )
    bound = [
        Bound(expectation, n, name) for n in about for name in flows_of(expectation, cells[n], flow)
    ]
    if expectation.reference is not None:
        bound = with_references(bound, expectation.reference, cells, factor)
    return bound


def with_references(
    bound: Sequence[Bound], reference: Operand, cells: Sequence[CellView], of_factor: str
) -> list[Bound]:
    """Return bound expectations with the cell and flow of the reference. Raises BadInput."""
    expectation = bound[0].expectation
    factor, level, flow = resolve_reference(
        expectation, reference, cells, range(len(cells)), of_factor
    )
    check_flow_metric(expectation, reference.metric, flow)
    related = []
    for one in bound:
        cell_runs = cells[one.subject]
        if flow and flow not in cell_runs.flows:
            raise expectation.node.bad_value(f"{reference}: no flow {flow} in every cell")
        if not factor:
            related.append(replace(one, reference=one.subject, reference_flow=flow))
            continue
        others = [
            n
            for n, cell in enumerate(cells)
            if cell.factors == {**cell_runs.factors, factor: level}
        ]
        if one.subject in others and flow == one.flow:
            continue  # a cell beside itself
        if not others:
            beside = describe_levels({**cell_runs.factors, factor: level})
            raise expectation.node.bad_value(f"{reference}: no cell has {beside}")
        related.append(replace(one, reference=others[0], reference_flow=flow))
    if not related:
        raise expectation.node.bad_value(f"{reference}: compared with nothing but itself")
    return related


def check_levels(expectation: Expectation, cells: Sequence[CellView]) -> None:
    """Reject levels that no cell has. Raises BadInput."""
    node = expectation.cells_node
    for name, level in expectation.levels.items():
        levels = list(dict.fromkeys(c.factors[name] for c in cells if name in c.factors))
        if not levels:
            factors = dict.fromkeys(factor for cell in cells for factor in cell.factors)
            advice = suggest_name(name, factors) if factors else "the matrix has no factors"
            raise node.bad(f"{quoted(name)[1:-1]}: no factor of the matrix ({advice})")
        if level not in levels:
            raise node.bad(f"no cell has {name} {quoted(level)} ({suggest_name(level, levels)})")


def matches_levels(cell: CellView, levels: Levels) -> bool:
    return all(cell.factors.get(name) == level for name, level in levels.items())


def describe_levels(levels: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {level}" for name, level in levels.items()) or "no levels"


def resolve_reference(
    expectation: Expectation,
    operand: Operand,
    cells: Sequence[CellView],
    selected: Iterable[int],
    of_factor: str = "",
) -> tuple[str, str, str]:
    """Return factor, level and flow that an operand's prefix names; "" if it names none.

    `of_factor` is preferred if several factors have the level. Raises BadInput.
    """
    chosen = [cells[n] for n in selected]
    prefix = operand.prefix
    flows = dict.fromkeys(flow for cell in chosen for flow in cell.flows)
    factors_of: dict[str, dict[str, None]] = {}
    for cell in chosen:
        for name, level in cell.factors.items():
            factors_of.setdefault(level, {})[name] = None
    if not prefix:
        return "", "", ""
    if prefix in flows and prefix in factors_of:
        raise expectation.node.bad_value(
            f"{operand}: {prefix} is a flow and a level (write cells: {{…}})"
        )
    level, flow = prefix, ""
    if prefix in flows:
        return "", "", prefix
    if prefix not in factors_of:
        level, _, flow = prefix.rpartition(".")
    if level not in factors_of or (flow and flow not in flows):
        known = suggest_name(prefix, [*factors_of, *flows])
        raise expectation.node.bad_value(
            f"{operand}: {quoted(prefix)} is no level and no flow of the matrix ({known})"
        )
    factors = list(factors_of[level])
    if of_factor in factors:
        factors = [of_factor]
    if len(factors) > 1:
        raise expectation.node.bad_value(
            f"{operand}: {level} is a level of {' and '.join(factors)} (write cells: {{…}})"
        )
    return factors[0], level, flow


def flows_of(expectation: Expectation, cell: CellView, flow: str) -> tuple[str, ...]:
    """Return the flows that an expectation is about; ("",) for all together. Raises BadInput."""
    metric_name = expectation.subject.metric
    if flow and flow not in cell.flows:
        raise expectation.node.bad_value(f"no flow {flow} in every cell (write cells: {{…}})")
    if metric_name == "share" and len(cell.competing) < 2:
        raise expectation.node.bad_value("share: one flow alone has all of it")
    if metric_name != VERDICT and not flow and metrics_by_name()[metric_name].of_run is None:
        return cell.competing
    check_flow_metric(expectation, metric_name, flow)
    return (flow,)


def check_flow_metric(expectation: Expectation, metric_name: str, flow: str) -> None:
    """Reject a flow where the metric is of all flows, and the reverse. Raises BadInput."""
    of_flow = metric_name != VERDICT and metrics_by_name()[metric_name].of_flow is not None
    of_run = metric_name == VERDICT or metrics_by_name()[metric_name].of_run is not None
    if flow and not of_flow:
        raise expectation.node.bad_value(
            f"{metric_name} is of the whole run (write it without {flow}.)"
        )
    if not flow and not of_run:
        raise expectation.node.bad_value(f"{metric_name} is of one flow (write FLOW.{metric_name})")


def bind_all(expectations: Mapping[str, Sequence[Expectation]], runs: Iterable[RunSpec]) -> None:
    """Reject expectations, by matrix, that are about no run of a plan. Raises BadInput."""
    by_matrix: dict[str, list[RunSpec]] = {}
    for run in runs:
        by_matrix.setdefault(run.matrix, []).append(run)
    for matrix, matrix_runs in by_matrix.items():
        for expectation in expectations.get(matrix, ()):
            bind_expectation(expectation, cells_of(matrix_runs))
