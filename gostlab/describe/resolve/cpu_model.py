"""Whose CPU pays for what programs do on the virtual clock, beside the cost of a call.

docs/explanation/machine-model.md has the rules. The defaults: one CPU for all hosts, bytes are
free, a look at the clock is a call like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gostlab.describe.resolve.run_description import RunDescription


@dataclass(frozen=True)
class CpuModel:
    """Who pays for calls, and what for."""

    host_cpus: int = 0  # CPUs of every host's own; 0: one CPU for all hosts together
    byte_cost_ns: float = 0.0  # per byte that a call moves, to the ps
    clock_reads_are_free: bool = False  # as on a real machine, where they are no system calls

    @classmethod
    def of(cls, run: RunDescription) -> CpuModel:
        return cls(run.host_cpus, run.byte_cost_ns, run.clock_reads == "free")


ONE_FOR_ALL = CpuModel()


def cost_words(costs: Mapping[str, Mapping[str, int]], program: str) -> str | None:
    """What a program writes to the kernel before it starts; None where it pays as all others do."""
    cost = costs.get(program)
    return None if cost is None else f"{program} {cost['call_ns']} {cost['byte_ps']}"
