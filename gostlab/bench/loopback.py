"""Whether the model of what programs cost is true: the same programs over loopback on one CPU, by
the sandbox and by this machine's own kernel.

iperf3 alone, and through the relay by each of its transports, with 1, 16 and 128 streams at full
rate, and with 64, which the costs were not fitted to. Here: 8 bits over the CPU time that all
programs of the chain take per byte delivered, which is what one CPU carries and what other work on
it does not lower; of several windows the cheapest, as other work only adds. In the sandbox: what
iperf3 reports on a host of one CPU, where each program pays what was measured of it here in the
same windows: a call and a byte have cost twice as much an hour later on a machine that shares its
caches with others, and no table knows the hour. What a shipped table says of these minutes is told
beside it.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab.ask.costs import FOLDER, UNIFORM, MeasuredCost, load_measured, machine_names
from gostlab.ask.cpu_model import CpuModel
from gostlab.bench.callcost import ENVIRON
from gostlab.bench.costs import (
    FULL,
    JUDGE,
    TRANSPORTS,
    Load,
    Spent,
    by_program,
    costs_of,
    misfit,
    take,
)
from gostlab.declared.iperf3 import OWN
from gostlab.machine import sandbox, usable_cpus
from gostlab.setup.parts import find_parts, require_kernel

# Where the sandbox's chain listens, and how long it is loaded on its clock.
SINK, FAR, NEAR = 5000, 5001, 5002
SECONDS = 1
VERSION = next(iter(OWN))  # of iperf3
# 128 streams fill the buffers of 256 sockets and more: with too little, TCP drops what has come.
MEMORY_MIB = 4096
# What a kernel settles at its boot by the memory it has: the sandbox takes over what holds here.
TCP_LIMITS = ("tcp_mem", "tcp_rmem", "tcp_wmem")
LIMIT_S = 400.0
NAMES: Mapping[str | None, str] = {None: "iperf3 alone"} | {
    transport: f"relay, {transport}" for transport in TRANSPORTS
}


def chains() -> list[tuple[str | None, Load]]:
    """What is compared: a transport (None: iperf3 alone) and a load; those of JUDGE are no part of
    the fit.
    """
    return [(transport, load) for transport in NAMES for load in (*FULL, JUDGE)]


def table_here() -> str | None:
    """The first table in machines/ that was measured on this machine's CPU."""
    cpu = sandbox.host_facts("")["cpu"]
    names = sorted(set(machine_names(FOLDER)) - {UNIFORM})
    return next((name for name in names if load_measured(name).cpu == cpu), None)


def chain_mbit(spent: Mapping[str, Spent]) -> float:
    """What one CPU carries, by what the programs of a chain spent in a window."""
    cpu_ns = sum(each.cpu_ns for each in spent.values())
    return 8e3 * spent["iperf3/receiver"].bytes / cpu_ns


def sandbox_mbit(transport: str | None, load: Load, programs: Mapping[str, MeasuredCost]) -> float:
    """What a host of one CPU carries in the sandbox, where programs cost so much. Raises
    RuntimeError or MachineError.
    """
    parts = find_parts()
    if parts.relay is None:
        raise RuntimeError("the lab's relay is not built: ./lab setup")
    iperf3 = parts.iperf3[VERSION].path
    with tempfile.TemporaryDirectory(prefix="gostlab-bench-") as folder:
        guest = sandbox.boot(
            require_kernel(parts),
            Path(folder),
            ["/bin/sh", "-c", script(str(iperf3), str(parts.relay), transport, load, programs)],
            sandbox.sandbox_environ(ENVIRON),
            keep=[iperf3.parent, parts.relay.parent],
            cpu=usable_cpus()[-1],
            memory_mib=MEMORY_MIB,
            clock="virtual",
            syscall_cost_us=2.0,  # of the shell's alone
            cpu_model=CpuModel(host_cpus=1, clock_reads_are_free=True),
            seed=1,
            limit_s=LIMIT_S,
        )
        guest.wait()
        report, log = Path(folder, "report.json"), Path(folder, "log.txt")
        try:
            received = json.loads(report.read_text(encoding="utf-8"))["end"]["sum_received"]
        except (OSError, ValueError, KeyError):
            said = log.read_text(encoding="utf-8", errors="replace").strip()[-300:]
            raise RuntimeError(f"{NAMES[transport]} did not run in the sandbox: {said}") from None
    return float(received["bits_per_second"]) / 1e6


def script(
    iperf3: str, relay: str, transport: str | None, load: Load, programs: Mapping[str, MeasuredCost]
) -> str:
    """The shell script that builds the chain in the guest and loads it; its report goes to the
    guest's writable folder.
    """

    def paying(name: str, argv: Sequence[str]) -> str:
        # As a run's programs are: told to the kernel before they are executed.
        spellings = (name.replace("iperf3/", f"iperf3-{VERSION}/"), name)
        measured = next(programs[each] for each in spellings if each in programs)
        cost = measured.at(load.streams)
        charge = f"echo {name} {cost.call_ns} {cost.byte_ps} >/proc/self/net/program_cost"
        return f"({charge}; exec {shlex.join(argv)})"

    lines = ["ip link set lo up"]
    for name in TCP_LIMITS:
        limit = Path("/proc/sys/net/ipv4", name)
        lines.append(f"echo {' '.join(limit.read_text(encoding='ascii').split())} >{limit}")
    lines.append(f"{paying('iperf3/receiver', [iperf3, '-s', '-p', str(SINK)])} >/dev/null &")
    lines.append("sleep 0.1")
    if transport:
        scheme = "relay" if transport == "tcp" else f"relay+{transport}"
        far = [relay, "-L", f"{scheme}://127.0.0.1:{FAR}/127.0.0.1:{SINK}"]
        near = [relay, "-L", f"tcp://127.0.0.1:{NEAR}", "-F", f"{scheme}://127.0.0.1:{FAR}"]
        for end, argv in (("far", far), ("near", near)):
            lines += [f"{paying(f'gost+{transport}/{end}', argv)} >/dev/null 2>&1 &", "sleep 0.2"]
    client = load.argv(iperf3, str(NEAR if transport else SINK), SECONDS)
    report = f"{sandbox.GUEST_FOLDER}/report.json"
    lines.append(f"{paying('iperf3/sender', client)} >{report}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Compared:
    """What the programs carry in the sandbox and here, and what a table says of these minutes."""

    mbit: Mapping[str, tuple[float, float]]  # by row: in the sandbox, and here
    table_over_here: Sequence[float]  # CPU time by the table, over what each load took


def compare(table: str | None, repeat: int) -> Compared:
    """Measure here, then run the same in the sandbox by what was measured. Raises RuntimeError,
    MachineError or ValueError.
    """
    parts = find_parts()
    if parts.relay is None:
        raise RuntimeError("the lab's relay is not built: ./lab setup")
    print("bench: loopback: this machine's own kernel …", file=sys.stderr, flush=True)
    iperf3 = str(parts.iperf3[VERSION].path)
    taken = take(iperf3, parts.relay, usable_cpus()[-1], repeat)
    loads_of = by_program(taken)
    programs = costs_of(loads_of)
    mbit = {}
    for transport, load in chains():
        name = f"{NAMES[transport]}, {load.streams} stream{'s' * (load.streams > 1)}"
        print(f"bench: loopback: {name} …", file=sys.stderr, flush=True)
        # What the sandbox does is the same every time.
        in_sandbox = sandbox_mbit(transport, load, programs)
        mbit[name] = in_sandbox, max(map(chain_mbit, taken[transport, load]))
    shipped = load_measured(table).programs if table else {}
    by_table = [
        misfit(shipped[name].at(load.streams), spent)
        for name, loads in loads_of.items()
        if name in shipped
        for (_, load), spent in loads.items()
    ]
    return Compared(mbit, by_table)
