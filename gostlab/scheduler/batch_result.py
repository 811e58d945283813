"""Represent the result of a matrix: how every run ended, for the command line and programs."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gostlab.results import failure_line
from gostlab.scheduler.queue import Finished, Levels, Standing, rank_of
from gostlab.spec.preflight import Warned


@dataclass(frozen=True)
class Outcome:
    """Represent the result of all runs of one experiment."""

    experiment: str
    ends: tuple[Finished, ...]
    warned: tuple[Warned, ...] = ()  # warnings of the guards, before any run
    wide: tuple[Standing, ...] = ()  # cells whose interval is wider than requested
    levels: Levels = field(default_factory=dict)

    def in_state(self, state: str) -> list[Finished]:
        """Return the runs in a state (see Finished.state)."""
        return [end for end in self.ends if end.state == state]

    @property
    def broke(self) -> bool:
        """Return whether a run failed or every run is unsupported on this kernel.

        An empty shard is fine.
        """
        nothing_answered = self.ends and len(self.in_state("unsupported")) == len(self.ends)
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
            cells.setdefault(str(end.status.get("error")), {})[end.run.cell] = None
        return lines + [f"not possible here: {why} ({', '.join(cells[why])})" for why in cells]

    @property
    def counts_line(self) -> str:
        count = Counter(end.state for end in self.ends)
        line = (
            f"{len(self.ends)} {'run' if len(self.ends) == 1 else 'runs'}:"
            f" {count['good'] + count['degraded']} good ({count['degraded']} of them degraded),"
            f" {count['invalid']} invalid, {count['failed']} failed"
        )
        left_out = count["unsupported"]
        return line + (f", {left_out} not possible here" if left_out else "")

    @property
    def in_order(self) -> list[Finished]:
        """Return the runs sorted by matrix and level, as the experiment's file lists them."""
        matrices = list(self.levels)

        def position(end: Finished) -> tuple[int, ...]:
            run = end.run
            if run.matrix not in self.levels:
                return (len(matrices),)
            return (matrices.index(run.matrix), *rank_of(run, self.levels), run.repetition)

        return sorted(self.ends, key=position)

    @property
    def first_cc(self) -> dict[str, str]:
        """Map each matrix that compares congestion controls to the first one in its file."""
        controls = {matrix: factors.get("cc", ()) for matrix, factors in self.levels.items()}
        return {matrix: known[0] for matrix, known in controls.items() if len(known) > 1}

    def to_json(self) -> dict[str, Any]:
        runs = [
            {"name": end.run.name, "folder": str(end.folder), "verdict": end.verdict, **end.status}
            for end in self.ends
        ]
        return {
            "runs": runs,
            "guards": [warning.to_json() for warning in self.warned],
            "not_narrow_enough": [cell.to_json() for cell in self.wide],
        }
