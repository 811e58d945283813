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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gostlab import machine
from gostlab.apps.bench import against_sandbox, calibrate, packets
from gostlab.apps.bench.cluster import WORKERS, overhead_ms
from gostlab.declared.tunnels import tunnel_kinds
from gostlab.describe.resolve.expand import single_run
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.machine import sandbox
from gostlab.setup.parts import find_parts, require_kernel

REPEATED_S = 10.0
# What is run again and again with one seed.
REPEATED = {
    "one CUBIC flow, 0.1 % loss": "cc=cubic rate=20mbit delay=20ms loss=0.1%",
    "one BBR flow": "cc=bbr rate=20mbit delay=20ms",
    "16 streams through gost+ws": "cc=cubic rate=50mbit delay=20ms tunnel=gost+ws streams=16",
}


@dataclass(frozen=True)
class Load:
    """What is timed: these congestion controls one after the other, one stream each, per packet."""

    name: str
    ccs: str
    settings: str
    short_s: float  # what comes before it is not timed
    long_s: float
    target: str


SLOW, FAST = "10 Mbit/s, 100 ms", "100 Mbit/s, 100 ms"
# Startup overruns a queue of one BDP, thousands of packets are lost at once, and then Linux walks
# its list of them at each ACK (tcp_rack_detect_loss), on any machine: a row of its own. After 6 s
# they are repaired.
FAR, FAR_PATH = "1 Gbit/s, 168 ms", "rate=1gbit delay=84ms"
LOADS = (
    Load(f"{SLOW}, 0.1 % loss, CUBIC and BBR", "cubic bbr", "rate=10mbit loss=0.1%", 1, 61, "≥ 90"),
    Load(
        f"{FAST}, 0.1 % loss, CUBIC and BBR", "cubic bbr", "rate=100mbit loss=0.1%", 1, 61, "≥ 25"
    ),
    Load(f"{FAR}, no loss, CUBIC and BBR after 6 s", "cubic bbr", FAR_PATH, 6, 16, "≥ 3"),
    Load(f"{FAR}, BBR's Startup and what it loses: the first 6 s", "bbr", FAR_PATH, 1, 6, ""),
    Load(f"{FAST}, no loss, a full BBR stream", "bbr", "rate=100mbit", 1, 31, "≥ 12"),
)


def settings_of(words: str) -> dict[str, str]:
    """Settings that are written as words: rate=1gbit delay=84ms."""
    return dict(word.split("=") for word in words.split())


# Between which samples of a run its CPU time is taken: past the slow starts, and before its end.
# A crowd's start takes more CPU time than its packets, and never the same twice.
CROWD_S = (5, 15)
BDP_PKTS = 667  # of 200 Mbit/s and 40 ms


@dataclass(frozen=True)
class Crowd:
    """CUBIC flows at 200 Mbit/s together, over 40 ms: of one pair of hosts, or a pair each."""

    flows: int
    pairs: bool = False

    @property
    def name(self) -> str:
        """What is counted: flows, or nodes (two routers and two hosts a pair)."""
        return f"{2 * self.flows + 2} nodes" if self.pairs else f"{self.flows} flows"

    def run(self, duration_s: float) -> RunDescription:
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
    """A line of the table: what was taken several times, or why it has no numbers."""

    name: str
    unit: str
    target: str
    values: Sequence[float] = ()
    failed: str = ""

    def to_json(self) -> dict[str, Any]:
        median, least, most = self.numbers or (None, None, None)
        return {
            "name": self.name,
            "median": median,
            "least": least,
            "most": most,
            "unit": self.unit,
            "target": self.target,
            "failed": self.failed,
        }

    @property
    def numbers(self) -> tuple[float, float, float] | None:
        """Median, least and most."""
        if not self.values:
            return None
        return statistics.median(self.values), min(self.values), max(self.values)

    @property
    def row(self) -> str:
        if self.numbers is None:
            return f"| {self.name} | failed: {self.failed} | | | {self.target} |"
        median, least, most = map(number, self.numbers)
        return f"| {self.name} | {median} | {least} – {most} | {self.unit} | {self.target} |"

    @property
    def words(self) -> str:
        """Its numbers in one line."""
        if self.numbers is None:
            return f"failed: {self.failed}"
        median, least, most = map(number, self.numbers)
        return f"{median} {self.unit} ({least} – {most}; target {self.target or 'none'})"


def tell(text: str) -> None:
    """What the benchmark does, as it does it."""
    print(f"bench: {text}", file=sys.stderr, flush=True)


def failed_figure(name: str, unit: str, target: str, why: Exception) -> Figure:
    """The line of a figure that could not be taken."""
    figure = Figure(name, unit, target, (), " ".join(str(why).split()) or type(why).__name__)
    tell(f"{name}: {figure.words}")
    return figure


# What a figure that cannot be taken raises; it costs no other figure.
FAILURES = (RuntimeError, OSError, subprocess.SubprocessError, ValueError, KeyError)


@dataclass(frozen=True)
class Taken:
    """What a run took."""

    wall_s: float
    cpu_s: float  # of the guest's processes
    folder: Path


class Bench:
    """The runs of the benchmark, in a scratch folder."""

    def __init__(self, scratch: Path, repeat: int) -> None:
        self._scratch = scratch
        self.repeat = repeat
        self.parts = find_parts()
        self._kernel = require_kernel(self.parts)
        self._handed = machine.hand_over(self.parts)
        self.cpus = list(machine.usable_cpus())
        self._count = 0

    def figure(self, name: str, unit: str, target: str, take: Callable[[], float]) -> Figure:
        tell(f"{name} …")
        try:
            taken = Figure(name, unit, target, [take() for _ in range(self.repeat)])
        except FAILURES as error:
            return failed_figure(name, unit, target, error)
        tell(f"{name}: {taken.words}")
        return taken

    @property
    def iperf3(self) -> str:
        """The iperf3 that the benchmark's runs use."""
        own = self.parts.iperf3.get(load(1.0).iperf3)
        return str(own.path) if own else "iperf3"

    def folder(self) -> Path:
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
            cpu=self.cpus[0],
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
        folder = self.folder()
        (folder / "run.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
        keep = machine.kept_visible(self.parts)
        return sandbox.start_run(self._kernel, run, folder, self._handed, keep, cpu, None), folder

    def time(self, run: RunDescription) -> Taken:
        """Time a run alone. Raises RuntimeError if it fails."""
        began, before_s = time.monotonic(), children_s()
        guest, folder = self.start(run, self.cpus[0])
        guest.wait()
        check(folder)
        return Taken(time.monotonic() - began, children_s() - before_s, folder)

    def speed(self, timed: Load) -> float:
        """Seconds of load per second of the sandbox's CPU time."""
        settings, ccs = settings_of(timed.settings), timed.ccs.split()
        cpu_s = sum(
            self.time(load(timed.long_s, cc, **settings)).cpu_s
            - self.time(load(timed.short_s, cc, **settings)).cpu_s
            for cc in ccs
        )
        return len(ccs) * (timed.long_s - timed.short_s) / cpu_s

    def packet_us(self) -> float:
        """CPU µs per packet of a full 1 Gbit/s BBR stream on the forward path: what six more
        seconds of it take, by the packets that they carry.
        """
        short, long = (self.time(load(length_s, rate="1gbit")) for length_s in (4.0, 10.0))
        more = packets_sent(long.folder) - packets_sent(short.folder)
        return 1e6 * (long.cpu_s - short.cpu_s) / more

    def crowd_us(self, crowd: Crowd) -> float:
        """CPU µs per packet where so many flows share one path, while they are under way."""
        began_s, ended_s = CROWD_S
        guest, folder = self.start(crowd.run(ended_s + 1.0), self.cpus[0])
        cpu_s: dict[int, float] = {}
        while guest.poll() is None:
            sampled_s = last_sample_s(folder)
            if sampled_s not in cpu_s:
                cpu_s[sampled_s] = machine.group_cpu_s(guest.group)
            time.sleep(0.01)
        check(folder)
        if not {began_s, ended_s} <= cpu_s.keys():
            raise RuntimeError(f"samples {began_s} and {ended_s} were not seen while it ran")
        sent = packets_sent(folder, ended_s) - packets_sent(folder, began_s)
        return 1e6 * (cpu_s[ended_s] - cpu_s[began_s]) / sent

    def pair_ratio(self) -> float:
        """How much two sandboxes side by side do of what one does alone (2: no loss)."""
        run = load(40.0, rate="100mbit")
        alone = self.time(run).wall_s
        began = time.monotonic()
        guests = [self.start(run, cpu) for cpu in self.cpus[:2]]
        for guest, _ in guests:
            guest.wait()
        together = time.monotonic() - began
        for _, folder in guests:
            check(folder)
        return 2 * alone / together


def children_s() -> float:
    """CPU time of all processes so far that this one has started and seen end."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def load(duration_s: float, cc: str = "bbr", **settings: str) -> RunDescription:
    """The benchmark's run: one stream over 100 ms, per packet, at the default system-call cost."""
    return single_run(
        profile="plain-100ms",
        cc=cc,
        machine="sandbox",
        clock="virtual",
        overrides={"duration": f"{duration_s:g}s", "offloads": "off", "buffers": "bdp", **settings},
    )


def check(folder: Path) -> None:
    """Raises RuntimeError with the run's own words if it did not end well."""
    outcome = read_json(folder / "outcome.json")
    if outcome["outcome"] != "ok":
        raise RuntimeError(f"a run of the benchmark failed: {outcome['error']}")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


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
    """The instant of the last sample of a run under way, to the second; 0 before the first."""
    try:
        *lines, _begun = (folder / "hosts.jsonl").read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return 0
    return round(json.loads(lines[-1])["t_s"]) if lines else 0


# -- the parts


def overhead_figures(bench: Bench) -> list[Figure]:
    """What surrounds a run."""
    overhead, taken = "a run's overhead: one second at 1 Mbit/s, all of it", []

    def cpu_s() -> float:
        taken.append(bench.time(load(1.0, rate="1mbit")))
        return taken[-1].cpu_s

    return [
        bench.figure("boot to power-off", "s", "≤ 0.15", bench.boot_s),
        bench.figure(f"{overhead}, CPU time", "s", "≤ 1", cpu_s),
        Figure(f"{overhead}, wall time", "s", "", [each.wall_s for each in taken]),
    ]


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


def speed_figures(bench: Bench) -> list[Figure]:
    return [
        bench.figure(
            f"virtual clock, per packet: {timed.name}",
            "× real time",
            timed.target,
            partial(bench.speed, timed),
        )
        for timed in LOADS
    ]


def packet_figures(bench: Bench) -> list[Figure]:
    """What a packet costs the sandbox, and the same five nodes on this machine's own kernel in the
    same minutes; the first alone without the right to namespaces.
    """
    name = "CPU time per packet, a full 1 Gbit/s BBR stream"
    native = "the same five nodes on this machine's own kernel, no netem, one CPU"
    iperf3, beside = shlex.quote(bench.iperf3), packets.may_make_namespaces()
    tell(f"{name} …")
    here, there = [], []
    for _ in range(bench.repeat):
        here.append(bench.packet_us())
        if beside:
            there.append(packets.packet_us(iperf3, bench.cpus[0]))
    figures = [Figure(name, "µs", "≤ 6", here)]
    if not beside:
        return figures
    paced = bench.figure(
        f"the same at {packets.PACED}bit/s, packet by packet as BBR sends",
        "µs",
        "",
        lambda: packets.paced_packet_us(iperf3, bench.cpus[0]),
    )
    ratios = [one / other for one, other in zip(here, there, strict=True)]
    figures += [
        Figure(native, "µs", "", there),
        Figure(
            "a packet in the sandbox, over one on this machine's own kernel", "×", "≤ 3", ratios
        ),
        paced,
    ]
    if paced.numbers is None:
        return figures
    ratios = [each / paced.numbers[0] for each in here]
    return [*figures, Figure("a packet in the sandbox, over one of these", "×", "≤ 3", ratios)]


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
    if len(bench.cpus) < 2:
        return []
    return [bench.figure("two sandboxes side by side", "× one", "≥ 1.9", bench.pair_ratio)]


def repeatability_figures(bench: Bench) -> list[Figure]:
    """How closely runs of one seed agree on the virtual clock: in goodput, in segments, and for how
    long they are the same. Two are the same while every sampled counter of a queue and every field
    of every ACK is.
    """
    return [
        figure
        for name, settings in REPEATED.items()
        for figure in agreement(bench, name, settings_of(settings), max(2, bench.repeat))
    ]


def agreement(bench: Bench, name: str, settings: dict[str, str], runs: int) -> list[Figure]:
    """The figures of one kind of run."""
    tell(f"{name}, {runs} times with one seed …")
    run = replace(load(REPEATED_S, sample="100ms", **settings), acks=True)
    folders = [bench.time(run).folder for _ in range(runs)]
    legs = [leg for folder in folders for leg in read_json(folder / "legs.json")["legs"]]
    wan = [leg for leg in legs if leg["leg"] == "wan"]
    flows = [read_json(folder / "flows.json")["flows"][0] for folder in folders]
    goodput = [flow["goodput_bps"] / 1000 for flow in flows]
    queues, acks = (
        [same_for_s(rows_of, folders[0], other) for other in folders[1:]]
        for rows_of in (queue_rows, ack_rows)
    )
    long_enough = f"≥ {REPEATED_S:g}"
    retransmitted = [leg["segments_retransmitted"] for leg in wan]
    taken: list[tuple[str, str, str, list[float]]] = [
        ("goodput", "kbit/s", "equal", goodput),
        ("segments retransmitted", "", "equal", retransmitted),
        ("data segments sent", "", "equal", [leg["data_segments_out"] for leg in wan]),
        ("queues the same for", "s", long_enough, queues),
        ("ACKs the same for", "s", long_enough, acks),
    ]
    return [
        Figure(f"one seed, {runs} runs, {name}: {what}", unit, target, values)
        for what, unit, target, values in taken
    ]


Rows = Sequence[tuple[float, str]]  # instant, s, and all that the row says


def queue_rows(folder: Path) -> Rows:
    """queues.jsonl."""
    lines = (folder / "queues.jsonl").read_text(encoding="utf-8").splitlines()
    return [(json.loads(line)["t_s"], line) for line in lines]


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


def call_figures(bench: Bench) -> list[Figure]:
    """What a system call costs the relay on this machine; nothing without perf."""
    if shutil.which("perf") is None:
        tell(
            "without perf nothing counts system calls: that figure is left out"
            " (./lab setup --with bench)"
        )
        return []
    relay = calibrate.require_relay(bench.parts)
    name = "CPU time per system call of the relay's near end, ws"
    return [
        bench.figure(
            f"{name}, {rate}bit/s", "µs", "", partial(calibrate.call_us, bench.iperf3, relay, rate)
        )
        for rate in ("150M", "1G")
    ]


def interrupt_figures(bench: Bench) -> list[Figure]:
    """What a packet costs in soft interrupts here; nothing without the right to namespaces."""
    if not packets.may_make_namespaces():
        return []
    name = "CPU time in soft interrupts per packet received (packet_cost)"
    take = partial(packets.received_packet_us, shlex.quote(bench.iperf3), bench.cpus[0])
    return [bench.figure(name, "µs", "", take)]


def cpu_figures(bench: Bench) -> list[Figure]:
    """Whether two programs with a CPU each do in the sandbox what they do here, given two CPUs."""
    if len(bench.cpus) < 2:
        return []
    tell("two programs over loopback, here and in the sandbox …")
    taken = [against_sandbox.compare_cpus() for _ in range(bench.repeat)]
    names = {
        2: "two programs, a CPU each: the sandbox over this machine",
        1: "the same two on one CPU",
    }
    return [
        Figure(name, "×", "0.8 – 1.2", [each[key] for each in taken]) for key, name in names.items()
    ]


def loopback_figures(bench: Bench) -> list[Figure]:
    """Whether programs reach in the sandbox what they reach here, and how far the shipped table of
    this CPU, if there is one, is from what they cost in these minutes.
    """
    found = against_sandbox.compare_loopback(bench.repeat)
    figures = [
        Figure(
            f"loopback, {row}: the sandbox over this machine",
            "×",
            f"0.85 – 1.15 ({wanted:.0f} Mbit/s here)",
            [got / wanted],
        )
        for row, (got, wanted) in found.mbit.items()
    ]
    if found.table_over_here:
        name = "what programs cost: the shipped table over these minutes"
        figures.append(Figure(name, "×", "", found.table_over_here))
    return figures


def relay_figures(_bench: Bench) -> list[Figure]:
    """The relay's throughput over loopback by `go test -bench`."""
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
    return [
        Figure(f"relay over loopback, {name}, one CPU", "Mbit/s", "", [8 * float(rate)])
        for name, rate in found
    ]


def cluster_figures(count: int) -> list[Figure]:
    """What a cluster's scheduler adds to a run."""
    name = f"a cluster's scheduler, per run: {count} stubs, {WORKERS} workers here"
    return [Figure(name, "ms", "≤ 50", [overhead_ms(count)])]


# What `--part` may name, in the table's order.
PARTS: Mapping[str, Callable[[Bench], list[Figure]]] = {
    "overhead": overhead_figures,
    "speed": speed_figures,
    "packet": packet_figures,
    "flows": partial(crowd_figures, pairs=False),
    "nodes": partial(crowd_figures, pairs=True),
    "streams": stream_figures,
    "pair": pair_figures,
    "repeatability": repeatability_figures,
    "calls": call_figures,
    "interrupts": interrupt_figures,
    "cpus": cpu_figures,
    "loopback": loopback_figures,
    "relay": relay_figures,
    "tunnels": tunnel_figures,
}


# -- all of it


def main(repeat: int, *, as_json: bool, parts: Sequence[str] = (), stubs: int | None = None) -> int:
    """Take and print the figures of some parts (none named: all), or of a cluster's scheduler."""
    if stubs is not None:
        figures = cluster_figures(stubs)
    else:
        machine.compile_lab()  # in the first run's wall time otherwise
        with tempfile.TemporaryDirectory(prefix="gostlab-bench-") as scratch:
            bench = Bench(Path(scratch), repeat)
            figures = [figure for name in parts or PARTS for figure in figures_of(name, bench)]
    if as_json:
        print(json.dumps([figure.to_json() for figure in figures], indent=2))
    else:
        print("| what | median | least – most | unit | target |", "|---|---|---|---|---|", sep="\n")
        print(*(figure.row for figure in figures), sep="\n")
    return 1 if any(figure.failed for figure in figures) else 0


def figures_of(part: str, bench: Bench) -> list[Figure]:
    """A part's figures, or that it failed."""
    try:
        return PARTS[part](bench)
    except FAILURES as error:
        return [failed_figure(f"the part {part}", "", "", error)]


def number(value: float) -> str:
    """Three figures, never in powers of ten."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}".replace(",", " ")
