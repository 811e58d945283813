"""What the lab's own full forms measured, as it is shipped: the spread that stands beside a quick
form's single runs.

    ./lab run thesis-tunnel --matrix main --matrix states && ./lab report thesis-tunnel
    cp results/report/tables/thesis-tunnel-measured.csv measurements/thesis-tunnel.csv
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from io import StringIO
from types import MappingProxyType

import pandas as pd

from gostlab.analysis.load.json_safe import printable
from gostlab.registry.folders import ROOT
from gostlab.results.metrics import RunCluster

FOLDER = ROOT / "measurements"
# A spread of fewer runs is none.
MIN_RUNS = 5

Key = tuple[str, str, str]  # a matrix, a cell's levels in a line, a figure of merit's name


@dataclass(frozen=True)
class ShippedMetric:
    """One figure of one cell over several runs."""

    matrix: str
    cell: str
    figure: str
    least: float
    median: float
    most: float
    n: int
    made_by: str  # kernel, programs and version of the lab
    states: tuple[RunCluster, ...] = ()  # that the runs fall into; (): one

    @property
    def key(self) -> Key:
        return self.matrix, self.cell, self.figure


@cache
def shipped(experiment: str) -> Mapping[Key, ShippedMetric]:
    """What is shipped of an experiment; nothing where there is no file, or no good one."""
    path = FOLDER / f"{experiment}.csv"
    try:
        rows = [to_measured(row) for row in csv.DictReader(StringIO(path.read_text("utf-8")))]
    except (OSError, ValueError, KeyError, AttributeError):
        return MappingProxyType({})
    return MappingProxyType({row.key: row for row in rows if row.n >= MIN_RUNS})


def to_measured(row: Mapping[str, str]) -> ShippedMetric:
    """A line of the file. Raises ValueError, KeyError; AttributeError of one that is too short."""
    matrix, cell, figure, made_by = (
        printable(row[name]) for name in ("matrix", "cell", "figure", "made_by")
    )
    least, median, most = (float(row[name]) for name in ("least", "median", "most"))
    states = tuple(map(to_state, (row.get("states") or "").split()))
    return ShippedMetric(matrix, cell, figure, least, median, most, int(row["n"]), made_by, states)


def to_state(text: str) -> RunCluster:
    """Parse a state as the file has it: 180.5x7. Raises ValueError."""
    value, _, runs = text.partition("x")
    return RunCluster(float(value), int(runs))


def to_csv(rows: Iterable[ShippedMetric]) -> str:
    table = pd.DataFrame(
        [
            {**asdict(row), "states": " ".join(f"{s.value:.6g}x{s.runs}" for s in row.states)}
            for row in rows
        ]
    )
    return str(table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
