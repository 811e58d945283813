# SPDX-License-Identifier: MIT
"""Reads that the kernel makes for a program: the samples are the same to the bit with them and
without, ends are right, and who looks at the clock between two reads makes his own.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from gostlab.registry.kernels import SHIPPED, declared_kernels
from gostlab.spec.run_spec import RunSpec
from tests.kernel import read_on_probe
from tests.sandboxed import BIG_BUFFERS, Done, Lab, describe, direction, flow

pytestmark = pytest.mark.sandbox

MBIT = 1_000_000


def described(
    way: Mapping[str, Any] = {}, back: Mapping[str, Any] = {}, flows: int = 1, **changes: Any
) -> dict[str, Any]:
    """A short run: 20 Mbit/s, 10 ms, a second, each ACK noted."""
    ways = [
        direction(rate_bps=20 * MBIT, delay_ms=5.0, buffer_pkts=60) | each for each in (way, back)
    ]
    own = {key: changes.pop(key) for key in ("streams", "direction", "cc") if key in changes}
    load = [
        flow(f"flow{number}", duration_s=1.0, rtt_ms=10.0, start_s=0.1 * (number - 1), **own)
        for number in range(1, flows + 1)
    ]
    asked = {"flows": load, "duration_s": 1.0, "iperf3": "3.18", "acks": True, "sample_ms": 50.0}
    return {"forward": ways[0], "reverse": ways[1], **asked, **own, **changes}


OWN_CPUS: dict[str, Any] = {"host_cpus": 1, "packet_cost_ns": 750, "clock_reads": "free"}
COSTS = {
    "iperf3/sender": {"call_ns": 3000, "byte_ps": 80},
    "iperf3/receiver": {"call_ns": 4100, "byte_ps": 110},
}
DESCRIPTIONS: dict[str, dict[str, Any]] = {
    "plain": described(),
    "loss-both-ways-and-jitter": described(
        {"loss": {"model": "random", "p": 0.005}, "jitter_ms": 1.0},
        {"loss": {"model": "random", "p": 0.01}},
    ),
    "jitter-ordered-small-mtu": described({"jitter_ms": 1.0, "ordered": True}, mtu=576),
    "bbr-loss": described({"loss": {"model": "random", "p": 0.01}}, cc="bbr", **OWN_CPUS),
    "bbr-loss-four-streams": described(
        {"loss": {"model": "random", "p": 0.01}}, cc="bbr", streams=4
    ),
    "five-flows-own-cpus": described(flows=5, **OWN_CPUS),
    "sixteen-streams": described(streams=16, **OWN_CPUS),
    "download-four-streams": described(direction="download", streams=4, **OWN_CPUS),
    "cpus-and-memory-by-host": described(
        {"loss": {"model": "random", "p": 0.001}},
        streams=4,
        cpus_by_host={"client": 4, "target": 2},
        byte_cost_ns=0.5,
        host_tcp_memory_mib=64,
        tcp_memory_mib_by_host={"target": 128},
        **OWN_CPUS,
    ),
    "charged-clock-reads": described(**OWN_CPUS | {"clock_reads": "charged"}),
    "charged-and-shared": described(clock_reads="charged", streams=2),
    "byte-costs-dear-packets": described(
        {"rate_bps": 100 * MBIT}, byte_cost_ns=0.5, **OWN_CPUS | {"packet_cost_ns": 40_000}
    ),
    "byte-costs-shared": described(byte_cost_ns=0.5),
    "dear-calls": described(syscall_cost_us=300.0, **OWN_CPUS),
    "free-calls": described(syscall_cost_us=0.0),
    "program-costs": described(costs_of="made up", program_costs=COSTS, **OWN_CPUS),
    "moderated": described(
        {"rate_bps": 200 * MBIT},
        {"rate_bps": 200 * MBIT},
        receive="moderated",
        rx_usecs=200,
        buffers=BIG_BUFFERS,
        **OWN_CPUS,
    ),
    "offloads": described({"rate_bps": 100 * MBIT}, offloads=True),
    "tunnel-four-streams": described({"rate_bps": 10 * MBIT}, tunnel="gost+tcp", streams=4),
    "gateway": described(
        {"rate_bps": 10 * MBIT}, tunnel="gost+wss", placement="gateway", **OWN_CPUS
    ),
    # 250 ticks fall into the load, many of them into a read.
    "ticks": described(
        {"rate_bps": 100 * MBIT, "buffer_pkts": 200}, buffers=BIG_BUFFERS, **OWN_CPUS
    ),
}


def on_and_off(lab: Lab, run: RunSpec) -> tuple[Done, Done]:
    """A run with reading on, and without. Their run.json are equally long: how much memory the
    lab's Python asks its kernel for is calls, and on 5.10 packets' addresses decide on losses.
    """
    without = replace(run, read_on="off")
    more = len(json.dumps(without.to_json())) - len(json.dumps(run.to_json()))
    return lab.run(replace(run, experiment=run.experiment + "x" * more)), lab.run(without)


ON_OTHERS = ("bbr-loss-four-streams", "charged-clock-reads")
EACH = [(SHIPPED, name) for name in DESCRIPTIONS]
EACH += [(kernel, name) for kernel in declared_kernels() if kernel != "7.3" for name in ON_OTHERS]


@pytest.mark.parametrize(("kernel", "name"), EACH)
def test_the_samples_are_the_same_with_reading_on_and_without(
    lab: Lab, kernel: str, name: str
) -> None:
    on, off = on_and_off(lab, describe(**DESCRIPTIONS[name], kernel=kernel))

    assert (reads_made(off), reads_made(on) > 0) == (0, True)
    assert on.unlike(off) == []


def reads_made(done: Done) -> Any:
    return done.json("env.json")["reads_made"]


@pytest.mark.parametrize("version", ["3.12", "3.9"])
def test_who_selects_and_looks_at_the_clock_between_two_reads_makes_his_own(
    lab: Lab, version: str
) -> None:
    if version not in lab.handed["iperf3"]:
        pytest.skip(f"no iperf3 {version}: ./lab setup")
    assert reads_made(lab.run(describe(**described() | {"iperf3": version}))) == 0


@pytest.fixture(scope="module")
def ends(lab: Lab) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """What read_on_probe.py says of each case: with reading on, and without. Both commands are
    equally long: where a program's stack begins decides how many pages its start takes, and so
    when the guest's kernel counts its pages again, which takes some reads of the clock.
    """
    probe = f"ip link set lo up; python3 -S {quote(read_on_probe.__file__)}"
    said = [lab.command(f"{probe} {size}").printed for size in ("131072", "000000")]
    return {on.pop("case"): (on, off) for on, off in zip(*said, strict=True) if off.pop("case")}


@pytest.mark.parametrize("case", read_on_probe.CASES)
def test_a_read_that_is_gone_on_with_ends_as_the_programs_own(
    ends: dict[str, tuple[dict[str, Any], dict[str, Any]]], case: str
) -> None:
    on, off = (dict(each) for each in ends[case])
    assert off.pop("made") == 0
    assert on.pop("made") >= read_on_probe.CASES[case][0]
    assert on == off  # each block's bytes, its error, and the nanosecond


def test_ends_are_of_all_kinds(ends: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    failed = {name: [each[1] for each in on["blocks"]] for name, (on, _) in ends.items()}
    assert failed["reset"][-1] == "ECONNRESET" and "EAGAIN" in failed["time out"]
    assert ends["killed"][0]["status"] == 9
    assert ends["whole blocks"][0]["blocks"][0][0] == 131072


IPERF3_ENDS = """
ip link set lo up
try() {{
    echo $1 >/sys/module/kernel/parameters/tt_begin_anew
    python3 -S -c 'import ctypes, os, sys
ctypes.CDLL(None).prctl(0x676f7374, ctypes.c_ulong(int(sys.argv[1])))
os.execv(sys.argv[2], sys.argv[2:])' {size} {iperf3} -s -1 -J >/tmp/server &
    sleep 0.1
    {iperf3} -c 127.0.0.1 -J -b 200M $2 >/tmp/client & client=$!
    sleep 0.5
    [ -z "$3" ] || kill -$3 $client
    wait $client
    status=$?
    wait
    made=$(cat /sys/module/kernel/parameters/tt_reads_made)
    python3 -S -c 'import json, sys
server = json.load(open("/tmp/server"))
streams = [each["receiver"] for each in server.get("end", {{}}).get("streams", [])]
print(json.dumps([int(sys.argv[1]), server.get("error"), streams, int(sys.argv[2])]))
' $status $made
}}
try 1 "-t 1"
try 2 "-n 10M"
try 3 "-t 5" TERM
try 4 "-t 5" KILL
"""


def test_iperf3_ends_as_it_would(lab: Lab) -> None:
    """By -t, by -n, by a signal, by a peer that closes."""
    lab.require_programs_of_the_host()
    own = Path(lab.handed["iperf3"]["3.18"]["path"])
    on, off = (
        lab.command(IPERF3_ENDS.format(iperf3=own, size=size), keep=[own.parent]).printed
        for size in ("131072", "000000")
    )
    made = [each.pop() for each in on]
    assert made == sorted(set(made)) and made[0] > 0  # in each of them some more
    assert [each.pop() for each in off] == [0, 0, 0, 0]
    assert on == off
    assert [each[0] for each in on] == [0, 0, 1, 137]  # how the client ended


EDGE = """
import ctypes, os, select
libc, buffer = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(100)
def read(offset):
    return libc.read(out, ctypes.byref(buffer, offset), ctypes.c_size_t(100 - offset))
out, into = os.pipe()
os.set_blocking(out, False)
watch = select.epoll()
watch.register(out, select.EPOLLIN | select.EPOLLET)
libc.prctl(0x676f7374, ctypes.c_ulong(100))
os.write(into, bytes(40))
print(len(watch.poll(1)), read(0))  # the kernel reads on, and finds nothing
os.write(into, bytes(10))
print(len(watch.poll(1)), read(40))  # the edge is reported once
"""


@pytest.mark.parametrize(
    "kernel", [SHIPPED, *(name for name in declared_kernels() if name != "7.3")]
)
def test_data_that_came_since_a_read_found_none_are_read(lab: Lab, kernel: str) -> None:
    done = lab.command(f"python3 -S -c '{EDGE}'", kernel=kernel)
    assert done.log.splitlines()[-3:-1] == ["1 40", "1 10"]
