"""Shards: a matrix dealt out to so many independent processes, for job arrays and several machines.

Every process deals the same cards: what a shard has depends on the experiment alone, and on nothing
that is finished, busy or slow.
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
    def read(cls, word: str) -> Self:
        """`3/40`. Raises BadInput."""
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", word)
        shard = cls(int(found[1]), int(found[2])) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.of:
            raise BadInput(f"--shard {word}: not one of so many (like 3/40, from 1/40 to 40/40)")
        return shard

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def take(self, runs: Sequence[RunSpec], whole_cells: Collection[str]) -> list[RunSpec]:
        return deal(runs, self.of, whole_cells)[self.number - 1]


def deal(runs: Sequence[RunSpec], count: int, whole_cells: Collection[str]) -> list[list[RunSpec]]:
    """So many hands that take about the same time, every run in one of them, each in order.

    whole_cells  the matrices whose cells must not be split: they have a stopping rule, which looks
                 at all of a cell's runs
    The longest goes first, to the shard that has least.
    """
    cards: dict[str, list[int]] = {}
    for index, run in enumerate(runs):
        cards.setdefault(run.cell if run.matrix in whole_cells else run.name, []).append(index)
    weights = {name: sum(expected_s(runs[index]) for index in card) for name, card in cards.items()}
    loads = [(0.0, hand) for hand in range(count)]
    hands: list[list[int]] = [[] for _ in range(count)]
    for name in sorted(cards, key=lambda name: (-weights[name], name)):
        load, least = heappop(loads)
        heappush(loads, (load + weights[name], least))
        hands[least] += cards[name]
    return [[runs[index] for index in sorted(hand)] for hand in hands]
