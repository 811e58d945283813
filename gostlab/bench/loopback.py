"""Whether a machine's table is true: the same programs over loopback on one CPU, by the sandbox and
by this machine's own kernel.

iperf3 alone, and through the relay by each of its transports, with 1, 16 and 128 streams at full
rate. Here: 8 bits over the CPU time that all programs of the chain take per byte delivered, which
is what one CPU carries and what other work on it does not lower; the best of several windows, as
other work only adds. In the sandbox: what iperf3 reports on a host of one CPU, where each program
pays what the table says.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gostlab.ask.costs import FOLDER, UNIFORM, load_measured, machine_names
from gostlab.ask.cpu_model import CpuModel
from gostlab.bench.callcost import ENVIRON
from gostlab.bench.costs import (
    FULL,
    TRANSPORTS,
    WINDOW_S,
    Chain,
    Load,
    chain,
    cpu_ns,
    moved,
    settle,
)
from gostlab.declared.iperf3 import OWN
from gostlab.machine import sandbox, usable_cpus
from gostlab.setup.parts import find_parts, require_kernel

# Where the sandbox's chain listens, and how long it is loaded on its clock.
SINK, FAR, NEAR = 5000, 5001, 5002
SECONDS = 1
VERSION = next(iter(OWN))  # of iperf3
MEMORY_MIB = 1024
LIMIT_S = 400.0
NAMES: Mapping[str | None, str] = {None: "iperf3 alone"} | {
    transport: f"relay, {transport}" for transport in TRANSPORTS
}


def chains() -> list[tuple[str | None, Load]]:
    """What is compared: a transport (None: iperf3 alone) and a load, twelve of them."""
    return [(transport, load) for transport in NAMES for load in FULL]


def table_here() -> str | None:
    """The first table in machines/ that was measured on this machine's CPU."""
    cpu = sandbox.host_facts("")["cpu"]
    names = sorted(set(machine_names(FOLDER)) - {UNIFORM})
    return next((name for name in names if load_measured(name).cpu == cpu), None)


def here_mbit(transport: str | None, load: Load, windows: int) -> float:
    """What one CPU of this machine carries. Raises RuntimeError if the load failed."""
    parts = find_parts()
    if parts.relay is None:
        raise RuntimeError("the lab's relay is not built: ./lab setup")
    iperf3 = str(parts.iperf3[VERSION].path)
    with chain(iperf3, parts.relay, transport, usable_cpus()[-1]) as built:
        built.start("iperf3/sender", load.argv(iperf3, built.entry, 60))
        settle(load)
        best = max(window_mbit(built) for _ in range(windows))
        if built.processes["iperf3/sender"].poll() is not None:
            raise RuntimeError(f"iperf3 gave up under {load}")
    return best


def window_mbit(built: Chain) -> float:
    """The same of a window of a running load."""

    def taken() -> tuple[int, int]:
        pids = {name: process.pid for name, process in built.processes.items()}
        return sum(map(cpu_ns, pids.values())), moved(pids["iperf3/receiver"]).bytes

    before_ns, before_bytes = taken()
    time.sleep(WINDOW_S)
    after_ns, after_bytes = taken()
    return 8e3 * (after_bytes - before_bytes) / (after_ns - before_ns)


def sandbox_mbit(transport: str | None, load: Load, table: str) -> float:
    """What a host of one CPU carries in the sandbox. Raises RuntimeError or MachineError."""
    parts = find_parts()
    if parts.relay is None:
        raise RuntimeError("the lab's relay is not built: ./lab setup")
    iperf3 = parts.iperf3[VERSION].path
    with tempfile.TemporaryDirectory(prefix="gostlab-bench-") as folder:
        guest = sandbox.boot(
            require_kernel(parts),
            Path(folder),
            ["/bin/sh", "-c", script(str(iperf3), str(parts.relay), transport, load, table)],
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


def script(iperf3: str, relay: str, transport: str | None, load: Load, table: str) -> str:
    """The shell script that builds the chain in the guest and loads it; its report goes to the
    guest's writable folder.
    """
    programs = load_measured(table).programs

    def paying(name: str, argv: Sequence[str]) -> str:
        # As a run's programs are: told to the kernel before they are executed.
        spellings = (name.replace("iperf3/", f"iperf3-{VERSION}/"), name)
        cost = next(programs[each] for each in spellings if each in programs)
        charge = f"echo {name} {cost.call_ns} {cost.byte_ps} >/proc/self/net/program_cost"
        return f"({charge}; exec {shlex.join(argv)})"

    lines = ["ip link set lo up"]
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


def compare(table: str, repeat: int) -> dict[str, tuple[float, float]]:
    """By row: Mbit/s in the sandbox, and here."""
    found = {}
    for transport, load in chains():
        name = f"{NAMES[transport]}, {load.streams} stream{'s' * (load.streams > 1)}"
        print(f"bench: loopback: {name} …", file=sys.stderr, flush=True)
        # What the sandbox does is the same every time.
        found[name] = sandbox_mbit(transport, load, table), here_mbit(transport, load, repeat)
    return found
