# SPDX-License-Identifier: MIT
"""Divide a matrix among independent processes, for job arrays and several machines.

Every process computes the same division: a shard's runs depend on the experiment alone, not on
which runs are finished or which machines are busy or slow.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Self

from gostlab.scheduler.eta import expected_s
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput


@dataclass(frozen=True)
class Shard:
    number: int  # from 1
    of: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Parse a shard like `3/40`. Raises BadInput."""
        match = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text)
        shard = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= shard.number <= shard.of:
            raise BadInput(f"--shard {text}: not one of so many (like 3/40, from 1/40 to 40/40)")
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def take(self, runs: Sequence[RunSpec], whole_cells: Collection[str]) -> list[RunSpec]:
        return deal_shards(runs, self.of, whole_cells)[self.number - 1]


def deal_shards(
    runs: Sequence[RunSpec], count: int, whole_cells: Collection[str]
) -> list[list[RunSpec]]:
    """Divide runs into `count` shards of about the same duration, each in the original order.

    whole_cells: the matrices whose cells must not be split, because they have a stopping rule,
    which needs all runs of a cell. The longest run or cell goes first, to the shard with the
    smallest load.
    """
    units: dict[str, list[int]] = {}
    for index, run in enumerate(runs):
        units.setdefault(run.cell if run.matrix in whole_cells else run.name, []).append(index)
    weights = {
        name: sum(expected_s(runs[index]) for index in indices) for name, indices in units.items()
    }
    loads = [(0.0, shard) for shard in range(count)]
    shards: list[list[int]] = [[] for _ in range(count)]
    for name in sorted(units, key=lambda name: (-weights[name], name)):
        load, lightest = heappop(loads)
        heappush(loads, (load + weights[name], lightest))
        shards[lightest] += units[name]
    return [[runs[index] for index in sorted(shard)] for shard in shards]
