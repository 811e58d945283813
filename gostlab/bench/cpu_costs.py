"""What the lab's programs cost on this machine's own kernel: c0 per system call and c1 per byte.

iperf3 alone, and through the relay and each GOST that was added by each transport, by turns, over
loopback, all on one CPU (taskset, GOMAXPROCS=1), as fast as it goes. While a load runs, two windows
are taken of each process: its CPU time, calls to read and write and their bytes, then all its
system calls by `perf stat`. cpu = c0 · calls + c1 · bytes is fitted to the loads, of each the
cheapest repeat, by relative least squares; c1 for each number of streams, as a byte costs more
where many share a cache. A load with another number judges what lies between. What a program that
waits for a rate pays more per call, for its wake-ups, is not in it.

A tunnel over UDP moves datagrams, which no count of a process has: what crossed loopback beside TCP
is theirs, so nothing else may. Its call costs what the program's calls over TCP do.
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

from gostlab.bench.metrics import tell
from gostlab.cli.common import end_process
from gostlab.install.locate import RELAY, Parts, find_parts, tunnel_binary, why_not_through
from gostlab.registry.folders import MACHINES
from gostlab.registry.tunnels import GOST, tunnel_kind
from gostlab.sandbox import usable_cpus
from gostlab.sandbox.uml import host_facts
from gostlab.spec.cpu_cost_tables import PROGRAM, Cost, MeasuredCost, load_measured

ENVIRON = {"GOMAXPROCS": "1", "GODEBUG": "multipathtcp=0"}
WINDOW_S, COUNT_S = 1.5, 0.8
# 128 streams by TLS shake hands for a second.
SETTLE_S, SETTLE_PER_STREAM_S = 0.7, 0.02
# All system calls, and those that /proc/pid/io counts as well.
EVENTS = ("raw_syscalls:sys_enter", "syscalls:sys_enter_read", "syscalls:sys_enter_write")
NOTE = "over loopback, one CPU, GOMAXPROCS=1; of each load the cheapest of {repeat}"


@dataclass(frozen=True)
class Spent:
    """What a process did in a window."""

    cpu_ns: float
    calls: float
    bytes: float


@dataclass(frozen=True)
class ChainLoad:
    """How iperf3 loads a chain."""

    streams: int
    rate: str = "0"  # iperf3's word; 0: as fast as it goes
    length: str = "128K"  # of a write

    def argv(self, iperf3: str, port: int | str, seconds: float) -> list[str]:
        words = [iperf3, "-c", "127.0.0.1", "-p", str(port), "-t", f"{seconds:g}", "-J"]
        return [*words, "-P", str(self.streams), "-b", self.rate, "-l", self.length]


FULL = (ChainLoad(1), ChainLoad(16), ChainLoad(128))
JUDGE = ChainLoad(64)  # measured as they are, and no part of the fit
DIRECT = (
    *FULL,
    JUDGE,
    ChainLoad(1, length="4K"),
    ChainLoad(1, length="16K"),
    ChainLoad(16, length="16K"),
)
THROUGH = (*FULL, JUDGE, ChainLoad(1, length="4K"))
OVER_UDP = FULL[:2]  # one connection has all streams, which more of them only makes wait
# Each of the first does all that the one before it does, and more; the others are compared to none.
TRANSPORTS = ("tcp", "ws", "wss")
OTHERS = "tls mws mwss mtls h2 h2c grpc ssh quic h3 wt kcp".split()
ALL_TRANSPORTS = (*TRANSPORTS, *OTHERS)
TCPS_SHARE = 1.005  # what crosses loopback for a byte by TCP: headers of lumps of 64 KiB, and ACKs
RELAYS_NAME = "gost"  # how tables spell the lab's relay; a GOST has its own name behind it


@dataclass(frozen=True)
class Way:
    """What is between iperf3's two ends: a program at both ends of a tunnel, by a transport."""

    name: str  # as tables spell the program: gost, gost-3.2.6
    program: Path
    transport: str

    def end(self, end: str) -> str:
        """near or far, as it is charged."""
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


def name_of(way: Way | None) -> str:
    return way.says() if way else "iperf3 alone"


Group = tuple[str, int]  # a program, and how many streams it has
Loads = Mapping[tuple[Way | None, ChainLoad], Spent]  # by way (None: iperf3 alone) and load
Taken = Mapping[tuple[Way | None, ChainLoad], Sequence[Mapping[str, Spent]]]


def ways_of(parts: Parts, transports: Sequence[str] = TRANSPORTS) -> list[Way]:
    """All there is to go through: the relay, and each GOST that was added; by transport, so that
    what is compared is taken one after the other. Raises MissingPart without relay.
    """
    programs = {RELAYS_NAME: tunnel_binary(parts, RELAY)}
    programs |= {f"{RELAYS_NAME}-{name.lower()}": one for name, one in parts.gosts.items()}
    return [
        Way(name, one.path, transport)
        for transport in transports
        for name, one in programs.items()
        if PROGRAM.fullmatch(f"{name}+mwss/near")
        and not why_not_through(tunnel_kind(f"{GOST}+{transport}"), one)
    ]


# -- a chain of programs over loopback


def chain_argv(
    iperf3: str, way: Way | None, sink: int, far: int, near: int
) -> dict[str, tuple[list[str], int]]:
    """A sink, and a tunnel's two ends before it or none, in the order in which they start: their
    words and the port that each listens on, by the name under which a program is charged.
    """
    found = {"iperf3/receiver": ([iperf3, "-s", "-B", "127.0.0.1", "-p", str(sink)], sink)}
    if way:
        program, scheme = str(way.program), f"relay+{way.transport}"
        far_end = [program, "-L", f"{scheme}://127.0.0.1:{far}/127.0.0.1:{sink}"]
        near_end = [program, "-L", f"tcp://127.0.0.1:{near}", "-F", f"{scheme}://127.0.0.1:{far}"]
        found |= {way.end("far"): (far_end, far), way.end("near"): (near_end, near)}
    return found


@dataclass
class Chain:
    """What listens on this machine's loopback."""

    iperf3: str
    way: Way | None
    client_cpus: str  # taskset's word
    entry: int
    processes: dict[str, subprocess.Popen[bytes]]  # by the name of the program as it is charged

    def start(self, name: str, argv: Sequence[str], cpus: str) -> subprocess.Popen[bytes]:
        self.processes[name] = subprocess.Popen(
            ["taskset", "-c", cpus, *argv],
            env={**os.environ, **ENVIRON},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self.processes[name]


@contextmanager
def chain(iperf3: str, way: Way | None, cpus: str, client_cpus: str = "") -> Iterator[Chain]:
    """A sink, and what is before it; client_cpus: the client's, if others. Raises RuntimeError."""
    programs = chain_argv(iperf3, way, *free_ports(3))
    *_, (_, entry) = programs.values()
    built = Chain(iperf3, way, client_cpus or cpus, entry, {})
    try:
        for name, (argv, port) in programs.items():
            over = "udp" if way and way.over_udp and name == way.end("far") else "tcp"
            wait_for(port, built.start(name, argv, cpus), over=over)
        yield built
    finally:
        for process in reversed(built.processes.values()):
            end_process(process, 5)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def wait_for(
    port: int, process: subprocess.Popen[bytes], patience_s: float = 5.0, over: str = "tcp"
) -> None:
    """Wait for a listener without connecting: iperf3's server would take that for its test."""
    line = f"0100007F:{port:04X} 00000000:0000 {'0A' if over == 'tcp' else '07'}"
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline and process.poll() is None:
        if line in Path(f"/proc/net/{over}").read_text(encoding="ascii"):
            return
        time.sleep(0.01)
    raise RuntimeError(f"nothing listens on port {port} of 127.0.0.1: {process.args!r}")


# -- what its programs spend


def measure(built: Chain, load: ChainLoad) -> dict[str, Spent]:
    """What each program spent in a window of a load. Raises RuntimeError if the load failed."""
    # Longer than all that is done meanwhile: it is ended then.
    argv = load.argv(built.iperf3, built.entry, 60)
    client = built.start("iperf3/sender", argv, built.client_cpus)
    pids = {name: process.pid for name, process in built.processes.items()}
    time.sleep(SETTLE_S + load.streams * SETTLE_PER_STREAM_S)
    before, crossed = {name: so_far(pid) for name, pid in pids.items()}, loopback_bytes()
    time.sleep(WINDOW_S)
    after, crossed = {n: so_far(pid) for n, pid in pids.items()}, loopback_bytes() - crossed
    calls_per_move = count_calls(pids)
    if client.poll() is not None:
        raise RuntimeError(f"iperf3 gave up under {load}")
    spent = {}
    for name, began in before.items():
        cpu_ns, moves, moved = (b - a for a, b in zip(began, after[name], strict=True))
        spent[name] = Spent(cpu_ns, moves * calls_per_move[name], moved)
    return with_datagrams(spent, built.way, crossed)


def loopback_bytes() -> int:
    """What this machine's loopback has carried, headers and all (proc(5), /proc/net/dev)."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.split()[0] == "lo:")


def with_datagrams(spent: Mapping[str, Spent], way: Way | None, crossed: float) -> dict[str, Spent]:
    """What a tunnel over UDP moved in its datagrams too, which no count of a process has: all that
    crossed loopback, without the two ways that TCP took there. Each end has them once.
    """
    if way is None or not way.over_udp:
        return dict(spent)
    of_tcp = 2 * TCPS_SHARE * spent["iperf3/receiver"].bytes
    datagrams = max(0.0, crossed - of_tcp)
    ends = [way.end("near"), way.end("far")]
    more = {name: replace(spent[name], bytes=spent[name].bytes + datagrams) for name in ends}
    return {**spent, **more}


def so_far(pid: int) -> tuple[int, int, int]:
    """CPU time of all threads, ns; calls to read and write; their bytes (proc(5), /proc/pid/io)."""
    lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    io = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    cpu_ns = time.clock_gettime_ns((~pid << 3) | 2)
    return cpu_ns, io["syscr"] + io["syscw"], io["rchar"] + io["wchar"]


def count_calls(pids: Mapping[str, int]) -> dict[str, float]:
    """All system calls of each process per read or write, while it runs. Raises RuntimeError."""
    perf = ["perf", "stat", "-x", ",", "-e", ",".join(EVENTS), "-p"]
    nowhere, counters = subprocess.DEVNULL, {}
    for name, pid in pids.items():
        argv = [*perf, str(pid), "--", "sleep", f"{COUNT_S:g}"]
        counters[name] = subprocess.Popen(argv, stdout=nowhere, stderr=subprocess.PIPE, text=True)
    said = {name: counter.communicate()[1] for name, counter in counters.items()}
    return {name: calls_per_move_of(words) for name, words in said.items()}


def calls_per_move_of(said: str) -> float:
    """The same by what `perf stat` says of EVENTS. Raises RuntimeError where it counts nothing."""
    counted = [int(number) for number in re.findall(r"^(\d+),", said, re.MULTILINE)]
    if len(counted) != len(EVENTS) or not sum(counted[1:]):
        raise RuntimeError(f"perf counts no system calls here: {said.strip()[:200]}")
    return counted[0] / sum(counted[1:])


def take(iperf3: str, ways: Sequence[Way], cpu: int, repeat: int) -> Taken:
    """What every program spent: by way (None: iperf3 alone) and load, of each repeat. The repeats
    are the outer loop, so that drift hits all alike.
    """
    found: dict[tuple[Way | None, ChainLoad], list[Mapping[str, Spent]]] = {}
    for number in range(1, repeat + 1):
        for way in (None, *ways):
            tell(f"costs: {number} of {repeat}, {name_of(way)} …")
            for load in way.loads if way else DIRECT:
                with chain(iperf3, way, str(cpu)) as built:
                    found.setdefault((way, load), []).append(measure(built, load))
    return found


def call_us(iperf3: str, relay: Path, rate: str) -> float:
    """CPU µs per system call of the relay's near end at a rate (iperf3's word, like 150M), bytes
    and all: the figure behind the virtual clock's cost per call. Raises RuntimeError.
    """
    way = Way(RELAYS_NAME, relay, "ws")
    with chain(iperf3, way, ",".join(map(str, usable_cpus()))) as built:
        spent = measure(built, ChainLoad(1, rate))[way.end("near")]
    return spent.cpu_ns / spent.calls / 1000


def by_program(taken: Taken) -> dict[str, dict[tuple[Way | None, ChainLoad], Spent]]:
    """Every program's loads, of each the cheapest repeat; iperf3's own where it was alone."""
    found: dict[str, dict[tuple[Way | None, ChainLoad], Spent]] = {}
    for (way, load), repeats in taken.items():
        for name in repeats[0]:
            if way and name.startswith("iperf3"):
                continue
            spent = cheapest([each[name] for each in repeats])
            found.setdefault(name, {})[way, load] = spent
    return found


def cheapest(samples: Sequence[Spent]) -> Spent:
    """The repeat in which a byte took the least CPU time: what else runs on the machine (another
    program's cache, a neighbour of the virtual machine) only adds.
    """
    least = min(samples, key=lambda each: each.cpu_ns / each.bytes)
    return Spent(least.cpu_ns / least.bytes, least.calls / least.bytes, 1.0)


# -- the costs that follow


def fit(groups: Mapping[Group, Sequence[Spent]]) -> dict[Group, Cost]:
    """c0 and c1 of cpu = c0 · calls + c1 · bytes, neither below 0, by least squares of the relative
    error: one c0 for all groups, which are one program in several roles and with several numbers of
    streams, and a c1 for each. A tunnel alone makes so many calls a byte whatever its load; its
    TRANSPORTS tell the two apart, as each does all that the one before it does, and more: at one
    end its byte costs no less. Raises ValueError where no group can.
    """
    names = list(groups)
    taken = [(name, each) for name in names for each in groups[name]]
    if not any(told_apart([each for name, each in taken if name in up_to(last)]) for last in names):
        raise ValueError("calls and bytes grow together in all loads: nothing tells them apart")
    # Unknown are c0, and of each group how much more its byte costs than the one's before it.
    adds_up = np.array([[float(other in up_to(name)) for other in names] for name in names])
    of_bytes = dict(zip(names, adds_up, strict=True))
    matrix = np.array([[each.calls, *(of_bytes[name] * each.bytes)] for name, each in taken])
    matrix /= np.array([[each.cpu_ns] for _, each in taken])
    scale = np.linalg.norm(matrix, axis=0)  # calls and bytes differ by orders of magnitude
    call_ns, *more_ns = nnls(matrix / scale, np.ones(len(taken)))[0] / scale
    costs_ns = zip(names, adds_up @ more_ns, strict=True)
    return {name: Cost(round(call_ns), round(1000 * byte_ns)) for name, byte_ns in costs_ns}


def up_to(group: Group) -> list[Group]:
    """The groups of which a byte costs no more than of this one, which is the last of them."""
    name, streams = group
    transport = name.partition("+")[2].partition("/")[0]
    if transport not in TRANSPORTS:
        return [group]
    less = TRANSPORTS[: TRANSPORTS.index(transport) + 1]
    return [(name.replace(f"+{transport}/", f"+{each}/"), streams) for each in less]


def at_calls_cost(call_ns: int, samples: Sequence[Spent]) -> Cost:
    """c1 at a given c0, by the same least squares. A tunnel over UDP has the c0 that its program's
    transports over TCP have: it sends a packet a call, and alone tells nothing apart.
    """
    calls, moved = calls_and_bytes(samples)
    byte_ns = float(moved @ (1 - call_ns * calls) / (moved @ moved))
    return Cost(call_ns, round(1000 * max(0.0, byte_ns)))


def calls_and_bytes(samples: Sequence[Spent]) -> np.ndarray:
    """Both of each sample, per ns of CPU time."""
    return np.array([(each.calls / each.cpu_ns, each.bytes / each.cpu_ns) for each in samples]).T


def told_apart(samples: Sequence[Spent]) -> bool:
    """Whether calls and bytes vary apart."""
    calls, moved = calls_and_bytes(samples)
    both = (calls @ calls) * (moved @ moved)
    return bool(both - (calls @ moved) ** 2 > 1e-6 * both)


def misfit(cost: Cost, sample: Spent) -> float:
    """What the model says of a load, over what was measured."""
    return (cost.call_ns * sample.calls + cost.byte_ps / 1000 * sample.bytes) / sample.cpu_ns


def costs_of(loads_of: Mapping[str, Loads]) -> dict[str, MeasuredCost]:
    """The costs of iperf3's roles and of each tunnel's ends that were taken. Raises ValueError."""
    found: dict[str, MeasuredCost] = {}
    tunnels = dict.fromkeys(f"{name.partition('+')[0]}+" for name in loads_of if "+" in name)
    for of_one in ("iperf3/sender", "iperf3/receiver", *tunnels):
        groups: dict[Group, list[Spent]] = {}
        over_udp: dict[Group, list[Spent]] = {}
        for name, loads in loads_of.items():
            for (way, load), spent in loads.items() if name.startswith(of_one) else ():
                if load != JUDGE:
                    its = over_udp if way and way.over_udp else groups
                    its.setdefault((name, load.streams), []).append(spent)
        fitted = fit(groups) if groups else {}
        for group, samples in over_udp.items() if fitted else ():
            fitted[group] = at_calls_cost(next(iter(fitted.values())).call_ns, samples)
        for name in dict.fromkeys(name for name, _ in fitted):
            costs = {streams: cost for (one, streams), cost in fitted.items() if one == name}
            call_ns = next(iter(costs.values())).call_ns
            found[name] = MeasuredCost(call_ns, {n: costs[n].byte_ps for n in sorted(costs)})
    return found


# -- the table


def cost_table(name: str, programs: Mapping[str, MeasuredCost], note: str) -> str:
    """The YAML of a machine's table (gostlab.spec.cpu_cost_tables reads it)."""
    host = host_facts("")

    def bytes_of(cost: MeasuredCost) -> str:
        each = {streams: f"{ps / 1000:g}ns" for streams, ps in cost.byte_ps.items()}
        if list(each) == [1]:
            return each[1]
        return f"{{{', '.join(f'{streams}: {ns}' for streams, ns in each.items())}}}"

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
    """A CPU's name as a file's: "Intel(R) Xeon(R) Processor" → intel-xeon-processor."""
    words = re.sub(r"\((r|tm)\)", " ", cpu.lower())
    return re.sub(r"[^a-z0-9]+", "-", words).strip("-") or "unknown"


def tell_spread(taken: Taken) -> None:
    """What one CPU carries by each load in all repeats: how far other work on it had a say."""
    for (way, load), repeats in taken.items():
        mbit = sorted(chain_mbit(each) for each in repeats)
        print(
            f"{name_of(way)}, {load.streams} streams by {load.length}:"
            f" {mbit[len(mbit) // 2]:.0f} Mbit/s a CPU, {mbit[0]:.0f} to {mbit[-1]:.0f}"
            f" in {len(mbit)}",
            file=sys.stderr,
        )


def chain_mbit(spent: Mapping[str, Spent]) -> float:
    """What one CPU carries, by what the programs of a chain spent in a window."""
    cpu_ns = sum(each.cpu_ns for each in spent.values())
    return 8e3 * spent["iperf3/receiver"].bytes / cpu_ns


def main(name: str, repeat: int) -> int:
    """Measure, say how well the model fits, and write the machine's table."""
    parts = find_parts()
    ways = ways_of(parts, ALL_TRANSPORTS)
    for program in ("perf", "taskset"):
        if shutil.which(program) is None:
            raise RuntimeError(
                f"{program} is not there, without which nothing is measured:"
                " ./lab setup --with bench"
            )
    programs: dict[str, MeasuredCost] = {}
    for version, iperf3 in parts.iperf3.items():
        through = () if programs else ways
        taken = take(str(iperf3.path), through, usable_cpus()[-1], repeat)
        typical = by_program(taken)
        tell_spread(taken)
        for program, cost in costs_of(typical).items():
            programs[program.replace("iperf3/", f"iperf3-{version}/")] = cost
            for (_, load), sample in typical[program].items():
                print(
                    f"{program}, {load.streams} streams at {load.rate} by {load.length}:"
                    f" {sample.cpu_ns:.3f} ns of CPU a byte, {1 / sample.calls:.0f} bytes a call;"
                    f" the model says {misfit(cost.at(load.streams), sample):.2f} of it",
                    file=sys.stderr,
                )
    for role in ("sender", "receiver"):  # any other iperf3, the system's among them
        programs[f"iperf3/{role}"] = programs[f"iperf3-{next(iter(parts.iperf3))}/{role}"]
    name = name or name_of_cpu(host_facts("")["cpu"])
    path = MACHINES / f"{name}.yaml"
    path.write_text(cost_table(name, programs, NOTE.format(repeat=repeat)), encoding="utf-8")
    load_measured(name)
    print(path)
    return 0
