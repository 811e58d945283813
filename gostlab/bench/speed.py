"""How fast the lab is on this machine: medians and ratios, never asserted in a test.

Speed on the virtual clock is a slope: how much of a CPU's time one more second of load takes, from
a short and a long run, so that what surrounds a run (a figure of its own) does not count. A sandbox
is one process after the other on one CPU, so on an idle machine that is its wall time; where other
work has the machine its wall time says more of that.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import resource
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gostlab import machine
from gostlab.ask.resolve import single_run
from gostlab.ask.run_description import RunDescription
from gostlab.bench import callcost, chain, loopback, packetcost, twohosts
from gostlab.declared.tunnels import tunnel_kinds
from gostlab.machine import sandbox
from gostlab.setup.parts import find_parts, require_kernel

SHORT_S = 1.0
# By then the losses of Startup are repaired at 1 Gbit/s and 168 ms.
STARTUP_S = 6.0
# What is run again and again with one seed: single_run's arguments beside the profile.
REPEATED_S = 10.0
REPEATED: Mapping[str, Mapping[str, str]] = {
    "one CUBIC flow, 0.1 % loss": {
        "cc": "cubic",
        "rate": "20mbit",
        "delay": "20ms",
        "loss": "0.1%",
    },
    "one BBR flow": {"cc": "bbr", "rate": "20mbit", "delay": "20ms"},
    "16 streams through gost+ws": {
        "cc": "cubic",
        "rate": "50mbit",
        "delay": "20ms",
        "tunnel": "gost+ws",
        "streams": "16",
    },
}


@dataclass(frozen=True)
class Load:
    """What the lab is timed on: these congestion controls one after the other, one stream each, per
    packet.
    """

    name: str
    ccs: tuple[str, ...]
    settings: Mapping[str, str]
    long_s: float
    target: str
    short_s: float = SHORT_S  # what comes before it is not timed


BOTH = ("cubic", "bbr")
LOADS = (
    Load(
        "10 Mbit/s, 100 ms, 0.1 % loss, CUBIC and BBR",
        BOTH,
        {"rate": "10mbit", "loss": "0.1%"},
        61.0,
        "≥ 90",
    ),
    Load(
        "100 Mbit/s, 100 ms, 0.1 % loss, CUBIC and BBR",
        BOTH,
        {"rate": "100mbit", "loss": "0.1%"},
        61.0,
        "≥ 25",
    ),
    # Startup overruns a queue of one BDP, thousands of packets are lost at once, and then Linux
    # walks its list of them at each ACK (tcp_rack_detect_loss), on any machine: a row of its own.
    Load(
        f"1 Gbit/s, 168 ms, no loss, CUBIC and BBR after {STARTUP_S:g} s",
        BOTH,
        {"rate": "1gbit", "delay": "84ms"},
        10.0 + STARTUP_S,
        "≥ 3",
        short_s=STARTUP_S,
    ),
    Load(
        f"1 Gbit/s, 168 ms, BBR's Startup and what it loses: the first {STARTUP_S:g} s",
        ("bbr",),
        {"rate": "1gbit", "delay": "84ms"},
        STARTUP_S,
        "",
        short_s=SHORT_S,
    ),
    Load(
        "100 Mbit/s, 100 ms, no loss, a full BBR stream",
        ("bbr",),
        {"rate": "100mbit"},
        31.0,
        "≥ 12",
    ),
)


# Between which samples of a run its CPU time is taken: past the slow starts, and before its end.
# A crowd's start takes more CPU time than its packets, and never the same twice.
CROWD_S = (5, 15)
BDP_PKTS = 667  # of 200 Mbit/s and 40 ms


@dataclass(frozen=True)
class Crowd:
    """So many CUBIC flows at 200 Mbit/s together, over 40 ms: of one host to one other, or each
    between a pair of its own.
    """

    flows: int
    pairs: bool = False

    @property
    def name(self) -> str:
        """What is counted: flows, or nodes (two routers and two hosts a pair)."""
        return f"{2 * self.flows + 2} nodes" if self.pairs else f"{self.flows} flows"

    def run(self, duration_s: float) -> RunDescription:
        """The crowd for so long."""
        flows = ", ".join(f"f{number}: null" for number in range(1, self.flows + 1))
        topology = {"topology": "dumbbell"} if self.pairs else {}
        # Two initial windows each and what control connections send: with fewer, flows lose their
        # connections' first segments over and over, begin seconds apart, and iperf3's server gives
        # one up that says nothing for 10 s.
        room = {"buffer": f"{24 * self.flows}pkts"} if 24 * self.flows > BDP_PKTS else {}
        return load(
            duration_s,
            "cubic",
            rate="200mbit",
            delay="20ms",
            buffers="debian",
            flows=f"{{{flows}}}",
            **topology,
            **room,
        )


CROWDS = (
    *(Crowd(flows) for flows in (1, 8, 64, 512)),
    *(Crowd(pairs, pairs=True) for pairs in (1, 15, 63)),
)


@dataclass(frozen=True)
class Figure:
    """One line of the table; `failed` says why it has no numbers."""

    name: str
    median: float | None
    least: float | None
    most: float | None
    unit: str
    target: str
    failed: str = ""


def figure_of(name: str, unit: str, target: str, values: Sequence[float]) -> Figure:
    """The line of a figure that was taken several times."""
    return Figure(name, statistics.median(values), min(values), max(values), unit, target)


def failed_figure(name: str, unit: str, target: str, why: Exception) -> Figure:
    """The line of a figure that could not be taken."""
    words = " ".join(str(why).split()) or type(why).__name__
    print(f"bench: {name}: failed: {words}", file=sys.stderr, flush=True)
    return Figure(name, None, None, None, unit, target, failed=words)


# What a figure that cannot be taken raises; it costs no other figure.
FAILURES = (RuntimeError, OSError, subprocess.SubprocessError, ValueError, KeyError)


@dataclass(frozen=True)
class Taken:
    """What a run took."""

    wall_s: float
    cpu_s: float  # of the guest's processes
    folder: Path


def children_s() -> float:
    """CPU time of all processes so far that this one has started and seen end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def packets_sent(folder: Path, by_s: float = math.inf) -> int:
    """What a run's forward bottleneck has sent, at its end or at an instant."""
    rows = [json.loads(line) for line in (folder / "queues.jsonl").read_text().splitlines()]
    return int(
        max(
            row["sent_pkts"]
            for row in rows
            if (row["role"], row["direction"]) == ("bottleneck", "forward") and row["t_s"] <= by_s
        )
    )


def last_sample_s(folder: Path) -> int:
    """The instant of the last sample of a run that may be under way, to the second; 0 before the
    first.
    """
    try:
        *lines, _begun = (folder / "hosts.jsonl").read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return 0
    return round(json.loads(lines[-1])["t_s"]) if lines else 0


class Bench:
    """The runs of the benchmark, in a scratch folder."""

    def __init__(self, scratch: Path, repeat: int) -> None:
        self._scratch = scratch
        self.repeat = repeat
        self._parts = find_parts()
        self._kernel = require_kernel(self._parts)
        self._handed = machine.hand_over(self._parts)
        self._cpus = list(machine.usable_cpus())
        self._count = 0

    def figure(self, name: str, unit: str, target: str, take: Callable[[], float]) -> Figure:
        """Take a figure several times."""
        print(f"bench: {name} …", file=sys.stderr, flush=True)
        try:
            taken = figure_of(name, unit, target, [take() for _ in range(self.repeat)])
        except FAILURES as error:
            return failed_figure(name, unit, target, error)
        print(f"bench: {name}: {numbers(taken)}", file=sys.stderr, flush=True)
        return taken

    def folder(self) -> Path:
        """A fresh folder."""
        self._count += 1
        made = self._scratch / str(self._count)
        made.mkdir()
        return made

    def boot_s(self) -> float:
        """Boot, run `true`, power off; wall seconds."""
        began = time.monotonic()
        guest = sandbox.boot(
            self._kernel,
            self.folder(),
            ["/bin/true"],
            sandbox.sandbox_environ(),
            keep=[],
            cpu=self._cpus[0],
            memory_mib=1024,
            clock="virtual",
            syscall_cost_us=0,
            seed=1,
            limit_s=60,
        )
        if guest.wait() != 0:
            raise RuntimeError("the sandbox did not boot")
        return time.monotonic() - began

    def start(self, run: RunDescription, cpu: int) -> tuple[machine.Watched, Path]:
        """Start a run on a CPU."""
        folder = self.folder()
        (folder / "run.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
        keep = machine.kept_visible(self._parts)
        return sandbox.start_run(self._kernel, run, folder, self._handed, keep, cpu, None), folder

    def time(self, run: RunDescription) -> Taken:
        """Time a run alone. Raises RuntimeError if it fails."""
        began, before_s = time.monotonic(), children_s()
        guest, folder = self.start(run, self._cpus[0])
        guest.wait()
        check(folder)
        return Taken(time.monotonic() - began, children_s() - before_s, folder)

    def speed(self, timed: Load) -> float:
        """Seconds of load per second of the sandbox's CPU time."""
        cpu_s = sum(
            sign * self.time(load(duration_s, cc, **timed.settings)).cpu_s
            for cc in timed.ccs
            for sign, duration_s in ((1, timed.long_s), (-1, timed.short_s))
        )
        return len(timed.ccs) * (timed.long_s - timed.short_s) / cpu_s

    def packet_us(self) -> float:
        """CPU µs per packet of a full 1 Gbit/s BBR stream on the forward path: what six more
        seconds of it take, by the packets that they carry.
        """
        return self.slope_us(load(4.0, rate="1gbit"), load(10.0, rate="1gbit"))

    def slope_us(self, short: RunDescription, long: RunDescription) -> float:
        """CPU µs per packet on the forward bottleneck, of those that the longer of two runs has
        more.
        """
        taken = [self.time(run) for run in (short, long)]
        counts = [packets_sent(each.folder) for each in taken]
        return 1e6 * (taken[1].cpu_s - taken[0].cpu_s) / (counts[1] - counts[0])

    def crowd_us(self, crowd: Crowd) -> float:
        """CPU µs per packet where so many flows share one path, while they are under way."""
        began_s, ended_s = CROWD_S
        guest, folder = self.start(crowd.run(ended_s + 1.0), self._cpus[0])
        cpu_s: dict[int, float] = {}
        while guest.poll() is None:
            sampled_s = last_sample_s(folder)
            if sampled_s not in cpu_s:
                cpu_s[sampled_s] = machine.group_cpu_s(guest.group)
            time.sleep(0.01)
        check(folder)
        if not {began_s, ended_s} <= cpu_s.keys():
            raise RuntimeError(f"samples {began_s} and {ended_s} were not seen while it ran")
        packets = packets_sent(folder, ended_s) - packets_sent(folder, began_s)
        return 1e6 * (cpu_s[ended_s] - cpu_s[began_s]) / packets

    def chain_packet_us(self) -> float:
        """The same of five namespaces of this machine's own kernel."""
        return chain.packet_us(self._iperf3(), self._cpus[0])

    def paced_packet_us(self) -> float:
        """The same where packets come one by one."""
        return chain.paced_packet_us(self._iperf3(), self._cpus[0])

    def _iperf3(self) -> str:
        """The iperf3 that the benchmark's runs use, quoted for a shell."""
        own = self._parts.iperf3.get(load(1.0).iperf3)
        return shlex.quote(str(own.path)) if own else "iperf3"

    def repeatability(self, runs: int) -> list[Figure]:
        """How closely runs of one seed agree on the virtual clock: in goodput, in segments, and for
        how long they are the same.
        """
        return [
            figure
            for name, settings in REPEATED.items()
            for figure in self.agreement(name, dict(settings), runs)
        ]

    def agreement(self, name: str, settings: dict[str, str], runs: int) -> list[Figure]:
        """The figures of one kind of run. Two runs are the same while every sampled counter of a
        queue and every field of every ACK is.
        """
        print(f"bench: {name}, {runs} times with one seed …", file=sys.stderr, flush=True)
        run = replace(load(REPEATED_S, settings.pop("cc"), sample="100ms", **settings), acks=True)
        folders = []
        for _ in range(runs):
            guest, folder = self.start(run, self._cpus[0])
            guest.wait()
            check(folder)
            folders.append(folder)
        wan = [
            leg
            for folder in folders
            for leg in read_json(folder / "legs.json")["legs"]
            if leg["leg"] == "wan"
        ]
        goodput = [
            read_json(folder / "flows.json")["flows"][0]["goodput_bps"] / 1000 for folder in folders
        ]
        taken = {
            ("goodput", "kbit/s", "equal"): goodput,
            ("segments retransmitted", "", "equal"): [leg["segments_retransmitted"] for leg in wan],
            ("data segments sent", "", "equal"): [leg["data_segments_out"] for leg in wan],
            ("queues the same for", "s", f"≥ {REPEATED_S:g}"): [
                same_for_s(queue_rows, folders[0], f) for f in folders[1:]
            ],
            ("ACKs the same for", "s", f"≥ {REPEATED_S:g}"): [
                same_for_s(ack_rows, folders[0], f) for f in folders[1:]
            ],
        }
        return [
            figure_of(f"one seed, {runs} runs, {name}: {what}", unit, target, values)
            for (what, unit, target), values in taken.items()
        ]

    def call_us(self, rate: str) -> float:
        """What a system call costs the relay on this machine's own kernel, µs."""
        if self._parts.relay is None:
            raise RuntimeError("the lab's relay is not built: ./lab setup")
        return callcost.call_us(self._parts.relay, rate, self.folder())

    def pair_ratio(self) -> float:
        """How much two sandboxes side by side do of what one does alone (2: no loss)."""
        run = load(40.0, rate="100mbit")
        alone = self.time(run).wall_s
        began = time.monotonic()
        guests = [self.start(run, cpu) for cpu in self._cpus[:2]]
        for guest, _ in guests:
            guest.wait()
        together = time.monotonic() - began
        for _, folder in guests:
            check(folder)
        return 2 * alone / together


def load(duration_s: float, cc: str = "bbr", **settings: str) -> RunDescription:
    """The benchmark's run: one stream over a 100 ms path, per packet, the default system-call
    cost.
    """
    return single_run(
        profile="plain-100ms",
        cc=cc,
        machine="sandbox",
        clock="virtual",
        overrides={"duration": f"{duration_s:g}s", "offloads": "off", "buffers": "bdp", **settings},
    )


def read_json(path: Path) -> Any:
    """A result file."""
    return json.loads(path.read_text(encoding="utf-8"))


Rows = Sequence[tuple[float, str]]  # instant, s, and all that the row says


def queue_rows(folder: Path) -> Rows:
    """queues.jsonl."""
    return [
        (json.loads(line)["t_s"], line)
        for line in (folder / "queues.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def ack_rows(folder: Path) -> Rows:
    """acks.csv.gz without its header."""
    with gzip.open(folder / "acks.csv.gz", "rt", encoding="ascii") as file:
        return [(float(line.partition(",")[0]), line) for line in list(file)[1:]]


def same_for_s(rows_of: Callable[[Path], Rows], one: Path, other: Path) -> float:
    """Until when two runs' rows are the same, s; the last row's instant where all are."""
    mine, its = rows_of(one), rows_of(other)
    for (at_s, row), (_, twin) in zip(mine, its, strict=False):
        if row != twin:
            return at_s
    return min(mine, its, key=len)[-1][0]


def check(folder: Path) -> None:
    """Raises RuntimeError with the run's own words if it did not end well."""
    outcome: Mapping[str, Any] = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
    if outcome["outcome"] != "ok":
        raise RuntimeError(f"a run of the benchmark failed: {outcome['error']}")


def relay_mbit() -> dict[str, float]:
    """The relay's throughput over loopback by `go test -bench`, Mbit/s per kind."""
    done = subprocess.run(
        ["go", "test", "-run", "^$", "-bench", "Throughput", "-cpu", "1", "-benchtime", "2s", "."],
        cwd=machine.CHECKOUT / "tunnel",
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(
        r"^BenchmarkThroughput/(\S+?)(?:-\d+)?\s+\d+\s+.*?([\d.]+) MB/s", done.stdout, re.MULTILINE
    )
    return {name: 8 * float(rate) for name, rate in found}


def cluster_figures(count: int) -> list[Figure]:
    """What a cluster's scheduler adds to a run."""
    from gostlab.bench.cluster import WORKERS, overhead_ms

    name = f"a cluster's scheduler, per run: {count} stubs, {WORKERS} workers here"
    taken = overhead_ms(count)
    return [Figure(name, taken, taken, taken, "ms", "≤ 50")]


def main(repeat: int, *, as_json: bool, parts: Sequence[str] = (), stubs: int | None = None) -> int:
    """Take the figures of some parts (of all, if none is named), or of a cluster's scheduler alone,
    and print the table.
    """
    if stubs is not None:
        say(cluster_figures(stubs), as_json=as_json)
        return 0
    machine.compile_lab()  # in the first run's wall time otherwise
    with tempfile.TemporaryDirectory(prefix="gostlab-bench-") as scratch:
        bench = Bench(Path(scratch), repeat)
        figures = [figure for name in parts or PARTS for figure in figures_of(name, bench)]
    say(figures, as_json=as_json)
    return 1 if any(figure.failed for figure in figures) else 0


def figures_of(part: str, bench: Bench) -> list[Figure]:
    """A part's figures, or that it failed."""
    try:
        return PARTS[part](bench)
    except FAILURES as error:
        return [failed_figure(f"the part {part}", "", "", error)]


def say(figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print figures, as JSON or as a table."""
    if as_json:
        print(json.dumps([asdict(figure) for figure in figures], indent=2))
    else:
        print(table(figures))


def overhead_figures(bench: Bench) -> list[Figure]:
    """What surrounds a run."""
    overhead, taken = "a run's overhead: one second at 1 Mbit/s, all of it", []

    def cpu_s() -> float:
        taken.append(bench.time(load(1.0, rate="1mbit")))
        return taken[-1].cpu_s

    return [
        bench.figure("boot to power-off", "s", "≤ 0.15", bench.boot_s),
        bench.figure(f"{overhead}, CPU time", "s", "≤ 1", cpu_s),
        figure_of(f"{overhead}, wall time", "s", "", [each.wall_s for each in taken]),
    ]


def tunnel_figures(bench: Bench) -> list[Figure]:
    """What starting and stopping a tunnel adds to a run: CPU time of a second of small downloads
    through it, less that of the same without one. A stream's end would wait for what fills the
    tunnel's buffers, seconds of further load where they are large.
    """
    small = {"rate": "10mbit", "flows": "{web: {kind: short, sizes: [10kB]}}"}
    kinds = dict.fromkeys(kind for kind in tunnel_kinds().values() if not kind.is_direct)

    def cpu_s(tunnel: str) -> float:
        return bench.time(load(1.0, tunnel=tunnel, **small)).cpu_s

    return [
        bench.figure(
            f"start and stop of {kind.name}",
            "s",
            "≤ 1",
            lambda name=kind.name: cpu_s(name) - cpu_s("direct"),  # type: ignore[misc]
        )
        for kind in kinds
    ]


def speed_figures(bench: Bench, loads: Sequence[Load] = LOADS) -> list[Figure]:
    """How fast one sandbox is."""
    return [
        bench.figure(
            f"virtual clock, per packet: {timed.name}",
            "× real time",
            timed.target,
            partial(bench.speed, timed),
        )
        for timed in loads
    ]


def packet_figures(bench: Bench) -> list[Figure]:
    """What a packet costs the sandbox, and the same five nodes on this machine's own kernel in the
    same minutes; the first alone without the right to namespaces.
    """
    name = "CPU time per packet, a full 1 Gbit/s BBR stream"
    native, ratio = "the same five nodes on this machine's own kernel, no netem, one CPU", "ratio"
    taken: dict[str, list[float]] = {name: []}
    if os.geteuid() == 0:
        taken |= {native: [], ratio: []}
    print(f"bench: {name} …", file=sys.stderr, flush=True)
    for _ in range(bench.repeat):
        taken[name].append(bench.packet_us())
        if native in taken:
            taken[native].append(bench.chain_packet_us())
            taken[ratio].append(taken[name][-1] / taken[native][-1])
    told = {
        name: (name, "µs", "≤ 6"),
        native: (native, "µs", ""),
        ratio: ("a packet in the sandbox, over one on this machine's own kernel", "×", "≤ 3"),
    }
    figures = [
        figure_of(what, unit, target, taken[key])
        for key, (what, unit, target) in told.items()
        if key in taken
    ]
    if native not in taken:
        return figures
    paced = bench.figure(
        f"the same at {chain.PACED}bit/s, packet by packet as BBR sends",
        "µs",
        "",
        bench.paced_packet_us,
    )
    if paced.median is None:
        return [*figures, paced]
    same_load = figure_of(
        "a packet in the sandbox, over one of these",
        "×",
        "≤ 3",
        [each / paced.median for each in taken[name]],
    )
    return [*figures, paced, same_load]


def crowd_figures(bench: Bench, *, pairs: bool) -> list[Figure]:
    """How the cost of a packet grows with flows, or with nodes."""
    return [
        bench.figure(
            f"CPU time per packet, {crowd.name}",
            "µs",
            "" if crowd.flows == 1 else "≤ 1.5 × one flow's",
            partial(bench.crowd_us, crowd),
        )
        for crowd in CROWDS
        if crowd.pairs == pairs
    ]


def stream_figures(bench: Bench) -> list[Figure]:
    """What the thesis's largest load takes."""
    streams = single_run(
        profile="la-hamina",
        cc="cubic",
        machine="sandbox",
        clock="virtual",
        overrides={"tunnel": "gost+ws", "streams": "128", "duration": "30s"},
    )
    name = "128 streams through gost+ws, 30 s, all of it"
    return [bench.figure(name, "s", "≤ 60", lambda: bench.time(streams).wall_s)]


def pair_figures(bench: Bench) -> list[Figure]:
    """How two sandboxes get on beside each other; nothing on a machine of one CPU."""
    if len(machine.usable_cpus()) < 2:
        return []
    return [bench.figure("two sandboxes side by side", "× one", "≥ 1.9", bench.pair_ratio)]


def call_figures(bench: Bench) -> list[Figure]:
    """What a system call costs the relay on this machine; nothing without strace, which counts
    them.
    """
    if shutil.which("strace") is None:
        print(
            "bench: without strace nothing counts system calls: that figure is left out"
            " (./lab setup --with bench)",
            file=sys.stderr,
        )
        return []
    name = "CPU time per system call of the relay's near end, ws"
    return [
        bench.figure(f"{name}, {rate}bit/s", "µs", "", partial(bench.call_us, rate))
        for rate in ("150M", "1G")
    ]


def interrupt_figures(bench: Bench) -> list[Figure]:
    """What a packet costs in this machine's own soft interrupts; nothing without the right to
    namespaces.
    """
    if os.geteuid() != 0:
        return []
    name = "CPU time in soft interrupts per packet received (packet_cost)"
    return [bench.figure(name, "µs", "", packetcost.packet_us)]


def model_figures(bench: Bench) -> list[Figure]:
    """Whether two hosts of a CPU each do what two pinned processes do here; nothing on a machine of
    one CPU.
    """
    if len(machine.usable_cpus()) < 2:
        return []
    print(
        "bench: two processes over a pipe, here and in the sandbox …", file=sys.stderr, flush=True
    )
    taken = [twohosts.compare() for _ in range(bench.repeat)]
    ratios = {
        "two processes, a CPU each: the sandbox over this machine": ("two", "0.8 – 1.2"),
        "the same two on one CPU": ("one", "0.8 – 1.2"),
    }
    return [
        figure_of(name, "×", target, [one[f"sandbox_{key}"] / one[f"here_{key}"] for one in taken])
        for name, (key, target) in ratios.items()
    ]


def loopback_figures(bench: Bench) -> list[Figure]:
    """Whether programs reach in the sandbox what they reach here, and how far the shipped table of
    this CPU, if there is one, is from what they cost in these minutes.
    """
    found = loopback.compare(loopback.table_here(), bench.repeat)
    figures = [
        Figure(f"loopback, {row}: the sandbox over this machine", ratio, ratio, ratio, "×", within)
        for row, (got, wanted) in found.mbit.items()
        for ratio, within in [(got / wanted, f"0.85 – 1.15 ({wanted:.0f} Mbit/s here)")]
    ]
    if found.table_over_here:
        name = "what programs cost: the shipped table over these minutes"
        figures.append(figure_of(name, "×", "", found.table_over_here))
    return figures


def relay_figures(_bench: Bench) -> list[Figure]:
    """The relay's own benchmark."""
    return [
        Figure(f"relay over loopback, {name}, one CPU", rate, rate, rate, "Mbit/s", "")
        for name, rate in relay_mbit().items()
    ]


# What `--part` may name, in the table's order.
PARTS: Mapping[str, Callable[[Bench], list[Figure]]] = {
    "overhead": overhead_figures,
    "speed": speed_figures,
    "packet": packet_figures,
    "flows": partial(crowd_figures, pairs=False),
    "nodes": partial(crowd_figures, pairs=True),
    "streams": stream_figures,
    "pair": pair_figures,
    "repeatability": lambda bench: bench.repeatability(max(2, bench.repeat)),
    "calls": call_figures,
    "interrupts": interrupt_figures,
    "cpus": model_figures,
    "loopback": loopback_figures,
    "relay": relay_figures,
    "tunnels": tunnel_figures,
}


def table(figures: Sequence[Figure]) -> str:
    """The table as Markdown."""
    rows = ["| what | median | least – most | unit | target |", "|---|---|---|---|---|"]
    rows += [
        f"| {f.name} | failed: {f.failed} | | | {f.target} |"
        if f.median is None or f.least is None or f.most is None
        else f"| {f.name} | {number(f.median)} | {number(f.least)} – {number(f.most)} | {f.unit} |"
        f" {f.target} |"
        for f in figures
    ]
    return "\n".join(rows)


def numbers(figure: Figure) -> str:
    """A figure's numbers in one line."""
    if figure.median is None or figure.least is None or figure.most is None:
        return f"failed: {figure.failed}"
    return (
        f"{number(figure.median)} {figure.unit}"
        f" ({number(figure.least)} – {number(figure.most)}; target {figure.target or 'none'})"
    )


def number(value: float) -> str:
    """Three figures, never in powers of ten."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}".replace(",", " ")
