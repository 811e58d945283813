"""Measure the lab's speed on this machine as ratios to the previous version and to Linux.

Runs of the versions alternate, and Linux is the same nodes on this machine's own kernel. No test
asserts these values. CPU time is used because other work on the machine changes it little. Metrics
that other work does change (boot, wall time of a run, native nodes) show it by their spread, or are
skipped.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter, truediv
from pathlib import Path
from unittest.mock import patch

from gostlab import sandbox
from gostlab.bench import compare_commits, model_inputs, packet_cost, write_docs
from gostlab.bench.cluster import WORKERS, overhead_ms
from gostlab.bench.compare_commits import TimedLoad, packets_sent
from gostlab.bench.harness import Bench, check, load
from gostlab.bench.metrics import (
    FAILURES,
    HEAD,
    BenchMetric,
    failed_metric,
    print_metric,
    print_progress,
)
from gostlab.install.build_env import SetupError, Workbench
from gostlab.install.rootfs import provide_root
from gostlab.registry.folders import ROOT
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.sandbox.rootfs import plain_root
from gostlab.scheduler.eta import last_instant_s
from gostlab.spec.expand import single_run
from gostlab.spec.run_spec import RunSpec

# The previous version: name and commit.
BEFORE = ("0.2", "1c44881")


COMPARED = (
    TimedLoad("1 Gbit/s, BBR", "bbr", "rate: 1gbit", 4, 10, packets="≤ 0.36"),
    TimedLoad("100 Mbit/s, a full BBR stream", "bbr", "rate: 100mbit", 1, 31, speed="≥ 2.6"),
    TimedLoad("10 Mbit/s, 0.1 % loss, CUBIC", "cubic", "rate: 10mbit, loss: 0.1%", 1, 61),
)
# The CPU time is taken between these instants, after the slow starts and before the end: the start
# of a crowd costs more than its packets, and varies.
CROWD_S = (5, 15)
CROWD_BPS = 200_000_000
BDP_PKTS = 667  # at this rate and 40 ms


@dataclass(frozen=True)
class Crowd:
    """CUBIC flows with a total of 200 Mbit/s over 40 ms, of one pair of hosts or a pair each."""

    flows: int
    pairs: bool = False

    @property
    def name(self) -> str:
        """Return the number of flows, or of nodes (two routers and two hosts per pair)."""
        flows = "1 flow" if self.flows == 1 else f"{self.flows} flows"
        return f"{2 * self.flows + 2} nodes" if self.pairs else flows

    def run(self, duration_s: float) -> RunSpec:
        flows = ", ".join(f"f{number}: null" for number in range(1, self.flows + 1))
        topology = {"topology": "dumbbell"} if self.pairs else {}
        # Two initial windows per flow and the control connections: with less, flows lose their
        # first segments repeatedly and start seconds apart, and iperf3's server drops a client
        # after 10 s of silence.
        room = {"buffer": f"{24 * self.flows}pkts"} if 24 * self.flows > BDP_PKTS else {}
        path = {"rate": "200mbit", "delay": "20ms", **topology, **room}
        return load(duration_s, "cubic", buffers="debian", flows=f"{{{flows}}}", **path)


ONE_FLOW = Crowd(1)
CROWDS = (Crowd(512), Crowd(63, pairs=True))
MAX_GROWTH = "≤ 1.5"


@cache
def both_versions(bench: Bench) -> list[compare_commits.Version]:
    """Return this version, and the previous one if there is one to compare with."""
    checkouts = [
        ROOT,
        *([compare_commits.check_out(bench.before, print_progress)] if bench.before else []),
    ]
    return [
        compare_commits.compile_version(checkout, COMPARED, bench.folder())
        for checkout in checkouts
    ]


@cache
def slopes_of(bench: Bench, index: int) -> list[list[compare_commits.Slope]]:
    """Return the slopes of a compared load by version, cached for both comparisons."""
    both = both_versions(bench)
    return compare_commits.alternate(COMPARED[index], index, both, bench.repeat, bench.folder())


def crowd_us(bench: Bench, crowd: Crowd) -> float:
    """Return the CPU time per packet of flows that share one path, µs, without their starts."""
    began_s, ended_s = CROWD_S
    guest, folder = bench.start(crowd.run(ended_s + 1.0), bench.cpus[0])
    cpu_s: dict[int, float] = {}
    while guest.poll() is None:
        sampled_s = round(last_instant_s(folder / "hosts.jsonl") or 0)
        if sampled_s not in cpu_s:
            cpu_s[sampled_s] = sandbox.group_cpu_s(guest.group)
        time.sleep(0.01)
    check(folder)
    if not {began_s, ended_s} <= cpu_s.keys():
        raise RuntimeError(f"samples {began_s} and {ended_s} were not seen while it ran")
    sent = packets_sent(folder, ended_s) - packets_sent(folder, began_s)
    return 1e6 * (cpu_s[ended_s] - cpu_s[began_s]) / sent


# -- the parts


def commit_label(commit: str | None) -> str:
    """Return a commit's version number if it has one, else its hash."""
    return BEFORE[0] if commit == BEFORE[1] else str(commit)


def measure_before(bench: Bench) -> list[BenchMetric]:
    """Measure each load, and compare it with the previous version."""
    metrics = []
    for index, timed in enumerate(COMPARED):
        print_progress(f"{timed.name} …")
        what, unit, of = "a packet", "µs", attrgetter("packet_us")
        if timed.speed:
            what, unit, of = "load per CPU time", "×", attrgetter("times_real")
        now, *others = [list(map(of, slopes)) for slopes in slopes_of(bench, index)]
        metrics.append(print_metric(BenchMetric(f"{timed.name}: {what}", unit, "", now)))
        for before in others:
            ratios = list(map(truediv, now, before))
            name = f"the same, over {commit_label(bench.before)}'s"
            metrics.append(
                print_metric(BenchMetric(name, "×", timed.packets or timed.speed, ratios))
            )
    return metrics


def measure_native(bench: Bench) -> list[BenchMetric]:
    """Compare a packet's cost in the sandbox with five nodes on this machine's own kernel.

    Both are measured in the same minutes. Return nothing without the right to create namespaces.
    """
    if not packet_cost.may_make_namespaces():
        return []
    here = slopes_of(bench, 0)[0]
    iperf3 = shlex.quote(bench.iperf3)
    paced = partial(packet_cost.paced_packet_us, iperf3, bench.cpus[0])
    row = f"five native nodes, {packet_cost.PACED}bit/s, packet by packet: a packet"
    there = bench.metric(row, "µs", "", paced)
    name, target = "a packet in the sandbox, over one there", "≤ 1.0"
    if there.numbers is None:
        return [there, failed_metric(name, "×", target, RuntimeError(there.failed))]
    ratios = [one.packet_us / there.numbers[0] for one in here]
    return [there, print_metric(BenchMetric(name, "×", target, ratios))]


def measure_growth(bench: Bench) -> list[BenchMetric]:
    """Measure the growth of a packet's cost with flows and with nodes, relative to one flow."""
    alone = bench.metric(
        f"{ONE_FLOW.name}, 200 Mbit/s: a packet", "µs", "", partial(crowd_us, bench, ONE_FLOW)
    )
    if alone.numbers is None:
        return [alone]
    one_us = alone.numbers[0]

    def over_one(crowd: Crowd) -> float:
        return crowd_us(bench, crowd) / one_us

    about = {f"{crowd.name}, over one flow": partial(over_one, crowd) for crowd in CROWDS}
    crowds = [bench.metric(name, "×", MAX_GROWTH, take) for name, take in about.items()]
    return [alone, *crowds, *measure_native_growth(bench)]


def measure_native_growth(bench: Bench) -> list[BenchMetric]:
    """Measure the growth for the first crowd on this machine's own kernel."""
    if not packet_cost.may_make_namespaces():
        return []
    crowd, iperf3 = CROWDS[0], shlex.quote(bench.iperf3)

    def cost_us(flows: int) -> float:
        return packet_cost.crowd_packet_us(iperf3, bench.cpus[0], flows, CROWD_BPS)

    name = f"{crowd.name} on five native nodes, over one flow there"
    return [bench.metric(name, "×", "", lambda: cost_us(crowd.flows) / cost_us(1))]


def measure_overhead(bench: Bench) -> list[BenchMetric]:
    def cpu_s() -> float:
        return bench.time(load(1.0, rate="1mbit")).cpu_s

    def on_root(name: str) -> float:
        with patch.dict(os.environ, GOSTLAB_ROOT=name):
            return cpu_s()

    def more_s() -> float:
        return on_root("own") - on_root("host")

    return [
        bench.metric("a run of one second at 1 Mbit/s: CPU time", "s", "≤ 0.4", cpu_s),
        bench.metric("the same, less that on this machine's files", "s", "≤ 0.1", more_s),
        bench.metric("boot to power-off, wall time", "s", "≤ 0.15", bench.boot_s),
    ]


def measure_root(bench: Bench) -> list[BenchMetric]:
    """Measure what building the sandbox's root file system adds to an installation."""

    def made_s() -> float:
        began = time.monotonic()
        cache = bench.folder()
        (cache / "log").mkdir()
        try:
            provide_root(Workbench(cache, 1, lambda _: None, -1))
        except SetupError as error:
            raise RuntimeError(str(error)) from error
        return time.monotonic() - began

    return [bench.metric("the sandbox's own root, fetched and made", "s", "≤ 60", made_s)]


def measure_pair(bench: Bench) -> list[BenchMetric]:
    """Measure the speed of two parallel sandboxes relative to one, at the same CPU time.

    2 is no loss. Their wall time equals their CPU time if no other process uses the CPUs.
    """
    if len(bench.cpus) < 2:
        return []
    run = load(40.0, rate="100mbit")

    def ratio() -> float:
        alone_s, together_s = bench.time(run).cpu_s, bench.time(run, run).cpu_s
        return 2 * alone_s / (together_s / 2)

    return [bench.metric("two sandboxes side by side, over one", "×", "≥ 1.9", ratio)]


def measure_streams(bench: Bench) -> list[BenchMetric]:
    """Measure the largest load of the thesis."""
    overrides = {"tunnel": "gost+ws", "streams": "128", "duration": "30s"}
    streams = single_run(
        profile="la-hamina", cc="cubic", machine="sandbox", clock="virtual", overrides=overrides
    )
    name = "128 streams through gost+ws, 30 s: CPU time"
    return [bench.metric(name, "s", "≤ 60", lambda: bench.time(streams).cpu_s)]


def measure_tunnels(bench: Bench) -> list[BenchMetric]:
    """Measure the CPU time that starting and stopping a tunnel adds to a run.

    It is the difference between a second of small downloads with and without the tunnel. A bulk
    stream would have to drain the tunnel's buffers, which can take seconds of further load.
    """
    small = {"rate": "10mbit", "flows": "{web: {kind: short, sizes: [10kB]}}"}
    tunnels = dict.fromkeys(tunnel for tunnel in tunnel_kinds().values() if not tunnel.is_direct)

    def more_s(tunnel: str) -> float:
        through, direct = (
            bench.time(load(1.0, tunnel=name, **small)).cpu_s for name in (tunnel, "direct")
        )
        return through - direct

    return [
        bench.metric(f"start and stop of {tunnel.name}", "s", "≤ 1", partial(more_s, tunnel.name))
        for tunnel in tunnels
    ]


Part = Callable[[Bench], list[BenchMetric]]
# The parts that are measured by default, in the order of the table.
PARTS: Mapping[str, Part] = {
    "before": measure_before,
    "native": measure_native,
    "pair": measure_pair,
    "growth": measure_growth,
    "overhead": measure_overhead,
    "root": measure_root,
}
# Further loads and model inputs, which are measured only if they are named.
FURTHER: Mapping[str, Part] = {
    "streams": measure_streams,
    "tunnels": measure_tunnels,
    **model_inputs.PARTS,
}


# -- run the benchmark


def main(
    repeat: int,
    *,
    as_json: bool,
    parts: Sequence[str] = (),
    stubs: int | None = None,
    before: str | None = None,
    write: Path | None = None,
) -> int:
    """Measure, print and write some parts (default: PARTS), or a Dask scheduler's overhead."""
    load_before = os.getloadavg()[0]
    if stubs is not None:
        name = f"a cluster's scheduler, per run: {stubs} stubs, {WORKERS} workers here"
        figures = [BenchMetric(name, "ms", "≤ 50", [overhead_ms(stubs)])]
    else:
        plain_root()  # writes the lab's byte code, which would otherwise delay the first run
        with tempfile.TemporaryDirectory(prefix="gostlab-bench-") as scratch:
            bench = Bench(Path(scratch), repeat, before)
            figures = [metric for name in parts or PARTS for metric in measure_part(name, bench)]
    if as_json:
        print(json.dumps([metric.to_json() for metric in figures], indent=2))
    else:
        print(HEAD, *(metric.row for metric in figures), sep="\n")
    if write is not None:
        text = write_docs.to_page(figures, commit_label(before), load_before, list(FURTHER))
        write.write_text(text, encoding="utf-8")
        print(write, file=sys.stderr)
    return 1 if any(metric.failed for metric in figures) else 0


def measure_part(part: str, bench: Bench) -> list[BenchMetric]:
    """Measure a part, or return the row of its failure."""
    try:
        return {**PARTS, **FURTHER}[part](bench)
    except FAILURES as error:
        return [failed_metric(f"the part {part}", "", "", error)]
