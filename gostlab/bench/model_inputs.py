"""What numbers of the machine model were taken from, taken anew: `./lab bench --part NAME`."""

import gzip
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gostlab import safe_read
from gostlab.bench import cost_model_check, cpu_costs, packet_cost
from gostlab.bench.harness import Bench, load
from gostlab.bench.metrics import Figure, tell
from gostlab.install.locate import RELAY, tunnel_binary
from gostlab.registry import folders

REPEATED_S = 10.0
# What is run again and again with one seed.
PATH = {"rate": "20mbit", "delay": "20ms"}
SIXTEEN_STREAMS = {"rate": "50mbit", "tunnel": "gost+ws", "streams": "16"}
REPEATED = {
    "one CUBIC flow, 0.1 % loss": {**PATH, "cc": "cubic", "loss": "0.1%"},
    "one BBR flow": {**PATH, "cc": "bbr"},
    "16 streams through gost+ws": {**PATH, "cc": "cubic", **SIXTEEN_STREAMS},
}


def repeatability_figures(bench: Bench) -> list[Figure]:
    """How closely runs of one seed agree on the virtual clock: in goodput, in segments, and for how
    long they are the same. Two are the same while every sampled counter of a queue and every field
    of every ACK is.
    """
    return [
        figure
        for name, settings in REPEATED.items()
        for figure in agreement(bench, name, settings, max(2, bench.repeat))
    ]


def agreement(bench: Bench, name: str, settings: dict[str, str], runs: int) -> list[Figure]:
    tell(f"{name}, {runs} times with one seed …")
    run = replace(load(REPEATED_S, sample="100ms", **settings), acks=True)
    folders = [bench.time(run).folder for _ in range(runs)]
    legs = [leg for folder in folders for leg in safe_read.read_json(folder / "legs.json")["legs"]]
    wan = [leg for leg in legs if leg["leg"] == "wan"]
    flows = [safe_read.read_json(folder / "flows.json")["flows"][0] for folder in folders]
    goodput = [flow["goodput_bps"] / 1000 for flow in flows]
    queues, acks = (
        [same_for_s(rows_of, folders[0], other) for other in folders[1:]]
        for rows_of in (queue_rows, ack_rows)
    )
    long_enough, about = f"≥ {REPEATED_S:g}", f"one seed, {runs} runs, {name}: "
    retransmitted = [leg["segments_retransmitted"] for leg in wan]
    sent = [leg["data_segments_out"] for leg in wan]
    return [
        Figure(f"{about}goodput", "kbit/s", "equal", goodput),
        Figure(f"{about}segments retransmitted", "", "equal", retransmitted),
        Figure(f"{about}data segments sent", "", "equal", sent),
        Figure(f"{about}queues the same for", "s", long_enough, queues),
        Figure(f"{about}ACKs the same for", "s", long_enough, acks),
    ]


Rows = Sequence[tuple[float, str]]  # instant, s, and all that the row says


def queue_rows(folder: Path) -> Rows:
    lines = safe_read.read_lines(folder / "queues.jsonl")
    return [(safe_read.decode(line)["t_s"], line.decode()) for line in lines]


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
    relay = tunnel_binary(bench.parts, RELAY).path
    name = "CPU time per system call of the relay's near end, ws"
    rates = {rate: partial(cpu_costs.call_us, bench.iperf3, relay, rate) for rate in ("150M", "1G")}
    return [bench.figure(f"{name}, {rate}bit/s", "µs", "", each) for rate, each in rates.items()]


def interrupt_figures(bench: Bench) -> list[Figure]:
    """What a packet costs in soft interrupts here; nothing without the right to namespaces."""
    if not packet_cost.may_make_namespaces():
        return []
    name = "CPU time in soft interrupts per packet received (packet_cost)"
    take = partial(packet_cost.received_packet_us, shlex.quote(bench.iperf3), bench.cpus[0])
    return [bench.figure(name, "µs", "", take)]


def relay_figures(_bench: Bench) -> list[Figure]:
    """The relay's throughput over loopback by `go test -bench`."""
    done = subprocess.run(
        ["go", "test", "-run", "^$", "-bench", "Throughput", "-cpu", "1", "-benchtime", "2s", "."],
        cwd=folders.ROOT / "tunnel",
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(
        r"^BenchmarkThroughput/(\S+?)(?:-\d+)?\s+\d+\s+.*?([\d.]+) MB/s", done.stdout, re.MULTILINE
    )
    rates = {f"relay over loopback, {name}, one CPU": 8 * float(rate) for name, rate in found}
    return [Figure(name, "Mbit/s", "", [rate]) for name, rate in rates.items()]


# What `--part` may name besides the benchmark's own.
PARTS: Mapping[str, Callable[[Bench], list[Figure]]] = {
    "repeatability": repeatability_figures,
    "calls": call_figures,
    "interrupts": interrupt_figures,
    "cpus": cost_model_check.cpu_figures,
    "loopback": cost_model_check.loopback_figures,
    "relay": relay_figures,
}
