# SPDX-License-Identifier: MIT
"""Measure the CPU costs of the lab's programs here: c0 per system call and c1 per byte.

iperf3 runs alone, and through the relay and each added GOST by each transport, by turns, over
loopback, all on one CPU (taskset, GOMAXPROCS=1), at full rate. During a load, two windows are taken
of each process: its CPU time, its calls to read and write and their bytes, then all its system
calls by `perf stat`. cpu = c0 · calls + c1 · bytes is fitted to the cheapest repeat of each load by
relative least squares. c1 depends on the number of streams, as a byte costs more where many share a
cache. A load with another number of streams checks the interpolation. The model excludes the
additional cost of the wake-ups of a program that waits for a rate.

A tunnel over UDP moves datagrams, which no counter of a process includes: they are the bytes that
cross loopback in addition to TCP, so no other program may use loopback. Its calls cost as much as
the program's calls over TCP.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

from gostlab.cli.common import end_process, say
from gostlab.install.locate import RELAY, Parts, explain_unusable_tunnel, find_parts, tunnel_binary
from gostlab.registry.folders import MACHINES
from gostlab.registry.tunnels import GOST, tunnel_kind
from gostlab.sandbox import usable_cpus
from gostlab.sandbox.uml import host_facts
from gostlab.spec.cpu_cost_tables import PROGRAM, Cost, MeasuredCost, load_measured

ENVIRON = {"GOMAXPROCS": "1", "GODEBUG": "multipathtcp=0"}
WINDOW_S, COUNT_S = 1.5, 0.8
# 128 TLS streams need a second for their handshakes.
SETTLE_S, SETTLE_PER_STREAM_S = 0.7, 0.02
# All system calls, and those that /proc/pid/io counts as well.
EVENTS = ("raw_syscalls:sys_enter", "syscalls:sys_enter_read", "syscalls:sys_enter_write")
NOTE = "over loopback, one CPU, GOMAXPROCS=1; of each load the cheapest of {repeat}"


@dataclass(frozen=True)
class CpuUse:
    """The CPU time, calls and bytes of a process in a window."""

    cpu_ns: float
    calls: float
    bytes: float


@dataclass(frozen=True)
class ChainLoad:
    """The load of iperf3 on a chain."""

    streams: int
    rate: str = "0"  # iperf3's -b; 0: full rate
    length: str = "128K"  # size of a write

    def argv(self, iperf3: str, port: int | str, seconds: float) -> list[str]:
        args = [iperf3, "-c", "127.0.0.1", "-p", str(port), "-t", f"{seconds:g}", "-J"]
        return [*args, "-P", str(self.streams), "-b", self.rate, "-l", self.length]


FULL = (ChainLoad(1), ChainLoad(16), ChainLoad(128))
JUDGE = ChainLoad(64)  # measured, but not part of the fit
DIRECT = (
    *FULL,
    JUDGE,
    ChainLoad(1, length="4K"),
    ChainLoad(1, length="16K"),
    ChainLoad(16, length="16K"),
)
THROUGH = (*FULL, JUDGE, ChainLoad(1, length="4K"))
OVER_UDP = FULL[:2]  # One connection carries all streams, which more streams only delay.
# Each of the first transports does all that its predecessor does, and more; the others are not
# comparable.
TRANSPORTS = ("tcp", "ws", "wss")
OTHERS = "tls mws mwss mtls h2 h2c grpc ssh quic h3 wt kcp".split()
ALL_TRANSPORTS = (*TRANSPORTS, *OTHERS)
# Loopback carries this many bytes per byte of TCP payload: headers of super-packets, and ACKs.
TCPS_SHARE = 1.005
RELAYS_NAME = "gost"  # name of the lab's relay in tables; a GOST has its version appended


@dataclass(frozen=True)
class Hop:
    """The programs at both ends of a tunnel between iperf3's ends, with a transport."""

    name: str  # name of the program in tables: gost, gost-3.2.6
    program: Path
    transport: str

    def end(self, end: str) -> str:
        """Return the name under which an end, near or far, is charged."""
        return f"{self.name}+{self.transport}/{end}"

    @property
    def over_udp(self) -> bool:
        return tunnel_kind(f"{GOST}+{self.transport}").over == "udp"

    @property
    def loads(self) -> tuple[ChainLoad, ...]:
        return OVER_UDP if self.over_udp else THROUGH

    def says(self) -> str:
        program = self.name.replace("gost-", "GOST ") if self.name != RELAYS_NAME else "relay"
        return f"{program}, {self.transport}"


def hop_name(hop: Hop | None) -> str:
    return hop.says() if hop else "iperf3 alone"


Group = tuple[str, int]  # program name, number of streams
Loads = Mapping[tuple[Hop | None, ChainLoad], CpuUse]  # by hop (None: iperf3 alone) and load
Taken = Mapping[tuple[Hop | None, ChainLoad], Sequence[Mapping[str, CpuUse]]]


def hops_of(parts: Parts, transports: Sequence[str] = TRANSPORTS) -> list[Hop]:
    """Return the relay's and each added GOST's hops by transport. Raises MissingPart.

    Hops of one transport follow each other, because they are compared with each other.
    """
    programs = {RELAYS_NAME: tunnel_binary(parts, RELAY)}
    programs |= {f"{RELAYS_NAME}-{name.lower()}": one for name, one in parts.gosts.items()}
    return [
        Hop(name, one.path, transport)
        for transport in transports
        for name, one in programs.items()
        if PROGRAM.fullmatch(f"{name}+mwss/near")
        and not explain_unusable_tunnel(tunnel_kind(f"{GOST}+{transport}"), one)
    ]


# -- a chain of programs over loopback


def chain_argv(
    iperf3: str, hop: Hop | None, sink: int, far: int, near: int
) -> dict[str, tuple[list[str], int]]:
    """Return the commands and ports of a sink and of a tunnel's ends, in starting order.

    The keys are the names under which the programs are charged.
    """
    commands = {"iperf3/receiver": ([iperf3, "-s", "-B", "127.0.0.1", "-p", str(sink)], sink)}
    if hop:
        program, scheme = str(hop.program), f"relay+{hop.transport}"
        far_end = [program, "-L", f"{scheme}://127.0.0.1:{far}/127.0.0.1:{sink}"]
        near_end = [program, "-L", f"tcp://127.0.0.1:{near}", "-F", f"{scheme}://127.0.0.1:{far}"]
        commands |= {hop.end("far"): (far_end, far), hop.end("near"): (near_end, near)}
    return commands


@dataclass
class Chain:
    """A sink and a tunnel that listen on this machine's loopback."""

    iperf3: str
    hop: Hop | None
    client_cpus: str  # CPU list for taskset
    entry: int
    processes: dict[str, subprocess.Popen[bytes]]  # by the name under which the program is charged

    def start(self, name: str, argv: Sequence[str], cpus: str) -> subprocess.Popen[bytes]:
        self.processes[name] = subprocess.Popen(
            ["taskset", "-c", cpus, *argv],
            env={**os.environ, **ENVIRON},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self.processes[name]


@contextmanager
def run_chain(iperf3: str, hop: Hop | None, cpus: str, client_cpus: str = "") -> Iterator[Chain]:
    """Run a sink and a tunnel, with the client on `client_cpus` if given. Raises RuntimeError."""
    programs = chain_argv(iperf3, hop, *free_ports(3))
    *_, (_, entry) = programs.values()
    built = Chain(iperf3, hop, client_cpus or cpus, entry, {})
    try:
        for name, (argv, port) in programs.items():
            over = "udp" if hop and hop.over_udp and name == hop.end("far") else "tcp"
            wait_for(port, built.start(name, argv, cpus), over=over)
        yield built
    finally:
        for process in reversed(built.processes.values()):
            end_process(process, 5)


def free_ports(count: int) -> list[int]:
    """Return unused ports of 127.0.0.1."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(listener.getsockname()[1]) for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


def wait_for(
    port: int, process: subprocess.Popen[bytes], patience_s: float = 5.0, over: str = "tcp"
) -> None:
    """Wait for a listener without connecting, which iperf3's server would take for its test."""
    line = f"0100007F:{port:04X} 00000000:0000 {'0A' if over == 'tcp' else '07'}"
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and process.poll() is None:
        if line in Path(f"/proc/net/{over}").read_text(encoding="ascii"):
            return
        time.sleep(0.01)
    raise RuntimeError(f"nothing listens on port {port} of 127.0.0.1: {process.args!r}")


# -- measure the programs


def measure(built: Chain, load: ChainLoad) -> dict[str, CpuUse]:
    """Return what each program used in a window of a load. Raises RuntimeError."""
    # The load is longer than both windows and is terminated after them.
    argv = load.argv(built.iperf3, built.entry, 60)
    client = built.start("iperf3/sender", argv, built.client_cpus)
    pids = {name: process.pid for name, process in built.processes.items()}
    time.sleep(SETTLE_S + load.streams * SETTLE_PER_STREAM_S)
    before, crossed = {name: read_process_use(pid) for name, pid in pids.items()}, loopback_bytes()
    time.sleep(WINDOW_S)
    after = {n: read_process_use(pid) for n, pid in pids.items()}
    crossed = loopback_bytes() - crossed
    calls_per_move = count_calls(pids)
    if client.poll() is not None:
        raise RuntimeError(f"iperf3 gave up under {load}")
    spent = {}
    for name, began in before.items():
        cpu_ns, moves, moved = (b - a for a, b in zip(began, after[name], strict=True))
        spent[name] = CpuUse(cpu_ns, moves * calls_per_move[name], moved)
    return add_datagrams(spent, built.hop, crossed)


def loopback_bytes() -> int:
    """Return the bytes that loopback has carried, with headers (proc(5), /proc/net/dev)."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == "lo:")


def add_datagrams(
    spent: Mapping[str, CpuUse], hop: Hop | None, crossed: float
) -> dict[str, CpuUse]:
    """Add the datagrams of a tunnel over UDP to what its programs used.

    Their bytes are those that crossed loopback, without the two TCP hops; each end moves them once.
    """
    if hop is None or not hop.over_udp:
        return dict(spent)
    of_tcp = 2 * TCPS_SHARE * spent["iperf3/receiver"].bytes
    datagrams = max(0.0, crossed - of_tcp)
    ends = [hop.end("near"), hop.end("far")]
    more = {name: replace(spent[name], bytes=spent[name].bytes + datagrams) for name in ends}
    return {**spent, **more}


def read_process_use(pid: int) -> tuple[int, int, int]:
    """Return a process's CPU time, ns, and its read and write calls and bytes (proc(5))."""
    lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    io = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    cpu_ns = time.clock_gettime_ns((~pid << 3) | 2)
    return cpu_ns, io["syscr"] + io["syscw"], io["rchar"] + io["wchar"]


def count_calls(pids: Mapping[str, int]) -> dict[str, float]:
    """Return all system calls of each process per read or write. Raises RuntimeError."""
    perf = ["perf", "stat", "-x", ",", "-e", ",".join(EVENTS), "-p"]
    nowhere, counters = subprocess.DEVNULL, {}
    for name, pid in pids.items():
        argv = [*perf, str(pid), "--", "sleep", f"{COUNT_S:g}"]
        counters[name] = subprocess.Popen(argv, stdout=nowhere, stderr=subprocess.PIPE, text=True)
    outputs = {name: counter.communicate()[1] for name, counter in counters.items()}
    return {name: parse_calls_per_transfer(output) for name, output in outputs.items()}


def parse_calls_per_transfer(output: str) -> float:
    """Parse the ratio from the output of `perf stat`. Raises RuntimeError without counts."""
    counted = [int(number) for number in re.findall(r"^(\d+),", output, re.MULTILINE)]
    if len(counted) != len(EVENTS) or not sum(counted[1:]):
        raise RuntimeError(f"perf counts no system calls here: {output.strip()[:200]}")
    return counted[0] / sum(counted[1:])


def measure_repeats(iperf3: str, hops: Sequence[Hop], cpu: int, repeat: int) -> Taken:
    """Return what every program used, by hop and load, in each repeat.

    The repeats are the outer loop, so that drift affects all loads alike.
    """
    taken: dict[tuple[Hop | None, ChainLoad], list[Mapping[str, CpuUse]]] = {}
    for number in range(1, repeat + 1):
        for hop in (None, *hops):
            say(f"bench: {number} of {repeat}, {hop_name(hop)} …")
            for load in hop.loads if hop else DIRECT:
                with run_chain(iperf3, hop, str(cpu)) as built:
                    taken.setdefault((hop, load), []).append(measure(built, load))
    return taken


def cheapest_by_program(taken: Taken) -> dict[str, dict[tuple[Hop | None, ChainLoad], CpuUse]]:
    """Return the cheapest repeat of each program's loads; iperf3's only where it ran alone."""
    by_name: dict[str, dict[tuple[Hop | None, ChainLoad], CpuUse]] = {}
    for (hop, load), repeats in taken.items():
        for name in repeats[0]:
            if hop and name.startswith("iperf3"):
                continue
            spent = cheapest([repeat[name] for repeat in repeats])
            by_name.setdefault(name, {})[hop, load] = spent
    return by_name


def cheapest(samples: Sequence[CpuUse]) -> CpuUse:
    """Return the repeat with the minimum CPU time per byte; other work only adds time."""
    least = min(samples, key=lambda sample: sample.cpu_ns / sample.bytes)
    return CpuUse(least.cpu_ns / least.bytes, least.calls / least.bytes, 1.0)


# -- fit the costs


def fit_costs(groups: Mapping[Group, Sequence[CpuUse]]) -> dict[Group, Cost]:
    """Fit c0 and c1 of cpu = c0 · calls + c1 · bytes, both at least 0.

    The fit minimises the relative error by least squares. Groups are one program in several roles
    and with several numbers of streams: they share c0, and each has its own c1. The ratio of calls
    to bytes of a tunnel does not depend on its load. Its TRANSPORTS separate c0 from c1, as each
    does all that its predecessor does and more, so that its byte costs at least as much at the same
    end. Raises ValueError if no group separates them.
    """
    names = list(groups)
    taken = [(name, sample) for name in names for sample in groups[name]]
    if not any(
        are_linearly_independent([sample for name, sample in taken if name in cheaper_groups(last)])
        for last in names
    ):
        raise ValueError("calls and bytes grow together in all loads: nothing tells them apart")
    # The unknowns are c0, and for each group the additional cost per byte over its predecessor's.
    adds_up = np.array(
        [[float(other in cheaper_groups(name)) for other in names] for name in names]
    )
    of_bytes = dict(zip(names, adds_up, strict=True))
    matrix = np.array([[sample.calls, *(of_bytes[name] * sample.bytes)] for name, sample in taken])
    matrix /= np.array([[sample.cpu_ns] for _, sample in taken])
    scale = np.linalg.norm(matrix, axis=0)  # Calls and bytes differ by orders of magnitude.
    call_ns, *more_ns = nnls(matrix / scale, np.ones(len(taken)))[0] / scale
    costs_ns = zip(names, adds_up @ more_ns, strict=True)
    return {name: Cost(round(call_ns), round(1000 * byte_ns)) for name, byte_ns in costs_ns}


def cheaper_groups(group: Group) -> list[Group]:
    """Return the groups whose bytes cost at most as much as this group's, which is the last."""
    name, streams = group
    transport = name.partition("+")[2].partition("/")[0]
    if transport not in TRANSPORTS:
        return [group]
    less = TRANSPORTS[: TRANSPORTS.index(transport) + 1]
    return [(name.replace(f"+{transport}/", f"+{lesser}/"), streams) for lesser in less]


def fit_byte_cost(call_ns: int, samples: Sequence[CpuUse]) -> Cost:
    """Fit c1 at a given c0 by the same least squares.

    A tunnel over UDP takes c0 from its program's transports over TCP: it sends one packet per call,
    and does not separate the two costs.
    """
    calls, moved = calls_and_bytes(samples)
    byte_ns = float(moved @ (1 - call_ns * calls) / (moved @ moved))
    return Cost(call_ns, round(1000 * max(0.0, byte_ns)))


def calls_and_bytes(samples: Sequence[CpuUse]) -> np.ndarray:
    """Return calls and bytes of each sample per ns of CPU time."""
    return np.array(
        [(sample.calls / sample.cpu_ns, sample.bytes / sample.cpu_ns) for sample in samples]
    ).T


def are_linearly_independent(samples: Sequence[CpuUse]) -> bool:
    """Return whether calls and bytes are linearly independent."""
    calls, moved = calls_and_bytes(samples)
    both = (calls @ calls) * (moved @ moved)
    return bool(both - (calls @ moved) ** 2 > 1e-6 * both)


def misfit(cost: Cost, sample: CpuUse) -> float:
    """Return the model's CPU time over the measured one."""
    return (cost.call_ns * sample.calls + cost.byte_ps / 1000 * sample.bytes) / sample.cpu_ns


def compute_costs(loads_of: Mapping[str, Loads]) -> dict[str, MeasuredCost]:
    """Return the costs of iperf3's roles and of each tunnel's ends. Raises ValueError."""
    costs: dict[str, MeasuredCost] = {}
    tunnels = dict.fromkeys(f"{name.partition('+')[0]}+" for name in loads_of if "+" in name)
    for of_one in ("iperf3/sender", "iperf3/receiver", *tunnels):
        groups: dict[Group, list[CpuUse]] = {}
        over_udp: dict[Group, list[CpuUse]] = {}
        for name, loads in loads_of.items():
            for (hop, load), spent in loads.items() if name.startswith(of_one) else ():
                if load != JUDGE:
                    target_groups = over_udp if hop and hop.over_udp else groups
                    target_groups.setdefault((name, load.streams), []).append(spent)
        fitted = fit_costs(groups) if groups else {}
        for group, samples in over_udp.items() if fitted else ():
            fitted[group] = fit_byte_cost(next(iter(fitted.values())).call_ns, samples)
        for name in dict.fromkeys(name for name, _ in fitted):
            by_streams = {streams: cost for (one, streams), cost in fitted.items() if one == name}
            call_ns = next(iter(by_streams.values())).call_ns
            costs[name] = MeasuredCost(
                call_ns, {n: by_streams[n].byte_ps for n in sorted(by_streams)}
            )
    return costs


# -- write the table


def cost_table(name: str, programs: Mapping[str, MeasuredCost], note: str) -> str:
    """Return the YAML of a machine's table, which gostlab.spec.cpu_cost_tables reads."""
    host = host_facts("")

    def bytes_of(cost: MeasuredCost) -> str:
        by_streams = {streams: f"{ps / 1000:g}ns" for streams, ps in cost.byte_ps.items()}
        if list(by_streams) == [1]:
            return by_streams[1]
        return f"{{{', '.join(f'{streams}: {ns}' for streams, ns in by_streams.items())}}}"

    rows = "".join(
        f"  {program}: {{call: {cost.call_ns}ns, byte: {bytes_of(cost)}}}\n"
        for program, cost in sorted(programs.items())
    )
    return (
        f"# What programs cost on this machine's own kernel, by ./lab bench --costs\n"
        f"name: {name}\n"
        f"cpu: {json.dumps(host['cpu'])}\n"
        f"kernel: {json.dumps(host['kernel'])}\n"
        f"measured: {json.dumps(time.strftime('%Y-%m-%d'))}\n"
        f"note: {json.dumps(note)}\n"
        f"programs:\n{rows}"
    )


def name_of_cpu(cpu: str) -> str:
    """Return a CPU's name as a file name: "Intel(R) Xeon(R) Processor" → intel-xeon-processor."""
    name = re.sub(r"\((r|tm)\)", " ", cpu.lower())
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-") or "unknown"


def print_spread(taken: Taken) -> None:
    """Print the spread of a CPU's rates over the repeats, by load."""
    for (hop, load), repeats in taken.items():
        mbit = sorted(chain_mbit(spent) for spent in repeats)
        print(
            f"{hop_name(hop)}, {load.streams} streams by {load.length}:"
            f" {mbit[len(mbit) // 2]:.0f} Mbit/s a CPU, {mbit[0]:.0f} to {mbit[-1]:.0f}"
            f" in {len(mbit)}",
            file=sys.stderr,
        )


def chain_mbit(spent: Mapping[str, CpuUse]) -> float:
    """Return the rate that one CPU can carry, from what a chain's programs used in a window."""
    cpu_ns = sum(used.cpu_ns for used in spent.values())
    return 8e3 * spent["iperf3/receiver"].bytes / cpu_ns


def main(name: str, repeat: int) -> int:
    """Measure, print the quality of the fit, and write the machine's table."""
    parts = find_parts()
    ways = hops_of(parts, ALL_TRANSPORTS)
    for program in ("perf", "taskset"):
        if shutil.which(program) is None:
            raise RuntimeError(
                f"{program} is not there, without which nothing is measured:"
                " ./lab setup --with bench"
            )
    programs: dict[str, MeasuredCost] = {}
    for version, iperf3 in parts.iperf3.items():
        through = () if programs else ways
        taken = measure_repeats(str(iperf3.path), through, usable_cpus()[-1], repeat)
        typical = cheapest_by_program(taken)
        print_spread(taken)
        for program, cost in compute_costs(typical).items():
            programs[program.replace("iperf3/", f"iperf3-{version}/")] = cost
            for (_, load), sample in typical[program].items():
                print(
                    f"{program}, {load.streams} streams at {load.rate} by {load.length}:"
                    f" {sample.cpu_ns:.3f} ns of CPU a byte, {1 / sample.calls:.0f} bytes a call;"
                    f" the model says {misfit(cost.at(load.streams), sample):.2f} of it",
                    file=sys.stderr,
                )
    for role in ("sender", "receiver"):  # applies to any other iperf3, such as the system's
        programs[f"iperf3/{role}"] = programs[f"iperf3-{next(iter(parts.iperf3))}/{role}"]
    name = name or name_of_cpu(host_facts("")["cpu"])
    path = MACHINES / f"{name}.yaml"
    path.write_text(cost_table(name, programs, NOTE.format(repeat=repeat)), encoding="utf-8")
    load_measured(name)
    print(path)
    return 0
