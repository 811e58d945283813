"""A guest as a machine: its clock and memory, and whose CPU pays for what programs do on the
virtual clock, beside the cost of a call.

docs/explanation/machine-model.md has the rules. The defaults: one CPU for all hosts, bytes are
free, a look at the clock is a call like any other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from gostlab.spec.run_spec import RunSpec


@dataclass(frozen=True)
class CpuModel:
    """Who pays for calls, and what for."""

    host_cpus: int = 0  # CPUs of every host's own; 0: one CPU for all hosts together
    byte_cost_ns: float = 0.0  # per byte that a call moves, to the ps
    clock_reads_are_free: bool = False  # as on a real machine, where they are no system calls

    @classmethod
    def of(cls, run: RunSpec) -> Self:
        return cls(run.host_cpus, run.byte_cost_ns, run.clock_reads == "free")


ONE_FOR_ALL = CpuModel()


@dataclass(frozen=True)
class MachineModel:
    """What the sandbox's kernel is told of the machine that it is."""

    memory_mib: int
    clock: str = "virtual"  # | real
    syscall_cost_us: float = 0.0
    seed: int = 1  # of its random numbers, on the virtual clock
    cpus: CpuModel = ONE_FOR_ALL

    @classmethod
    def of(cls, run: RunSpec) -> Self:
        return cls(run.memory_mib, run.clock, run.syscall_cost_us, run.seed, CpuModel.of(run))


def cost_words(costs: Mapping[str, Mapping[str, int]], program: str) -> str | None:
    """What a program writes to the kernel before it starts; None where it pays as all others do."""
    cost = costs.get(program)
    return None if cost is None else f"{program} {cost['call_ns']} {cost['byte_ps']}"
