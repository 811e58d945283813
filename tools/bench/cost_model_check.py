# SPDX-License-Identifier: MIT
"""Check the cost model of programs: compare this machine's kernel with the sandbox.

In the sandbox each program pays the cost that was measured here in the same minutes. An hour later
a call may cost twice as much where caches are shared. The deviation of a shipped table is reported
as well.

Loopback: iperf3 alone, and through the relay and the newest GOST, by each transport, with streams
at full rate, and with 64 of them, which were not part of the fit. On this machine the rate is 8
bits over the CPU time that the chain's programs use per byte delivered, of the cheapest window, as
other work only adds time. In the sandbox it is iperf3's rate on a host of one CPU.

CPUs: iperf3 alone, with one CPU per end, for which the machine must be idle, and with both on one.
"""

import json
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

from gostlab.bench import cpu_costs
from gostlab.install.locate import find_parts, require_kernel, version_tuple
from gostlab.registry.folders import MACHINES
from gostlab.registry.iperf3_versions import OWN
from gostlab.sandbox import uml, usable_cpus
from gostlab.spec.cpu_cost_tables import UNIFORM, MeasuredCost, load_measured, machine_names
from gostlab.spec.cpu_model import CpuModel, MachineModel
from tools.bench.harness import Bench
from tools.bench.metrics import BenchMetric, print_metric

# Ports of the chain in the sandbox, and the duration of its load on the virtual clock.
SINK, FAR, NEAR = 5000, 5001, 5002
SECONDS = 1
VERSION = next(iter(OWN))  # version of iperf3
# 128 streams fill the buffers of 256 sockets; with less memory TCP drops received data.
MEMORY_MIB = 4096
# The kernel derives these limits from its memory at boot: the sandbox uses this machine's values.
TCP_LIMITS = ("tcp_mem", "tcp_rmem", "tcp_wmem")
LIMIT_S = 400.0


def measure_loopback(bench: Bench) -> list[BenchMetric]:
    """Return the rates in the sandbox over those here, and the shipped table's error."""
    ways = select_newest_gost(cpu_costs.hops_of(bench.parts))
    iperf3 = bench.parts.iperf3[VERSION].path
    taken = cpu_costs.measure_repeats(str(iperf3), ways, bench.cpus[-1], bench.repeat)
    loads_of = cpu_costs.cheapest_by_program(taken)
    programs = cpu_costs.compute_costs(loads_of)
    figures = []
    for hop, load in product((None, *ways), (*cpu_costs.FULL, cpu_costs.JUDGE)):
        name = f"{cpu_costs.hop_name(hop)}, {load.streams} stream{'s' * (load.streams > 1)}"
        # The sandbox gives the same result every time.
        got = sandbox_mbit(iperf3, hop, load, programs)
        wanted = max(map(cpu_costs.chain_mbit, taken[hop, load]))
        name, target = f"loopback, {name}: the sandbox", f"0.85 – 1.15 ({wanted:.0f} Mbit/s here)"
        row = BenchMetric(f"{name} over this machine", "×", target, [got / wanted])
        figures.append(print_metric(row))
    table = table_here()
    shipped = load_measured(table).programs if table else {}
    by_table = [
        cpu_costs.misfit(shipped[name].at(load.streams), spent)
        for name, loads in loads_of.items()
        if name in shipped
        for (_, load), spent in loads.items()
    ]
    name = "what programs cost: the shipped table over these minutes"
    return [*figures, *([BenchMetric(name, "×", "", by_table)] if by_table else [])]


def select_newest_gost(hops: Sequence[cpu_costs.Hop]) -> list[cpu_costs.Hop]:
    """Return the relay's hops and those of the newest GOST."""
    gosts = {hop.name for hop in hops} - {cpu_costs.RELAYS_NAME}
    newest = max(gosts, key=lambda name: version_tuple(name.removeprefix("gost-")), default="")
    return [hop for hop in hops if hop.name in (cpu_costs.RELAYS_NAME, newest)]


def table_here() -> str | None:
    """Return the first table in machines/ that was measured on this machine's CPU."""
    cpu = uml.host_facts("")["cpu"]
    names = sorted(set(machine_names(MACHINES)) - {UNIFORM})
    return next((name for name in names if load_measured(name).cpu == cpu), None)


def sandbox_mbit(
    iperf3: Path,
    hop: cpu_costs.Hop | None,
    load: cpu_costs.ChainLoad,
    programs: Mapping[str, MeasuredCost],
    host_cpus: int = 1,
) -> float:
    """Return a chain's rate in the sandbox at these costs. Raises RuntimeError or MachineError."""
    args = script(str(iperf3), hop, load, programs)
    own_cpus = CpuModel(host_cpus, clock_reads_are_free=True)
    with tempfile.TemporaryDirectory(prefix="gostlab-bench-") as folder:
        uml.boot(
            require_kernel(find_parts()),
            Path(folder),
            ["/bin/sh", "-c", args],
            # The system-call cost applies to the shell.
            MachineModel(MEMORY_MIB, syscall_cost_us=2.0, cpus=own_cpus),
            environ=cpu_costs.ENVIRON,
            keep=[iperf3.parent, *([hop.program] if hop else [])],
            cpu=usable_cpus()[-1],
            limit_s=LIMIT_S,
        ).wait()
        report, log = Path(folder, "report.json"), Path(folder, "log.txt")
        try:
            received = json.loads(report.read_text(encoding="utf-8"))["end"]["sum_received"]
        except (OSError, ValueError, KeyError):
            output = log.read_text(encoding="utf-8", errors="replace").strip()[-300:]
            raise RuntimeError(
                f"{cpu_costs.hop_name(hop)} did not run in the sandbox: {output}"
            ) from None
    return float(received["bits_per_second"]) / 1e6


def script(
    iperf3: str,
    hop: cpu_costs.Hop | None,
    load: cpu_costs.ChainLoad,
    programs: Mapping[str, MeasuredCost],
) -> str:
    """Return the shell script that builds and loads the chain in the guest and saves its report."""

    def paying(name: str, argv: Sequence[str]) -> str:
        # The kernel learns the costs before the programs are executed, as in a run.
        spellings = (name.replace("iperf3/", f"iperf3-{VERSION}/"), name)
        measured = next(programs[spelling] for spelling in spellings if spelling in programs)
        cost = measured.at(load.streams)
        charge = f"echo {name} {cost.call_ns} {cost.byte_ps} >/proc/self/net/program_cost"
        return f"({charge}; exec {shlex.join(argv)})"

    lines = ["ip link set lo up"]
    for name in TCP_LIMITS:
        limit = Path("/proc/sys/net/ipv4", name)
        lines.append(f"echo {' '.join(limit.read_text(encoding='ascii').split())} >{limit}")
    listening = cpu_costs.chain_argv(iperf3, hop, SINK, FAR, NEAR)
    for name, (argv, _) in listening.items():
        lines += [f"{paying(name, argv)} >/dev/null 2>&1 &", "sleep 0.2"]
    client = load.argv(iperf3, str(NEAR if hop else SINK), SECONDS)
    lines.append(f"{paying('iperf3/sender', client)} >{uml.GUEST_FOLDER}/report.json")
    return "\n".join(lines)


def measure_cpus(bench: Bench) -> list[BenchMetric]:
    """Return the speed of two programs on two CPUs in the sandbox, relative to this machine."""
    if len(bench.cpus) < 2:
        return []
    names = ("two programs, a CPU each: the sandbox over this machine", "the same two on one CPU")
    # Runs with two CPUs and with one alternate.
    taken = [[speed_ratio(bench, count) for count in (2, 1)] for _ in range(bench.repeat)]
    of_each = zip(names, zip(*taken, strict=True), strict=True)
    return [BenchMetric(name, "×", "0.8 – 1.2", ratios) for name, ratios in of_each]


def speed_ratio(bench: Bench, cpus: int) -> float:
    """Return the sandbox's rate over this machine's, with one CPU per end or one for both."""
    iperf3, load = bench.parts.iperf3[VERSION].path, cpu_costs.ChainLoad(1)
    with cpu_costs.run_chain(str(iperf3), None, *map(str, bench.cpus[:cpus])) as built:
        spent = cpu_costs.measure(built, load)
    # A byte costs less on one CPU, because the reader finds it in the cache.
    programs = {
        name: MeasuredCost(0, {1: round(1000 * sample.cpu_ns / sample.bytes)})
        for name, sample in spent.items()
    }
    by_wall = 8e-6 * spent["iperf3/receiver"].bytes / cpu_costs.WINDOW_S
    here = by_wall if cpus == 2 else cpu_costs.chain_mbit(spent)
    return sandbox_mbit(iperf3, None, load, programs, cpus) / here
