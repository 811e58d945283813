"""How fast the lab is here, as ratios: beside the version before it, by turns, and beside
the same nodes on this machine's own kernel. Never asserted in a test.

What is counted is CPU time, which other work on the machine changes little; what other work does
change (boot, a whole run's wall time, the native nodes) says so by its spread, or is not taken.
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
from gostlab.bench.metrics import FAILURES, HEAD, Figure, failed_figure, tell, told
from gostlab.install.build_env import SetupError, Workbench
from gostlab.install.rootfs import provide_root
from gostlab.registry.folders import ROOT
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.sandbox.rootfs import plain_root
from gostlab.scheduler.eta import last_instant_s
from gostlab.spec.expand import single_run
from gostlab.spec.run_spec import RunSpec

# The version before this one: its name, and its commit.
BEFORE = ("0.2", "1c44881")


COMPARED = (
    TimedLoad("1 Gbit/s, BBR", "bbr", "rate: 1gbit", 4, 10, packets="≤ 0.36"),
    TimedLoad("100 Mbit/s, a full BBR stream", "bbr", "rate: 100mbit", 1, 31, speed="≥ 2.6"),
    TimedLoad("10 Mbit/s, 0.1 % loss, CUBIC", "cubic", "rate: 10mbit, loss: 0.1%", 1, 61),
)
# Between which samples of a run its CPU time is taken: past the slow starts, and before its end.
# A crowd's start takes more CPU time than its packets, and never the same twice.
CROWD_S = (5, 15)
CROWD_BPS = 200_000_000
BDP_PKTS = 667  # of that and 40 ms


@dataclass(frozen=True)
class Crowd:
    """CUBIC flows at 200 Mbit/s together, over 40 ms: of one pair of hosts, or a pair each."""

    flows: int
    pairs: bool = False

    @property
    def name(self) -> str:
        """What is counted: flows, or nodes (two routers and two hosts a pair)."""
        flows = "1 flow" if self.flows == 1 else f"{self.flows} flows"
        return f"{2 * self.flows + 2} nodes" if self.pairs else flows

    def run(self, duration_s: float) -> RunSpec:
        flows = ", ".join(f"f{number}: null" for number in range(1, self.flows + 1))
        topology = {"topology": "dumbbell"} if self.pairs else {}
        # Two initial windows each and what control connections send: with fewer, flows lose their
        # connections' first segments over and over, begin seconds apart, and iperf3's server gives
        # one up that says nothing for 10 s.
        room = {"buffer": f"{24 * self.flows}pkts"} if 24 * self.flows > BDP_PKTS else {}
        path = {"rate": "200mbit", "delay": "20ms", **topology, **room}
        return load(duration_s, "cubic", buffers="debian", flows=f"{{{flows}}}", **path)


ONE_FLOW = Crowd(1)
CROWDS = (Crowd(512), Crowd(63, pairs=True))
MAX_GROWTH = "≤ 1.5"


@cache
def both_versions(bench: Bench) -> list[compare_commits.Version]:
    """This version, and the one before it if there is one to compare with."""
    checkouts = [ROOT, *([compare_commits.checked_out(bench.before, tell)] if bench.before else [])]
    return [compare_commits.planned(checkout, COMPARED, bench.folder()) for checkout in checkouts]


@cache
def slopes_of(bench: Bench, place: int) -> list[list[compare_commits.Slope]]:
    """What a compared load takes of each version: once, as the first is held against Linux, too."""
    both = both_versions(bench)
    return compare_commits.by_turns(COMPARED[place], place, both, bench.repeat, bench.folder())


def crowd_us(bench: Bench, crowd: Crowd) -> float:
    """CPU µs per packet where so many flows share one path, while they are under way."""
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


def called(commit: str | None) -> str:
    """What a commit is called: a version's number where it is one."""
    return BEFORE[0] if commit == BEFORE[1] else str(commit)


def before_figures(bench: Bench) -> list[Figure]:
    """What a load takes, and how that compares with the version before it."""
    found = []
    for place, each in enumerate(COMPARED):
        tell(f"{each.name} …")
        what, unit, of = "a packet", "µs", attrgetter("packet_us")
        if each.speed:
            what, unit, of = "load per CPU time", "×", attrgetter("times_real")
        now, *others = [list(map(of, slopes)) for slopes in slopes_of(bench, place)]
        found.append(told(Figure(f"{each.name}: {what}", unit, "", now)))
        for before in others:
            ratios = list(map(truediv, now, before))
            name = f"the same, over {called(bench.before)}'s"
            found.append(told(Figure(name, "×", each.packets or each.speed, ratios)))
    return found


def native_figures(bench: Bench) -> list[Figure]:
    """A packet in the sandbox, over one of five nodes on this machine's own kernel that are sent
    packet by packet, in the same minutes; nothing without the right to namespaces.
    """
    if not packet_cost.may_make_namespaces():
        return []
    here = slopes_of(bench, 0)[0]
    iperf3 = shlex.quote(bench.iperf3)
    paced = partial(packet_cost.paced_packet_us, iperf3, bench.cpus[0])
    row = f"five native nodes, {packet_cost.PACED}bit/s, packet by packet: a packet"
    there = bench.figure(row, "µs", "", paced)
    name, target = "a packet in the sandbox, over one there", "≤ 1.0"
    if there.numbers is None:
        return [there, failed_figure(name, "×", target, RuntimeError(there.failed))]
    ratios = [one.packet_us / there.numbers[0] for one in here]
    return [there, told(Figure(name, "×", target, ratios))]


def growth_figures(bench: Bench) -> list[Figure]:
    """How the cost of a packet grows with flows, and with nodes: over one flow's, by turns."""
    alone = bench.figure(
        f"{ONE_FLOW.name}, 200 Mbit/s: a packet", "µs", "", partial(crowd_us, bench, ONE_FLOW)
    )
    if alone.numbers is None:
        return [alone]
    one_us = alone.numbers[0]

    def over_one(crowd: Crowd) -> float:
        return crowd_us(bench, crowd) / one_us

    about = {f"{crowd.name}, over one flow": partial(over_one, crowd) for crowd in CROWDS}
    crowds = [bench.figure(name, "×", MAX_GROWTH, take) for name, take in about.items()]
    return [alone, *crowds, *native_growth(bench)]


def native_growth(bench: Bench) -> list[Figure]:
    """The same of the first crowd on this machine's own kernel: what Linux itself takes more."""
    if not packet_cost.may_make_namespaces():
        return []
    crowd, iperf3 = CROWDS[0], shlex.quote(bench.iperf3)

    def cost_us(flows: int) -> float:
        return packet_cost.crowd_packet_us(iperf3, bench.cpus[0], flows, CROWD_BPS)

    name = f"{crowd.name} on five native nodes, over one flow there"
    return [bench.figure(name, "×", "", lambda: cost_us(crowd.flows) / cost_us(1))]


def overhead_figures(bench: Bench) -> list[Figure]:
    def cpu_s() -> float:
        return bench.time(load(1.0, rate="1mbit")).cpu_s

    def on_root(name: str) -> float:
        with patch.dict(os.environ, GOSTLAB_ROOT=name):
            return cpu_s()

    def more_s() -> float:
        return on_root("own") - on_root("host")

    return [
        bench.figure("a run of one second at 1 Mbit/s: CPU time", "s", "≤ 0.4", cpu_s),
        bench.figure("the same, less that on this machine's files", "s", "≤ 0.1", more_s),
        bench.figure("boot to power-off, wall time", "s", "≤ 0.15", bench.boot_s),
    ]


def root_figures(bench: Bench) -> list[Figure]:
    """What the sandbox's own root adds to a first set-up: its packages fetched, and it made."""

    def made_s() -> float:
        began = time.monotonic()
        cache = bench.folder()
        (cache / "log").mkdir()
        try:
            provide_root(Workbench(cache, 1, lambda _: None, -1))
        except SetupError as error:
            raise RuntimeError(str(error)) from error
        return time.monotonic() - began

    return [bench.figure("the sandbox's own root, fetched and made", "s", "≤ 60", made_s)]


def pair_figures(bench: Bench) -> list[Figure]:
    """How much two sandboxes side by side do of what one does alone, in the same CPU time: 2 is no
    loss. Their wall time is that of the CPU that each has, where nothing else has it.
    """
    if len(bench.cpus) < 2:
        return []
    run = load(40.0, rate="100mbit")

    def ratio() -> float:
        alone_s, together_s = bench.time(run).cpu_s, bench.time(run, run).cpu_s
        return 2 * alone_s / (together_s / 2)

    return [bench.figure("two sandboxes side by side, over one", "×", "≥ 1.9", ratio)]


def stream_figures(bench: Bench) -> list[Figure]:
    """What the thesis's largest load takes."""
    overrides = {"tunnel": "gost+ws", "streams": "128", "duration": "30s"}
    streams = single_run(
        profile="la-hamina", cc="cubic", machine="sandbox", clock="virtual", overrides=overrides
    )
    name = "128 streams through gost+ws, 30 s: CPU time"
    return [bench.figure(name, "s", "≤ 60", lambda: bench.time(streams).cpu_s)]


def tunnel_figures(bench: Bench) -> list[Figure]:
    """What starting and stopping a tunnel adds to a run: CPU time of a second of small downloads
    through it, less that of the same without one. A stream's end would wait for what fills the
    tunnel's buffers, seconds of further load where they are large.
    """
    small = {"rate": "10mbit", "flows": "{web: {kind: short, sizes: [10kB]}}"}
    kinds = dict.fromkeys(kind for kind in tunnel_kinds().values() if not kind.is_direct)

    def more_s(tunnel: str) -> float:
        through, direct = (
            bench.time(load(1.0, tunnel=name, **small)).cpu_s for name in (tunnel, "direct")
        )
        return through - direct

    return [
        bench.figure(f"start and stop of {kind.name}", "s", "≤ 1", partial(more_s, kind.name))
        for kind in kinds
    ]


Part = Callable[[Bench], list[Figure]]
# What is taken where nothing is named, in the table's order.
PARTS: Mapping[str, Part] = {
    "before": before_figures,
    "native": native_figures,
    "pair": pair_figures,
    "growth": growth_figures,
    "overhead": overhead_figures,
    "root": root_figures,
}
# What is taken where it is named alone: further loads, and what a model's numbers were taken from.
FURTHER: Mapping[str, Part] = {
    "streams": stream_figures,
    "tunnels": tunnel_figures,
    **model_inputs.PARTS,
}


# -- all of it


def main(
    repeat: int,
    *,
    as_json: bool,
    parts: Sequence[str] = (),
    stubs: int | None = None,
    before: str | None = None,
    write: Path | None = None,
) -> int:
    """Take, print and write figures of some parts (none: PARTS), or of a cluster's scheduler."""
    load_before = os.getloadavg()[0]
    if stubs is not None:
        name = f"a cluster's scheduler, per run: {stubs} stubs, {WORKERS} workers here"
        figures = [Figure(name, "ms", "≤ 50", [overhead_ms(stubs)])]
    else:
        plain_root()  # makes the lab's byte code, in the first run's wall time otherwise
        with tempfile.TemporaryDirectory(prefix="gostlab-bench-") as scratch:
            bench = Bench(Path(scratch), repeat, before)
            figures = [figure for name in parts or PARTS for figure in figures_of(name, bench)]
    if as_json:
        print(json.dumps([figure.to_json() for figure in figures], indent=2))
    else:
        print(HEAD, *(figure.row for figure in figures), sep="\n")
    if write is not None:
        text = write_docs.to_page(figures, called(before), load_before, list(FURTHER))
        write.write_text(text, encoding="utf-8")
        print(write, file=sys.stderr)
    return 1 if any(figure.failed for figure in figures) else 0


def figures_of(part: str, bench: Bench) -> list[Figure]:
    """A part's figures, or that it failed."""
    try:
        return {**PARTS, **FURTHER}[part](bench)
    except FAILURES as error:
        return [failed_figure(f"the part {part}", "", "", error)]
