"""What hosts are as machines: how many CPUs and how much memory each has, as people write it.

A profile says it of the machines that its path was measured between, an experiment of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gostlab.ask import units
from gostlab.ask.document import Field, Node, Reader, mapping, quantity, takes, whole

MIB = 2**20
MAX_HOST_CPUS = 64  # the kernel's (kernel/patches, MOST_CPUS)
MIN_HOST_MEMORY_MIB, MAX_HOST_MEMORY_MIB = 64, 2**20
HOST = re.compile(r"[a-z][a-z0-9_]{0,15}")
SHARED, AUTO = "shared", "auto"

# Of all hosts, or by host; SHARED: of all hosts together; AUTO: as the profile says.
PerHost = int | str | Mapping[str, int]

HOST_CPUS = whole(1, MAX_HOST_CPUS)
SIZE = quantity(units.size, units.SIZE_PATTERN)


@takes(SIZE.schema)
def read_machine_memory(node: Node) -> int:
    """A machine's memory, MiB. Raises BadInput."""
    mib = SIZE(node) // MIB
    if not MIN_HOST_MEMORY_MIB <= mib <= MAX_HOST_MEMORY_MIB:
        raise node.bad_value("not between 64MiB and 1024GiB")
    return int(mib)


def per_host(read: Reader[int], *words: str) -> Reader[Any]:
    """Reads one value for all hosts, one of some words, or values by host. Raises BadInput."""

    def take(node: Node) -> PerHost:
        if node.text in words:
            return str(node.text)
        if node.fields is None:
            return read(node)
        if not node.fields:
            raise node.bad("no host (like {client: 2, target: 4})")
        for host in node.fields:
            if not HOST.fullmatch(host):
                raise node.bad(f"{units.quoted(host)}: no name of a host")
        return {host: read(value) for host, value in node.fields.items()}

    by_host = {
        "type": "object",
        "patternProperties": {f"^({HOST.pattern})$": read.schema},
        "additionalProperties": False,
        "minProperties": 1,
    }
    return Reader(
        take, {"anyOf": [*([{"enum": list(words)}] if words else []), read.schema, by_host]}
    )


read_host_cpus = per_host(HOST_CPUS, SHARED, AUTO)
read_host_memory = per_host(read_machine_memory, SHARED, AUTO)


@dataclass(frozen=True)
class Machines:
    """The machines at a path's ends, as a profile has them; None: nobody says."""

    cpus: int | Mapping[str, int] | None = None
    memory_mib: int | Mapping[str, int] | None = None


UNKNOWN_MACHINES = Machines()
MACHINES = mapping(
    {
        "cpus": Field(per_host(HOST_CPUS), says="of each, or by host", unit="CPUs", example="2"),
        "memory": Field(
            per_host(read_machine_memory),
            says="of each, or by host",
            unit="a size",
            example="3.8GiB",
        ),
    },
    lambda _node, values: Machines(values["cpus"], values["memory"]),
)


def tcp_memory_of_machine_mib(memory_mib: int) -> int:
    """The most that TCP may hold on a machine of so much memory: the last of tcp_mem's three
    limits, 3/32 of it (Linux, tcp_init_mem: the second is a sixteenth of the memory that buffers
    may have, the first three quarters of that, the last twice the first).
    """
    return memory_mib * 3 // 32
