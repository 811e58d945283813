"""Whether the model of what programs cost is true: the same programs on this machine's own kernel
and in the sandbox, where each pays what was measured of it here in the same minutes: an hour later
a call may cost twice as much, where caches are shared. What a shipped table says is told beside it.

Loopback: iperf3 alone, and through the relay and the newest GOST, by each transport, with streams
at full rate; with 64 of them, too, which no cost was fitted to. Here: 8 bits over the CPU time that
the chain's programs take per byte delivered, of several windows the cheapest, as other work only
adds. In the sandbox: what iperf3 reports on a host of one CPU.

CPUs: iperf3 alone, its ends on a CPU each, for which the machine must be idle, and both on one.
"""

import json
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from gostlab.bench import cpu_costs
from gostlab.bench.harness import Bench
from gostlab.bench.metrics import Figure, tell
from gostlab.install.locate import find_parts, require_kernel, version_tuple
from gostlab.registry.folders import MACHINES
from gostlab.registry.iperf3_versions import OWN
from gostlab.sandbox import uml, usable_cpus
from gostlab.spec.cpu_cost_tables import UNIFORM, MeasuredCost, load_measured, machine_names
from gostlab.spec.cpu_model import CpuModel, MachineModel

# Where the sandbox's chain listens, and how long it is loaded on its clock.
SINK, FAR, NEAR = 5000, 5001, 5002
SECONDS = 1
VERSION = next(iter(OWN))  # of iperf3
# 128 streams fill the buffers of 256 sockets and more: with too little, TCP drops what has come.
MEMORY_MIB = 4096
# What a kernel settles at its boot by the memory it has: the sandbox takes over what holds here.
TCP_LIMITS = ("tcp_mem", "tcp_rmem", "tcp_wmem")
LIMIT_S = 400.0


def loopback_figures(bench: Bench) -> list[Figure]:
    """Whether programs reach in the sandbox what they reach here, and how far the shipped table of
    this CPU, if there is one, is from what they cost in these minutes.
    """
    ways, iperf3 = of_newest(cpu_costs.ways_of(bench.parts)), bench.parts.iperf3[VERSION].path
    tell("loopback: this machine's own kernel …")
    taken = cpu_costs.take(str(iperf3), ways, bench.cpus[-1], bench.repeat)
    loads_of = cpu_costs.by_program(taken)
    programs = cpu_costs.costs_of(loads_of)
    figures = []
    for way, load in product((None, *ways), (*cpu_costs.FULL, cpu_costs.JUDGE)):
        name = f"{cpu_costs.name_of(way)}, {load.streams} stream{'s' * (load.streams > 1)}"
        tell(f"loopback: {name} …")
        # What the sandbox does is the same every time.
        got = sandbox_mbit(iperf3, way, load, programs)
        wanted = max(map(cpu_costs.chain_mbit, taken[way, load]))
        name, target = f"loopback, {name}: the sandbox", f"0.85 – 1.15 ({wanted:.0f} Mbit/s here)"
        figures.append(Figure(f"{name} over this machine", "×", target, [got / wanted]))
    table = table_here()
    shipped = load_measured(table).programs if table else {}
    by_table = [
        cpu_costs.misfit(shipped[name].at(load.streams), spent)
        for name, loads in loads_of.items()
        if name in shipped
        for (_, load), spent in loads.items()
    ]
    name = "what programs cost: the shipped table over these minutes"
    return [*figures, *([Figure(name, "×", "", by_table)] if by_table else [])]


def of_newest(ways: Sequence[cpu_costs.Way]) -> list[cpu_costs.Way]:
    """The relay's ways, and those of the newest GOST."""
    gosts = {way.name for way in ways} - {cpu_costs.RELAYS_NAME}
    newest = max(gosts, key=lambda name: version_tuple(name.removeprefix("gost-")), default="")
    return [way for way in ways if way.name in (cpu_costs.RELAYS_NAME, newest)]


def table_here() -> str | None:
    """The first table in machines/ that was measured on this machine's CPU."""
    cpu = uml.host_facts("")["cpu"]
    names = sorted(set(machine_names(MACHINES)) - {UNIFORM})
    return next((name for name in names if load_measured(name).cpu == cpu), None)


def sandbox_mbit(
    iperf3: Path,
    way: cpu_costs.Way | None,
    load: cpu_costs.ChainLoad,
    programs: Mapping[str, MeasuredCost],
    host_cpus: int = 1,
) -> float:
    """What a host carries in the sandbox at these costs. Raises RuntimeError or MachineError."""
    words = script(str(iperf3), way, load, programs)
    own_cpus = CpuModel(host_cpus, clock_reads_are_free=True)
    with tempfile.TemporaryDirectory(prefix="gostlab-bench-") as folder:
        uml.boot(
            require_kernel(find_parts()),
            Path(folder),
            ["/bin/sh", "-c", words],
            MachineModel(MEMORY_MIB, syscall_cost_us=2.0, cpus=own_cpus),  # of the shell's calls
            environ=cpu_costs.ENVIRON,
            keep=[iperf3.parent, *([way.program] if way else [])],
            cpu=usable_cpus()[-1],
            limit_s=LIMIT_S,
        ).wait()
        report, log = Path(folder, "report.json"), Path(folder, "log.txt")
        try:
            received = json.loads(report.read_text(encoding="utf-8"))["end"]["sum_received"]
        except (OSError, ValueError, KeyError):
            said = log.read_text(encoding="utf-8", errors="replace").strip()[-300:]
            raise RuntimeError(
                f"{cpu_costs.name_of(way)} did not run in the sandbox: {said}"
            ) from None
    return float(received["bits_per_second"]) / 1e6


def script(
    iperf3: str,
    way: cpu_costs.Way | None,
    load: cpu_costs.ChainLoad,
    programs: Mapping[str, MeasuredCost],
) -> str:
    """What builds the chain in the guest and loads it; its report goes to the guest's folder."""

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
    listening = cpu_costs.chain_argv(iperf3, way, SINK, FAR, NEAR)
    for name, (argv, _) in listening.items():
        lines += [f"{paying(name, argv)} >/dev/null 2>&1 &", "sleep 0.2"]
    client = load.argv(iperf3, str(NEAR if way else SINK), SECONDS)
    lines.append(f"{paying('iperf3/sender', client)} >{uml.GUEST_FOLDER}/report.json")
    return "\n".join(lines)


def cpu_figures(bench: Bench) -> list[Figure]:
    """Whether two programs with a CPU each do in the sandbox what they do here, given two CPUs."""
    if len(bench.cpus) < 2:
        return []
    tell("two programs over loopback, here and in the sandbox …")
    names = ("two programs, a CPU each: the sandbox over this machine", "the same two on one CPU")
    # Two CPUs and one by turns.
    taken = [[over_here(bench, count) for count in (2, 1)] for _ in range(bench.repeat)]
    of_each = zip(names, zip(*taken, strict=True), strict=True)
    return [Figure(name, "×", "0.8 – 1.2", ratios) for name, ratios in of_each]


def over_here(bench: Bench, cpus: int) -> float:
    """The sandbox over this machine, iperf3's ends on a CPU each or both on one."""
    iperf3, load = bench.parts.iperf3[VERSION].path, cpu_costs.ChainLoad(1)
    with cpu_costs.chain(str(iperf3), None, *map(str, bench.cpus[:cpus])) as built:
        spent = cpu_costs.measure(built, load)
    # A byte's cost alone, and where it is used: on one CPU what was written is in its cache.
    programs = {
        name: MeasuredCost(0, {1: round(1000 * each.cpu_ns / each.bytes)})
        for name, each in spent.items()
    }
    by_wall = 8e-6 * spent["iperf3/receiver"].bytes / cpu_costs.WINDOW_S
    here = by_wall if cpus == 2 else cpu_costs.chain_mbit(spent)
    return sandbox_mbit(iperf3, None, load, programs, cpus) / here
