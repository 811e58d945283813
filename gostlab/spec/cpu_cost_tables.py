# SPDX-License-Identifier: MIT
"""Read the CPU costs of programs on a measured machine, from the tables in machines/.

A call of a program takes c0 + c1 · bytes that it moves. A byte costs more if many streams share the
CPU's cache, so a table may have c1 by the number of streams. `./lab bench --costs` measures both
for gostlab's own programs and writes such a table. docs/explanation/machine-model.md explains the
rules.
"""

import itertools
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.registry.folders import MACHINES
from gostlab.registry.traffic import traffic_kind
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.value_types import TIME
from gostlab.spec.yaml_source import (
    Node,
    bounded_quantity,
    by_name_reader,
    find_document,
    is_path,
    key,
    load_document,
    mapping_of,
    names_in,
    record_reader,
    scalar_or_mapping,
    suggest_name,
    takes,
    text_of,
)

# The name for no table: every program pays syscall_cost and byte_cost.
UNIFORM = "uniform"
# A program, and its role if roles differ, in the kernel's format (kernel/src, NAME_BYTES).
PROGRAM = re.compile(r"[a-z0-9][a-z0-9+.-]{0,19}(/[a-z]{1,10})?")
STREAMS = re.compile(r"[1-9]\d{0,3}")
CALL = bounded_quantity(TIME, "0ns", "1ms", int, per=10**9, step="1ns")
BYTE = bounded_quantity(TIME, "0ns", "1us", int, per=10**12, step="0.001ns")


@dataclass(frozen=True)
class Cost:
    """Represent the cost of a program's calls on the virtual clock."""

    call_ns: int  # The cost of each call.
    byte_ps: int  # The additional cost of each byte that a call moves.


@dataclass(frozen=True)
class MeasuredCost:
    """Represent the cost of a program's calls on a measured machine."""

    call_ns: int = key(CALL, "cost of each call", "1200ns", named="call")
    # The cost by the number of streams of its measurement; a single cost holds for any number.
    byte_ps: Mapping[int, int] = key(
        scalar_or_mapping(
            BYTE.to(lambda byte_ps: {1: byte_ps}),
            by_name_reader(STREAMS, BYTE, "number of streams", "{16: 0.11ns}").to(
                lambda costs: {int(streams): byte_ps for streams, byte_ps in costs.items()}
            ),
        ),
        "what each byte costs that a call moves, on top; or that by number of streams",
        "{1: 0.11ns, 128: 0.19ns}",
        named="byte",
    )

    def at(self, streams: int) -> Cost:
        """Return the cost with some streams, interpolated linearly over their logarithm."""
        known = sorted(self.byte_ps.items())
        for (few, less), (many, more) in itertools.pairwise(known):
            if few <= streams <= many:
                share = math.log(streams / few) / math.log(many / few)
                return Cost(self.call_ns, round(less + share * (more - less)))
        return Cost(self.call_ns, known[0][1] if streams < known[0][0] else known[-1][1])


@dataclass(frozen=True)
class MeasuredMachine:
    """Represent a table: a machine, and the costs of programs on it."""

    name: str = key(text_of, "name of the file without .yaml")
    cpu: str = key(text_of, "CPU, as /proc/cpuinfo names it")
    kernel: str = key(text_of, "kernel of the measurement")
    measured: str = key(text_of, "date of the measurement", "2026-11-22")
    note: str = key(text_of, "further information", default="")
    programs: Mapping[str, MeasuredCost] = key(
        by_name_reader(PROGRAM, record_reader(MeasuredCost), "program", "{gost+ws/near: {…}}"),
        "what each program costs",
    )


def machine_names(folder: Path = MACHINES) -> tuple[str, ...]:
    """Return the valid names of an experiment's machine."""
    return (UNIFORM, *names_in(folder))


def load_measured(name_or_path: str) -> MeasuredMachine:
    """Return a table by its name or file. Raises BadInput."""
    path = find_document(name_or_path, MACHINES, "machine")
    document = load_document(path)
    machine = record_reader(MeasuredMachine)(document)
    if machine.name != path.stem:
        raise mapping_of(document)["name"].bad_value(f"not the file's own name, {path.stem}")
    return machine


@takes(text_of.schema)
def read_machine(node: Node) -> str:
    """Return uniform, or the name of a machine that has a table. Raises BadInput."""
    name = text_of(node)
    if name == UNIFORM:
        return name
    if not is_path(name) and name not in machine_names():
        raise node.bad_value(
            f"no such machine in machines/ ({suggest_name(name, machine_names())})"
        )
    try:
        load_measured(name)
    except BadInput as error:
        raise node.bad_value(str(error)) from None
    return name


# -- costs of a run


def resolve_costs(
    machine: str,
    traffic_types: Collection[str],
    tunnel: str,
    iperf3: str,
    gost: str,
    streams: int = 1,
) -> dict[str, dict[str, int]]:
    """Return the cost of each program of a run by its charged name, if the table has it."""
    if machine == UNIFORM:
        return {}
    known = load_measured(machine).programs
    costs = {}
    for name, spellings in charged_programs(traffic_types, tunnel, iperf3, gost).items():
        table_name = next((spelling for spelling in spellings if spelling in known), None)
        if table_name is not None:
            costs[name] = asdict(known[table_name].at(streams))
    return costs


def charged_programs(
    traffic_types: Collection[str], tunnel: str, iperf3: str, gost: str = ""
) -> dict[str, tuple[str, ...]]:
    """Return the charged name of every program of a run, and its possible names in a table.

    The most specific name comes first; for a GOST (`gost`), the names of the bundled relay come
    last.
    """
    programs: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(
        name for traffic_type in traffic_types for name in traffic_kind(traffic_type).charged
    ):
        program, _, role = name.partition("/")
        if role:
            version = f"{program}-{iperf3}"
            programs[name] = (f"{version}/{role}", version, name, program)
        elif name:
            programs[name] = (name,)
    declaration = tunnel_kind(tunnel)
    if not declaration.is_direct:
        version_name = declaration.cost_name.replace("gost+", f"gost-{gost.lower()}+", 1)
        for end in ("near", "far"):
            spellings = (
                f"{version_name}/{end}",
                version_name,
                f"{declaration.cost_name}/{end}",
                declaration.cost_name,
            )
            programs[f"{declaration.cost_name}/{end}"] = tuple(dict.fromkeys(spellings))
    return programs
