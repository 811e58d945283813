"""What became of a matrix: every run by how it ended, for the command line and for programs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gostlab.describe.guards import Warned
from gostlab.results import failure_line
from gostlab.runs.schedule import Finished, Standing


@dataclass(frozen=True)
class Outcome:
    """The end of `run`."""

    experiment: str
    ends: tuple[Finished, ...]
    warned: tuple[Warned, ...] = ()  # what was warned of before anything ran
    wide: tuple[Standing, ...] = ()  # cells that no repetition made narrow enough
    # matrix -> factor -> levels, in the order in which people wrote them
    levels: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    @property
    def failed(self) -> list[Finished]:
        """The runs that have no answer because something broke."""
        return [end for end in self.ends if end.outcome not in ("ok", "unsupported")]

    @property
    def unsupported(self) -> list[Finished]:
        """The runs that this kernel cannot do."""
        return [end for end in self.ends if end.outcome == "unsupported"]

    @property
    def invalid(self) -> list[Finished]:
        """The runs that ended well and answer something else than was asked."""
        ran = [end for end in self.ends if end.outcome == "ok"]
        return [end for end in ran if end.verdict not in ("ok", "degraded")]

    @property
    def degraded(self) -> list[Finished]:
        """The runs that count, and in which something else had a say."""
        return [end for end in self.ends if end.outcome == "ok" and end.verdict == "degraded"]

    @property
    def good(self) -> list[Finished]:
        """The runs that count, the degraded ones among them."""
        return [end for end in self.ends if end.counts]

    @property
    def nothing_answered(self) -> bool:
        """Whether all that was asked is what this kernel cannot do. (A shard may be of nothing.)"""
        return bool(self.ends) and len(self.unsupported) == len(self.ends)

    @property
    def complaints(self) -> list[str]:
        """A line for every run that does not count; what the kernel lacks once per reason."""
        lines = [failure_line(end.folder, end.status) for end in self.failed]
        lines += [f"{end.run.name}: invalid: see fidelity.json there" for end in self.invalid]
        cells: dict[str, dict[str, None]] = {}  # by reason, each cell once
        for end in self.unsupported:
            cells.setdefault(str(end.status.get("error")), {})[end.run.cell] = None
        return lines + [f"not possible here: {why} ({', '.join(cells[why])})" for why in cells]

    @property
    def counts_line(self) -> str:
        runs = f"{len(self.ends)} {'run' if len(self.ends) == 1 else 'runs'}"
        line = (
            f"{runs}: {len(self.good)} good ({len(self.degraded)} of them degraded),"
            f" {len(self.invalid)} invalid, {len(self.failed)} failed"
        )
        return line + (f", {len(self.unsupported)} not possible here" if self.unsupported else "")

    @property
    def in_order(self) -> list[Finished]:
        """The runs by matrix and level, as the experiment's file lists them."""
        matrices = list(self.levels)

        def position(end: Finished) -> tuple[int, ...]:
            run = end.run
            if run.matrix not in self.levels:
                return (len(matrices),)
            ranks = [
                levels.index(str(run.factors[factor])) if factor in run.factors else len(levels)
                for factor, levels in self.levels[run.matrix].items()
            ]
            return (matrices.index(run.matrix), *ranks, run.repetition)

        return sorted(self.ends, key=position)

    @property
    def first_cc(self) -> dict[str, str]:
        """Matrix -> the congestion control that its file names first, where it compares some."""
        return {
            matrix: factors["cc"][0]
            for matrix, factors in self.levels.items()
            if len(factors.get("cc", ())) > 1
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "runs": [
                {
                    "name": end.run.name,
                    "folder": str(end.folder),
                    "verdict": end.verdict,
                    **end.status,
                }
                for end in self.ends
            ],
            "guards": [warning.to_json() for warning in self.warned],
            "not_narrow_enough": [cell.to_json() for cell in self.wide],
        }
