"""What programs cost on a measured machine: the tables in machines/, and what of them a run pays.

A call of a program takes c0 + c1 · bytes that it moves. A byte costs more where many streams share
the CPU's cache, so a table may have c1 by the number of streams. `./lab bench --costs` measures
both for the lab's own programs and writes such a table; docs/machine-model.md has the rules.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.ask import units
from gostlab.ask.document import (
    Field,
    Node,
    find_document,
    is_path,
    load_document,
    mapping,
    mapping_of,
    meant,
    names_in,
    quantity,
    takes,
    text_of,
)
from gostlab.declared.errors import BadInput
from gostlab.declared.source import ROOT
from gostlab.declared.tunnels import tunnel_kind

FOLDER = ROOT / "machines"
# No table: every program pays syscall_cost and byte_cost.
UNIFORM = "uniform"
# A program, and its role where roles differ, as the kernel takes it (kernel/patches, NAME_BYTES).
PROGRAM = re.compile(r"[a-z0-9][a-z0-9+.-]{0,19}(/[a-z]{1,10})?")
MOST_CALL_NS = 1_000_000
MOST_BYTE_PS = 1_000_000
TIME = quantity(units.seconds, units.TIME_PATTERN)


@dataclass(frozen=True)
class Cost:
    """What a program's calls cost on the virtual clock."""

    call_ns: int  # each
    byte_ps: int  # each byte that a call moves, on top

    def to_json(self) -> dict[str, int]:
        """As run.json has it."""
        return {"call_ns": self.call_ns, "byte_ps": self.byte_ps}


@dataclass(frozen=True)
class MeasuredCost:
    """What a program's calls cost on a measured machine."""

    call_ns: int  # each
    byte_ps: Mapping[int, int]  # each byte on top, by how many streams it was measured with

    def at(self, streams: int) -> Cost:
        """The cost where so many streams share the CPU: between two that were measured on a line
        over the streams' logarithm, beyond them as at the nearest.
        """
        known = sorted(self.byte_ps.items())
        for (few, less), (many, more) in itertools.pairwise(known):
            if few <= streams <= many:
                share = math.log(streams / few) / math.log(many / few)
                return Cost(self.call_ns, round(less + share * (more - less)))
        return Cost(self.call_ns, known[0][1] if streams < known[0][0] else known[-1][1])


@dataclass(frozen=True)
class MeasuredMachine:
    """A table: a machine, and what programs cost on it."""

    name: str
    cpu: str
    kernel: str
    measured: str
    note: str
    programs: Mapping[str, MeasuredCost]

    def cost_of(self, names: Iterable[str]) -> MeasuredCost | None:
        """The cost under the first of these names that the table has; None: it has none of them."""
        return next((self.programs[name] for name in names if name in self.programs), None)


def machine_names(folder: Path = FOLDER) -> tuple[str, ...]:
    """What an experiment may write as its machine."""
    return (UNIFORM, *names_in(folder))


def load_measured(name_or_path: str, folder: Path = FOLDER) -> MeasuredMachine:
    """A table by its name, or a file. Raises BadInput."""
    path = find_document(name_or_path, folder, "machine")
    document = load_document(path)
    machine: MeasuredMachine = TABLE(document)
    if machine.name != path.stem:
        raise mapping_of(document)["name"].bad_value(f"not the file's own name, {path.stem}")
    return machine


@takes({"type": "string", "pattern": units.TIME_PATTERN})
def read_call(node: Node) -> int:
    """What a call costs, ns. Raises BadInput."""
    return whole_number(node, 10**9, MOST_CALL_NS, "between 0ns and 1ms, whole ns")


@takes({"type": "string", "pattern": units.TIME_PATTERN})
def read_byte(node: Node) -> int:
    """What a byte costs, ps. Raises BadInput."""
    return whole_number(node, 10**12, MOST_BYTE_PS, "between 0ns and 1us, to 0.001ns")


def whole_number(node: Node, per_second: int, most: int, range_in_words: str) -> int:
    """A time in whole units. Raises BadInput."""
    value = TIME(node) * per_second
    if value.denominator != 1 or not 0 <= value <= most:
        raise node.bad_value(f"not {range_in_words}")
    return int(value)


@takes(
    lambda: {
        "oneOf": [
            read_byte.schema,
            {
                "type": "object",
                "patternProperties": {r"^[1-9]\d{0,3}$": read_byte.schema},
                "additionalProperties": False,
                "minProperties": 1,
            },
        ]
    }
)
def read_bytes(node: Node) -> dict[int, int]:
    """What a byte costs, ps, by the number of streams; one cost is that of any number. Raises
    BadInput.
    """
    if node.fields is None:
        return {1: read_byte(node)}
    if not node.fields:
        raise node.bad("no number of streams with a cost")
    for streams in node.fields:
        if not re.fullmatch(r"[1-9]\d{0,3}", streams):
            raise node.bad(f"{units.quoted(streams)}: no number of streams (like 16)")
    return {int(streams): read_byte(cost) for streams, cost in node.fields.items()}


COST = mapping(
    {
        "call": Field(read_call, required=True, says="what each call costs", example="1200ns"),
        "byte": Field(
            read_bytes,
            required=True,
            says="what each byte costs that a call moves, on top; or that by number of streams",
            example="{1: 0.11ns, 128: 0.19ns}",
        ),
    },
    lambda _node, values: MeasuredCost(values["call"], values["byte"]),
)


@takes(
    lambda: {
        "type": "object",
        "patternProperties": {f"^{PROGRAM.pattern}$": COST.schema},
        "additionalProperties": False,
        "minProperties": 1,
    }
)
def read_programs(node: Node) -> dict[str, MeasuredCost]:
    """Costs by program. Raises BadInput."""
    given = mapping_of(node)
    if not given:
        raise node.bad("no program with a cost")
    for name in given:
        if not PROGRAM.fullmatch(name):
            raise node.bad(f"{units.quoted(name)}: no name of a program (like gost+ws/near)")
    return {name: COST(value) for name, value in given.items()}


TABLE = mapping(
    {
        "name": Field(text_of, required=True, says="the file's own name, without .yaml"),
        "cpu": Field(text_of, required=True, says="its CPU, as /proc/cpuinfo names it"),
        "kernel": Field(text_of, required=True, says="the kernel that it was measured on"),
        "measured": Field(text_of, required=True, says="when", example="2026-11-22"),
        "note": Field(text_of, default="", says="what else to know of it"),
        "programs": Field(read_programs, required=True, says="what each program costs"),
    },
    lambda _node, values: MeasuredMachine(**values),
)


@takes(text_of.schema)
def read_machine(node: Node) -> str:
    """uniform, or a machine that has a table. Raises BadInput."""
    name = text_of(node)
    if name == UNIFORM:
        return name
    if not is_path(name) and name not in machine_names():
        raise node.bad_value(f"no such machine in machines/ ({meant(name, machine_names())})")
    try:
        load_measured(name)
    except BadInput as error:
        raise node.bad_value(str(error)) from None
    return name


# -- what a run pays


def resolve_costs(
    machine: str, kinds: Collection[str], tunnel: str, iperf3: str, streams: int = 1
) -> dict[str, dict[str, int]]:
    """What each program of a run costs by the name that it is charged under: {} on `uniform`. A
    program that the table does not have pays as all others do, and is not in it. `kinds`: those of
    the flows; `streams`: how many all flows have together.
    """
    if machine == UNIFORM:
        return {}
    table = load_measured(machine)
    found = {}
    for name, spellings in charged_programs(kinds, tunnel, iperf3).items():
        cost = table.cost_of(spellings)
        if cost is not None:
            found[name] = cost.at(streams).to_json()
    return found


def charged_programs(
    kinds: Collection[str], tunnel: str, iperf3: str
) -> dict[str, tuple[str, ...]]:
    """Every program of a run as it is charged (gostlab.guest starts them under these names), and
    the names by which a table may have it, the narrowest first.
    """
    found: dict[str, tuple[str, ...]] = {}
    if {"tcp", "udp"} & set(kinds):
        for role in ("sender", "receiver"):
            found[f"iperf3/{role}"] = (
                f"iperf3-{iperf3}/{role}",
                f"iperf3-{iperf3}",
                f"iperf3/{role}",
                "iperf3",
            )
    if {"http", "short"} & set(kinds):
        found |= {name: (name,) for name in ("nginx", "wget")}
    kind = tunnel_kind(tunnel)
    if not kind.is_direct:
        for end in ("near", "far"):
            found[f"{kind.cost_name}/{end}"] = (f"{kind.cost_name}/{end}", kind.cost_name)
    return found


def cost_words(costs: Mapping[str, Mapping[str, Any]], program: str) -> str | None:
    """What a program writes to the kernel before it starts; None where it pays as all others do."""
    cost = costs.get(program)
    return None if cost is None else f"{program} {cost['call_ns']} {cost['byte_ps']}"
