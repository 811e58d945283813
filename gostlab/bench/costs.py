"""What the lab's programs cost on this machine's own kernel: c0 per system call and c1 per byte.

iperf3 alone, and through the relay by each of its transports, over loopback, all on one CPU
(taskset, GOMAXPROCS=1), as fast as it goes, with few and many streams, in large and small writes.
While a load runs, two windows are taken of each process: its CPU time, calls to read and write and
their bytes (which counting does not slow), then all its system calls by `perf stat`. cpu =
c0 · calls + c1 · bytes is then fitted to the loads, of each the cheapest repeat, by relative least
squares; c1 for each number of streams by itself, as a byte costs more where many share a cache. A
load with another number of streams judges what lies between. A program that waits for a rate pays
more per call, for its wake-ups; that is not in it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.ask.costs import FOLDER, Cost, MeasuredCost, load_measured
from gostlab.bench.callcost import ENVIRON, free_ports, wait_for
from gostlab.machine import usable_cpus
from gostlab.machine.sandbox import host_facts
from gostlab.setup.parts import find_parts

SETTLE_S = 0.7
WINDOW_S = 1.5
COUNT_S = 0.8
# 128 streams by TLS shake hands for a second.
SETTLE_PER_STREAM_S = 0.02
# All system calls, and those that /proc/pid/io counts as well.
EVENTS = ("raw_syscalls:sys_enter", "syscalls:sys_enter_read", "syscalls:sys_enter_write")


@dataclass(frozen=True)
class Spent:
    """What a process did in a window."""

    cpu_ns: float
    calls: float
    bytes: float


@dataclass(frozen=True)
class Load:
    """How iperf3 loads a chain."""

    streams: int
    rate: str = "0"  # of all streams together, iperf3's word; 0: as fast as it goes
    length: str = "128K"  # of a write

    def argv(self, iperf3: str, port: int | str, seconds: float) -> list[str]:
        """The client."""
        each = self.rate
        if self.rate != "0" and self.streams > 1:
            each = f"{float(self.rate[:-1]) / self.streams:g}{self.rate[-1]}"
        words = [iperf3, "-c", "127.0.0.1", "-p", str(port), "-t", f"{seconds:g}", "-J"]
        return [*words, "-P", str(self.streams), "-b", each, "-l", self.length]


NOTE = "over loopback, one CPU, GOMAXPROCS=1; of each load the cheapest of {repeat}"
FULL = (Load(1), Load(16), Load(128))
JUDGE = Load(64)  # measured as they are, and no part of the fit
DIRECT = (*FULL, JUDGE, Load(1, length="4K"), Load(1, length="16K"), Load(16, length="16K"))
THROUGH = (*FULL, JUDGE, Load(1, length="4K"))
TRANSPORTS = ("tcp", "ws", "wss")


MOST_CALL_NS = 100_000.0
Group = tuple[str, int]  # a program, and how many streams it has


def fit(groups: Mapping[Group, Sequence[Spent]]) -> dict[Group, Cost]:
    """c0 and c1 of cpu = c0 · calls + c1 · bytes, neither below 0, by least squares of the relative
    error: one c0 for all groups, which are one program in several roles and with several numbers of
    streams, and a c1 for each. A tunnel alone makes so many calls a byte whatever its load, and
    could not tell the two apart; its transports do, as each of TRANSPORTS does all that the one
    before it does, and more: at one end its byte costs no less. Raises ValueError where no group
    can.
    """
    rows = {
        name: [(each.calls / each.cpu_ns, each.bytes / each.cpu_ns) for each in samples]
        for name, samples in groups.items()
    }
    if not told_apart(rows):
        raise ValueError("calls and bytes grow together in all loads: nothing tells them apart")
    chains = in_order(rows)

    def byte_costs(call_ns: float) -> dict[Group, float]:
        return {
            name: byte_ns
            for names in chains
            for name, byte_ns in zip(
                names,
                rising([target_of(rows[name], call_ns) for name in names]),
                strict=True,
            )
        }

    def error(call_ns: float) -> float:
        byte_ns = byte_costs(call_ns)
        return sum(
            (call_ns * a + byte_ns[name] * b - 1) ** 2 for name in rows for a, b in rows[name]
        )

    # The error is convex in c0: two thirds of where its least can be are left at each step.
    low, high = 0.0, MOST_CALL_NS
    while high - low > 0.1:
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if error(left) < error(right) else (left, high)
    return {
        name: Cost(round(low), round(1000 * byte_ns)) for name, byte_ns in byte_costs(low).items()
    }


Row = tuple[float, float]  # of a load: calls and bytes per ns of CPU time


def told_apart(rows: Mapping[Group, Sequence[Row]]) -> bool:
    """Whether calls and bytes vary apart in a group, or between groups of one order."""
    return any(
        sum(a * a for a, _ in group) * sum(b * b for _, b in group)
        - sum(a * b for a, b in group) ** 2
        > 1e-6 * sum(a * a for a, _ in group) * sum(b * b for _, b in group)
        for group in ([row for name in names for row in rows[name]] for names in in_order(rows))
    )


def in_order(rows: Mapping[Group, Any]) -> list[list[Group]]:
    """The groups, those of a tunnel's end and number of streams in the order of what they do; any
    other alone.
    """
    ends = [
        [(f"gost+{transport}/{end}", streams) for transport in TRANSPORTS]
        for end in ("near", "far")
        for streams in sorted({streams for _, streams in rows})
    ]
    chains = [[name for name in names if name in rows] for names in ends]
    ordered = {name for names in chains for name in names}
    return [names for names in chains if names] + [[name] for name in rows if name not in ordered]


def target_of(group: Sequence[Row], call_ns: float) -> tuple[float, float]:
    """The c1 that is best for a group at this c0, and how much it matters."""
    weight = sum(b * b for _, b in group)
    return sum(b * (1 - call_ns * a) for a, b in group) / weight, weight


def rising(targets: Sequence[tuple[float, float]]) -> list[float]:
    """The nearest values that never fall and are never below 0, by weighted least squares: where
    targets fall, their mean (pool adjacent violators).
    """
    pools: list[tuple[float, float, int]] = []
    for value, weight in targets:
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (one, of_one, n), (two, of_two, m) = pools[-2:]
            both = of_one + of_two
            pools[-2:] = [((one * of_one + two * of_two) / both, both, n + m)]
    return [max(0.0, value) for value, _, count in pools for _ in range(count)]


def misfit(cost: Cost, sample: Spent) -> float:
    """What the model says of a load, over what was measured."""
    return (cost.call_ns * sample.calls + cost.byte_ps / 1000 * sample.bytes) / sample.cpu_ns


# -- a chain of programs on one CPU


@dataclass
class Chain:
    """A sink, and a tunnel's two ends before it or none, on one CPU of the machine's own kernel."""

    iperf3: str
    cpu: int
    entry: int
    processes: dict[str, subprocess.Popen[bytes]]  # by the name of the program as it is charged

    def start(self, name: str, argv: Sequence[str]) -> None:
        """Start a program of the chain on its CPU."""
        self.processes[name] = subprocess.Popen(
            ["taskset", "-c", str(self.cpu), *argv],
            env={**os.environ, **ENVIRON},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


@contextmanager
def chain(iperf3: str, relay: Path, transport: str | None, cpu: int) -> Iterator[Chain]:
    """A sink, and before it a relay by a transport."""
    sink, far, near = free_ports(3)
    built = Chain(iperf3, cpu, near if transport else sink, {})
    try:
        built.start("iperf3/receiver", [iperf3, "-s", "-B", "127.0.0.1", "-p", str(sink)])
        wait_for(sink, built.processes["iperf3/receiver"])
        if transport:
            scheme = "relay" if transport == "tcp" else f"relay+{transport}"
            name = f"gost+{transport}"
            built.start(
                f"{name}/far",
                [str(relay), "-L", f"{scheme}://127.0.0.1:{far}/127.0.0.1:{sink}"],
            )
            wait_for(far, built.processes[f"{name}/far"])
            built.start(
                f"{name}/near",
                [
                    str(relay),
                    *("-L", f"tcp://127.0.0.1:{near}"),
                    *("-F", f"{scheme}://127.0.0.1:{far}"),
                ],
            )
            wait_for(near, built.processes[f"{name}/near"])
        yield built
    finally:
        for process in reversed(built.processes.values()):
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def cpu_ns(pid: int) -> int:
    """CPU time of a process so far, all its threads (clock_getcpuclockid)."""
    return time.clock_gettime_ns((~pid << 3) | 2)


@dataclass(frozen=True)
class Moved:
    """A process's calls to read and write so far, and their bytes (proc(5), /proc/pid/io)."""

    calls: int
    bytes: int


def moved(pid: int) -> Moved:
    """What a process has read and written so far."""
    lines = Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines()
    values = {name: int(value) for name, value in (line.split(": ") for line in lines)}
    return Moved(values["syscr"] + values["syscw"], values["rchar"] + values["wchar"])


def settle(load: Load) -> None:
    """Wait until a load that was started runs as it will."""
    time.sleep(SETTLE_S + load.streams * SETTLE_PER_STREAM_S)


def measure(built: Chain, load: Load) -> dict[str, Spent]:
    """What each program spent in a window of a load. Raises RuntimeError if the load failed."""
    # Longer than all that is done meanwhile: it is ended then.
    built.start("iperf3/sender", load.argv(built.iperf3, built.entry, 60))
    client = built.processes["iperf3/sender"]
    pids = {name: process.pid for name, process in built.processes.items()}
    settle(load)
    before = {name: (cpu_ns(pid), moved(pid)) for name, pid in pids.items()}
    time.sleep(WINDOW_S)
    after = {name: (cpu_ns(pid), moved(pid)) for name, pid in pids.items()}
    calls_per_move = count_calls(pids)
    if client.poll() is not None:
        raise RuntimeError(f"iperf3 gave up under {load}")
    spent = {}
    for name in pids:
        (cpu_0, moved_0), (cpu_1, moved_1) = before[name], after[name]
        spent[name] = Spent(
            cpu_1 - cpu_0,
            (moved_1.calls - moved_0.calls) * calls_per_move[name],
            moved_1.bytes - moved_0.bytes,
        )
    return spent


def count_calls(pids: Mapping[str, int]) -> dict[str, float]:
    """All system calls of each process per call to read or write, taken while it runs. Raises
    RuntimeError where nothing may count them.
    """
    counters = {
        name: subprocess.Popen(
            [
                *("perf", "stat", "-x", ",", "-e", ",".join(EVENTS), "-p", str(pid)),
                *("--", "sleep", f"{COUNT_S:g}"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, pid in pids.items()
    }
    said = {name: counter.communicate()[1] for name, counter in counters.items()}
    found = {}
    for name, words in said.items():
        counted = [int(number) for number in re.findall(r"^(\d+),", words, re.MULTILINE)]
        if len(counted) != len(EVENTS) or not sum(counted[1:]):
            raise RuntimeError(f"perf counts no system calls here: {words.strip()[:200]}")
        found[name] = counted[0] / sum(counted[1:])
    return found


Taken = Mapping[tuple[str | None, Load], Sequence[Mapping[str, Spent]]]


def take(
    iperf3: str, relay: Path, cpu: int, repeat: int, transports: Sequence[str] = TRANSPORTS
) -> Taken:
    """What every program spent: by transport (None: iperf3 alone) and load, of each repeat. The
    repeats are the outer loop, so that drift hits all alike.
    """
    found: dict[tuple[str | None, Load], list[Mapping[str, Spent]]] = {}
    for _ in range(repeat):
        for transport in (None, *transports):
            for load in THROUGH if transport else DIRECT:
                with chain(iperf3, relay, transport, cpu) as built:
                    found.setdefault((transport, load), []).append(measure(built, load))
    return found


def by_program(taken: Taken) -> dict[str, dict[tuple[str | None, Load], Spent]]:
    """Every program's loads, of each the cheapest repeat; iperf3's own where it was alone."""
    found: dict[str, dict[tuple[str | None, Load], Spent]] = {}
    for (transport, load), repeats in taken.items():
        for name in repeats[0]:
            if transport and name.startswith("iperf3"):
                continue
            spent = cheapest([each[name] for each in repeats])
            found.setdefault(name, {})[transport, load] = spent
    return found


Loads = Mapping[tuple[str | None, Load], Spent]  # by transport (None: iperf3 alone) and load


def costs_of(loads_of: Mapping[str, Loads]) -> dict[str, MeasuredCost]:
    """The costs of iperf3's two roles and of the relay's ends, those that were taken. Raises
    ValueError as fit() does.
    """
    found: dict[str, MeasuredCost] = {}
    for of_one in ("iperf3/sender", "iperf3/receiver", "gost+"):
        groups: dict[Group, list[Spent]] = {}
        for name, loads in loads_of.items():
            for (_, load), spent in loads.items() if name.startswith(of_one) else ():
                if load != JUDGE:
                    groups.setdefault((name, load.streams), []).append(spent)
        fitted = fit(groups) if groups else {}
        for name in dict.fromkeys(name for name, _ in fitted):
            costs = {streams: cost for (one, streams), cost in fitted.items() if one == name}
            call_ns = next(iter(costs.values())).call_ns
            found[name] = MeasuredCost(call_ns, {n: costs[n].byte_ps for n in sorted(costs)})
    return found


def cheapest(samples: Sequence[Spent]) -> Spent:
    """The repeat in which a byte took the least CPU time: what else runs on the machine (another
    program's cache, a neighbour of the virtual machine) only adds.
    """
    least = min(samples, key=lambda each: each.cpu_ns / each.bytes)
    return Spent(least.cpu_ns / least.bytes, least.calls / least.bytes, 1.0)


# -- the table


def cost_table(name: str, programs: Mapping[str, MeasuredCost], note: str) -> str:
    """The YAML of a machine's table (gostlab.ask.costs reads it)."""
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


def tell(program: str, cost: MeasuredCost, loads: Loads) -> None:
    """Say how well the model fits."""
    for (_, load), sample in loads.items():
        print(
            f"{program}, {load.streams} streams at {load.rate} by {load.length}:"
            f" {sample.cpu_ns:.3f} ns of CPU a byte, {1 / sample.calls:.0f} bytes a call;"
            f" the model says {misfit(cost.at(load.streams), sample):.2f} of it",
            file=sys.stderr,
        )


def main(name: str, repeat: int) -> int:
    """Measure, say how well the model fits, and write the machine's table."""
    parts = find_parts()
    if parts.relay is None:
        raise RuntimeError("the lab's relay is not built: ./lab setup")
    for program in ("perf", "taskset"):
        if shutil.which(program) is None:
            raise RuntimeError(
                f"{program} is not there, without which nothing is measured:"
                " ./lab setup --with bench"
            )
    cpu = usable_cpus()[-1]
    programs: dict[str, MeasuredCost] = {}
    for version, iperf3 in parts.iperf3.items():
        taken = take(str(iperf3.path), parts.relay, cpu, repeat, () if programs else TRANSPORTS)
        typical = by_program(taken)
        for program, cost in costs_of(typical).items():
            programs[program.replace("iperf3/", f"iperf3-{version}/")] = cost
            tell(program, cost, typical[program])
    for role in ("sender", "receiver"):  # any other iperf3, the system's among them
        programs[f"iperf3/{role}"] = programs[f"iperf3-{next(iter(parts.iperf3))}/{role}"]
    name = name or name_of_cpu(host_facts("")["cpu"])
    path = FOLDER / f"{name}.yaml"
    path.write_text(cost_table(name, programs, NOTE.format(repeat=repeat)), encoding="utf-8")
    load_measured(name)
    print(path)
    return 0
