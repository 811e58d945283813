"""What became of a matrix: every run by how it ended, for the command line and for programs."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gostlab.results import failure_line
from gostlab.scheduler.queue import Finished, Levels, Standing, rank_of
from gostlab.spec.preflight import Warned


@dataclass(frozen=True)
class Outcome:
    """The end of `run`."""

    experiment: str
    ends: tuple[Finished, ...]
    warned: tuple[Warned, ...] = ()  # what was warned of before anything ran
    wide: tuple[Standing, ...] = ()  # cells that no repetition made narrow enough
    levels: Levels = field(default_factory=dict)

    def those(self, state: str) -> list[Finished]:
        """The runs in a state (Finished.state)."""
        return [end for end in self.ends if end.state == state]

    @property
    def broke(self) -> bool:
        """Whether a run failed, or this kernel can do none of all (a shard may be of nothing)."""
        nothing_answered = self.ends and len(self.those("unsupported")) == len(self.ends)
        return bool(nothing_answered or self.those("failed"))

    @property
    def complaints(self) -> list[str]:
        """A line for every run that does not count; what the kernel lacks once per reason."""
        lines = [failure_line(end.folder, end.status) for end in self.those("failed")]
        lines += [
            f"{end.run.name}: invalid: see fidelity.json there" for end in self.those("invalid")
        ]
        cells: dict[str, dict[str, None]] = {}  # by reason, each cell once
        for end in self.those("unsupported"):
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
        """The runs by matrix and level, as the experiment's file lists them."""
        matrices = list(self.levels)

        def position(end: Finished) -> tuple[int, ...]:
            run = end.run
            if run.matrix not in self.levels:
                return (len(matrices),)
            return (matrices.index(run.matrix), *rank_of(run, self.levels), run.repetition)

        return sorted(self.ends, key=position)

    @property
    def first_cc(self) -> dict[str, str]:
        """Matrix -> the congestion control that its file names first, where it compares some."""
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
