# SPDX-License-Identifier: MIT
"""Represent the result of an experiment: how every run ended."""

import math
from collections import Counter
from dataclasses import dataclass, field
from html import escape

from gostlab.results import failure_line
from gostlab.results.run_result import RunResult
from gostlab.scheduler.cell_result import CellResult
from gostlab.scheduler.executor import Levels, rank_of
from gostlab.spec.preflight import MatrixWarning


@dataclass(frozen=True)
class ExperimentResult:
    """Represent the result of all runs of one experiment."""

    experiment: str
    runs: tuple[RunResult, ...]
    warned: tuple[MatrixWarning, ...] = ()  # warnings of the guards, before any run
    wide: tuple[CellResult, ...] = ()  # cells whose interval is wider than requested
    levels: Levels = field(default_factory=dict)

    def in_state(self, state: str) -> list[RunResult]:
        """Return the runs in a state (see RunResult.state)."""
        return [end for end in self.runs if end.state == state]

    @property
    def broke(self) -> bool:
        """Return whether a run failed, or this kernel supports none. An empty shard is fine."""
        nothing_answered = self.runs and len(self.in_state("unsupported")) == len(self.runs)
        return bool(nothing_answered or self.in_state("failed"))

    @property
    def complaints(self) -> list[str]:
        """Return a line for every run that does not count; one line per reason if unsupported."""
        lines = [failure_line(end.folder, end.status) for end in self.in_state("failed")]
        lines += [
            f"{end.run.name}: invalid: see fidelity.json there" for end in self.in_state("invalid")
        ]
        cells: dict[str, dict[str, None]] = {}  # reason -> cells, without duplicates
        for end in self.in_state("unsupported"):
            cells.setdefault(str(end.error), {})[end.run.cell] = None
        return lines + [f"not possible here: {why} ({', '.join(cells[why])})" for why in cells]

    @property
    def counts_line(self) -> str:
        count = Counter(end.state for end in self.runs)
        line = (
            f"{len(self.runs)} {'run' if len(self.runs) == 1 else 'runs'}:"
            f" {count['good'] + count['degraded']} good ({count['degraded']} of them degraded),"
            f" {count['invalid']} invalid, {count['failed']} failed"
        )
        left_out = count["unsupported"]
        return line + (f", {left_out} not possible here" if left_out else "")

    @property
    def in_order(self) -> list[RunResult]:
        """Return the runs sorted by matrix and level, as the experiment's file lists them."""
        matrices = list(self.levels)

        def position(end: RunResult) -> tuple[int, ...]:
            run = end.run
            if run.matrix not in self.levels:
                return (len(matrices),)
            return (matrices.index(run.matrix), *rank_of(run, self.levels), run.repetition)

        return sorted(self.runs, key=position)

    @property
    def first_cc(self) -> dict[str, str]:
        """Map each matrix that compares congestion controls to the first one in its file."""
        controls = {matrix: factors.get("cc", ()) for matrix, factors in self.levels.items()}
        return {matrix: known[0] for matrix, known in controls.items() if len(known) > 1}

    def _repr_html_(self) -> str:
        """Return a table of the runs as HTML, which notebooks show."""
        columns = ("run", "verdict", "Mbit/s")
        rows = [
            (end.run.name, str(end.error or end.verdict), f"{end.goodput_mbit or math.nan:.4g}")
            for end in self.in_order
        ]
        cells = ["".join(f"<td>{escape(text)}</td>" for text in row) for row in rows]
        head = "".join(f"<th>{name}</th>" for name in columns)
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        return f"<p>{escape(self.counts_line)}</p><table><tr>{head}</tr>{body}</table>"

    def to_json(self) -> dict[str, object]:
        runs = [
            {"name": end.run.name, "folder": str(end.folder), "verdict": end.verdict, **end.status}
            for end in self.runs
        ]
        return {
            "runs": runs,
            "guards": [warning.to_json() for warning in self.warned],
            "not_narrow_enough": [cell.to_stopping_json() for cell in self.wide],
        }
