# SPDX-License-Identifier: MIT
"""Read the baselines shipped in measurements/: spreads of full-form experiments.

A report shows them beside the single runs of a quick form. To make one:

./lab run thesis-tunnel --matrix main --matrix states && ./lab report thesis-tunnel
cp results/report/tables/thesis-tunnel-measured.csv measurements/thesis-tunnel.csv
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from io import StringIO
from types import MappingProxyType

from gostlab.registry.folders import ROOT
from gostlab.results.metrics import RunCluster
from gostlab.text_safety import replace_controls

FOLDER = ROOT / "measurements"
# Ignore the spread of fewer runs.
MIN_RUNS = 5

Key = tuple[str, str, str]  # matrix, label of a cell, name of a metric


@dataclass(frozen=True)
class ShippedMetric:
    """The values of one metric of one cell over several runs."""

    matrix: str
    cell: str
    figure: str
    least: float
    median: float
    most: float
    n: int
    made_by: str  # versions of the kernel, the programs and the lab
    states: tuple[RunCluster, ...] = ()  # clusters of the runs; () for a single cluster

    @property
    def key(self) -> Key:
        return self.matrix, self.cell, self.figure


@cache
def load_baselines(experiment: str) -> Mapping[Key, ShippedMetric]:
    """Return the shipped baselines of an experiment; {} without a valid file."""
    path = FOLDER / f"{experiment}.csv"
    try:
        rows = [parse_row(row) for row in csv.DictReader(StringIO(path.read_text("utf-8")))]
    except (OSError, ValueError, KeyError, AttributeError):
        return MappingProxyType({})
    return MappingProxyType({row.key: row for row in rows if row.n >= MIN_RUNS})


def parse_row(row: Mapping[str, str]) -> ShippedMetric:
    """Parse a row of the file.

    Raises ValueError or KeyError; AttributeError for a row that is too short.
    """
    matrix, cell, figure, made_by = (
        replace_controls(row[name]) for name in ("matrix", "cell", "figure", "made_by")
    )
    least, median, most = (float(row[name]) for name in ("least", "median", "most"))
    states = tuple(map(parse_cluster, (row.get("states") or "").split()))
    return ShippedMetric(matrix, cell, figure, least, median, most, int(row["n"]), made_by, states)


def parse_cluster(text: str) -> RunCluster:
    """Parse a cluster of runs, such as 180.5x7. Raises ValueError."""
    value, _, runs = text.partition("x")
    return RunCluster(float(value), int(runs))


def to_csv(rows: Iterable[ShippedMetric]) -> str:
    import pandas as pd

    table = pd.DataFrame(
        [
            {**asdict(row), "states": " ".join(f"{s.value:.6g}x{s.runs}" for s in row.states)}
            for row in rows
        ]
    )
    return str(table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
