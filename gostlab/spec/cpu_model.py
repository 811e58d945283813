# SPDX-License-Identifier: MIT
"""Represent a guest as a machine: its clock, memory, and the CPU costs of its programs.

docs/explanation/machine-model.md explains the rules. By default, all hosts share one CPU, bytes are
free, and a clock read costs as much as any other call.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from gostlab.spec.run_spec import RunSpec


@dataclass(frozen=True)
class CpuModel:
    """Represent the CPUs of hosts, and the costs of bytes and clock reads."""

    host_cpus: int = 0  # CPUs per host; 0 means that all hosts share one CPU.
    byte_cost_ns: float = 0.0  # The cost per byte that a call moves, with a resolution of 1 ps.
    # Clock reads are free on a real machine, where they are no system calls.
    clock_reads_are_free: bool = False

    @classmethod
    def of(cls, run: RunSpec) -> Self:
        return cls(run.host_cpus, run.byte_cost_ns, run.clock_reads == "free")


ONE_FOR_ALL = CpuModel()


@dataclass(frozen=True)
class MachineModel:
    """Represent the machine parameters that the sandbox's kernel gets."""

    memory_mib: int
    clock: str = "virtual"  # virtual | real
    syscall_cost_us: float = 0.0
    seed: int = 1  # The seed of the kernel's random numbers, on the virtual clock.
    cpus: CpuModel = ONE_FOR_ALL

    @classmethod
    def of(cls, run: RunSpec) -> Self:
        return cls(run.memory_mib, run.clock, run.syscall_cost_us, run.seed, CpuModel.of(run))


def format_cost(costs: Mapping[str, Mapping[str, int]], program: str) -> str | None:
    """Return the line in which a program tells the kernel its costs; None for default costs."""
    cost = costs.get(program)
    return None if cost is None else f"{program} {cost['call_ns']} {cost['byte_ps']}"
