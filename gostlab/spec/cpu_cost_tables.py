"""What programs cost on a measured machine: the tables in machines/, and what of them a run pays.

A call of a program takes c0 + c1 · bytes that it moves. A byte costs more where many streams share
the CPU's cache, so a table may have c1 by the number of streams. `./lab bench --costs` measures
both for the lab's own programs and writes such a table. The rules are in
docs/explanation/machine-model.md.
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
    bounded,
    by_name,
    either,
    find_document,
    is_path,
    key,
    load_document,
    mapping_of,
    meant,
    names_in,
    record,
    takes,
    text_of,
)

# No table: every program pays syscall_cost and byte_cost.
UNIFORM = "uniform"
# A program, and its role where roles differ, as the kernel takes it (kernel/patches, NAME_BYTES).
PROGRAM = re.compile(r"[a-z0-9][a-z0-9+.-]{0,19}(/[a-z]{1,10})?")
STREAMS = re.compile(r"[1-9]\d{0,3}")
CALL = bounded(TIME, "0ns", "1ms", int, per=10**9, step="1ns")
BYTE = bounded(TIME, "0ns", "1us", int, per=10**12, step="0.001ns")


@dataclass(frozen=True)
class Cost:
    """What a program's calls cost on the virtual clock."""

    call_ns: int  # each
    byte_ps: int  # each byte that a call moves, on top


@dataclass(frozen=True)
class MeasuredCost:
    """What a program's calls cost on a measured machine."""

    call_ns: int = key(CALL, "what each call costs", "1200ns", named="call")
    # by how many streams it was measured with; one cost is that of any number
    byte_ps: Mapping[int, int] = key(
        either(
            BYTE.to(lambda byte_ps: {1: byte_ps}),
            by_name(STREAMS, BYTE, "number of streams", "{16: 0.11ns}").to(
                lambda found: {int(streams): byte_ps for streams, byte_ps in found.items()}
            ),
        ),
        "what each byte costs that a call moves, on top; or that by number of streams",
        "{1: 0.11ns, 128: 0.19ns}",
        named="byte",
    )

    def at(self, streams: int) -> Cost:
        """The cost with so many streams: between two measured, on a line over their logarithm."""
        known = sorted(self.byte_ps.items())
        for (few, less), (many, more) in itertools.pairwise(known):
            if few <= streams <= many:
                share = math.log(streams / few) / math.log(many / few)
                return Cost(self.call_ns, round(less + share * (more - less)))
        return Cost(self.call_ns, known[0][1] if streams < known[0][0] else known[-1][1])


@dataclass(frozen=True)
class MeasuredMachine:
    """A table: a machine, and what programs cost on it."""

    name: str = key(text_of, "the file's own name, without .yaml")
    cpu: str = key(text_of, "its CPU, as /proc/cpuinfo names it")
    kernel: str = key(text_of, "the kernel that it was measured on")
    measured: str = key(text_of, "when", "2026-11-22")
    note: str = key(text_of, "what else to know of it", default="")
    programs: Mapping[str, MeasuredCost] = key(
        by_name(PROGRAM, record(MeasuredCost), "program", "{gost+ws/near: {…}}"),
        "what each program costs",
    )


def machine_names(folder: Path = MACHINES) -> tuple[str, ...]:
    """What an experiment may write as its machine."""
    return (UNIFORM, *names_in(folder))


def load_measured(name_or_path: str, folder: Path = MACHINES) -> MeasuredMachine:
    """A table by its name, or a file. Raises BadInput."""
    path = find_document(name_or_path, folder, "machine")
    document = load_document(path)
    machine = record(MeasuredMachine)(document)
    if machine.name != path.stem:
        raise mapping_of(document)["name"].bad_value(f"not the file's own name, {path.stem}")
    return machine


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
    machine: str, kinds: Collection[str], tunnel: str, iperf3: str, gost: str, streams: int = 1
) -> dict[str, dict[str, int]]:
    """What each program of a run costs by the name it is charged under, if the table has it."""
    if machine == UNIFORM:
        return {}
    known = load_measured(machine).programs
    found = {}
    for name, spellings in charged_programs(kinds, tunnel, iperf3, gost).items():
        named = next((each for each in spellings if each in known), None)
        if named is not None:
            found[name] = asdict(known[named].at(streams))
    return found


def charged_programs(
    kinds: Collection[str], tunnel: str, iperf3: str, gost: str = ""
) -> dict[str, tuple[str, ...]]:
    """Every program of a run as gostlab.guest charges it, and the names a table may have it by, the
    narrowest first; of a GOST (`gost`) the lab's relay's last.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in dict.fromkeys(name for each in kinds for name in traffic_kind(each).charged):
        program, _, role = name.partition("/")
        if role:
            version = f"{program}-{iperf3}"
            found[name] = (f"{version}/{role}", version, name, program)
        elif name:
            found[name] = (name,)
    kind = tunnel_kind(tunnel)
    if not kind.is_direct:
        mine = kind.cost_name.replace("gost+", f"gost-{gost.lower()}+", 1)
        for end in ("near", "far"):
            spellings = (f"{mine}/{end}", mine, f"{kind.cost_name}/{end}", kind.cost_name)
            found[f"{kind.cost_name}/{end}"] = tuple(dict.fromkeys(spellings))
    return found
