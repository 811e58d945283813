"""Measure the inputs of the machine model again: `./lab bench --part NAME`."""

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
from gostlab.bench.metrics import BenchMetric, print_progress
from gostlab.install.locate import RELAY, tunnel_binary
from gostlab.registry import folders

REPEATED_S = 10.0
# These settings are run repeatedly with one seed.
PATH = {"rate": "20mbit", "delay": "20ms"}
SIXTEEN_STREAMS = {"rate": "50mbit", "tunnel": "gost+ws", "streams": "16"}
REPEATED = {
    "one CUBIC flow, 0.1 % loss": {**PATH, "cc": "cubic", "loss": "0.1%"},
    "one BBR flow": {**PATH, "cc": "bbr"},
    "16 streams through gost+ws": {**PATH, "cc": "cubic", **SIXTEEN_STREAMS},
}


def measure_repeatability(bench: Bench) -> list[BenchMetric]:
    """Measure how closely runs of one seed agree on the virtual clock.

    They are compared by goodput, by segments, and by the time for which they are identical: until a
    sampled counter of a queue or a field of an ACK differs.
    """
    return [
        metric
        for name, settings in REPEATED.items()
        for metric in agreement(bench, name, settings, max(2, bench.repeat))
    ]


def agreement(bench: Bench, name: str, settings: dict[str, str], runs: int) -> list[BenchMetric]:
    print_progress(f"{name}, {runs} times with one seed …")
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
        BenchMetric(f"{about}goodput", "kbit/s", "equal", goodput),
        BenchMetric(f"{about}segments retransmitted", "", "equal", retransmitted),
        BenchMetric(f"{about}data segments sent", "", "equal", sent),
        BenchMetric(f"{about}queues the same for", "s", long_enough, queues),
        BenchMetric(f"{about}ACKs the same for", "s", long_enough, acks),
    ]


Rows = Sequence[tuple[float, str]]  # instant in s, and the content of the row


def queue_rows(folder: Path) -> Rows:
    lines = safe_read.read_lines(folder / "queues.jsonl")
    return [(safe_read.decode(line)["t_s"], line.decode()) for line in lines]


def ack_rows(folder: Path) -> Rows:
    """Return the rows of acks.csv.gz without its header."""
    with gzip.open(folder / "acks.csv.gz", "rt", encoding="ascii") as file:
        return [(float(line.partition(",")[0]), line) for line in list(file)[1:]]


def same_for_s(rows_of: Callable[[Path], Rows], one: Path, other: Path) -> float:
    """Return the time until which the rows of two runs are equal, s; the end if all are."""
    mine, theirs = rows_of(one), rows_of(other)
    for (at_s, row), (_, twin) in zip(mine, theirs, strict=False):
        if row != twin:
            return at_s
    return min(mine, theirs, key=len)[-1][0]


def measure_calls(bench: Bench) -> list[BenchMetric]:
    """Measure the cost of the relay's system calls here; return nothing without perf."""
    if shutil.which("perf") is None:
        print_progress(
            "without perf nothing counts system calls: that figure is left out"
            " (./lab setup --with bench)"
        )
        return []
    relay = tunnel_binary(bench.parts, RELAY).path
    name = "CPU time per system call of the relay's near end, ws"
    rates = {rate: partial(cpu_costs.call_us, bench.iperf3, relay, rate) for rate in ("150M", "1G")}
    return [bench.metric(f"{name}, {rate}bit/s", "µs", "", take) for rate, take in rates.items()]


def measure_interrupts(bench: Bench) -> list[BenchMetric]:
    """Measure the soft-interrupt cost of a packet here; return nothing without namespaces."""
    if not packet_cost.may_make_namespaces():
        return []
    name = "CPU time in soft interrupts per packet received (packet_cost)"
    take = partial(packet_cost.received_packet_us, shlex.quote(bench.iperf3), bench.cpus[0])
    return [bench.metric(name, "µs", "", take)]


def measure_relay(_bench: Bench) -> list[BenchMetric]:
    """Measure the relay's throughput over loopback by `go test -bench`."""
    done = subprocess.run(
        ["go", "test", "-run", "^$", "-bench", "Throughput", "-cpu", "1", "-benchtime", "2s", "."],
        cwd=folders.ROOT / "tunnel",
        capture_output=True,
        text=True,
        check=False,
    )
    matches = re.findall(
        r"^BenchmarkThroughput/(\S+?)(?:-\d+)?\s+\d+\s+.*?([\d.]+) MB/s", done.stdout, re.MULTILINE
    )
    rates = {f"relay over loopback, {name}, one CPU": 8 * float(rate) for name, rate in matches}
    return [BenchMetric(name, "Mbit/s", "", [rate]) for name, rate in rates.items()]


# These parts are measured only if `--part` names them.
PARTS: Mapping[str, Callable[[Bench], list[BenchMetric]]] = {
    "repeatability": measure_repeatability,
    "calls": measure_calls,
    "interrupts": measure_interrupts,
    "cpus": cost_model_check.measure_cpus,
    "loopback": cost_model_check.measure_loopback,
    "relay": measure_relay,
}
