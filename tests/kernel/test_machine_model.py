# SPDX-License-Identifier: MIT
"""The machine model of docs/explanation/machine-model.md: what programs are charged on the virtual
clock, whose CPU pays, and each host's own TCP memory.
"""

import re
from pathlib import Path
from shlex import quote
from typing import Any

import pytest

from gostlab.registry.kernels import SHIPPED, declared_kernels
from gostlab.spec.cpu_model import CpuModel
from tests.sandboxed import BIG_BUFFERS, Lab, describe, direction

pytestmark = pytest.mark.sandbox

JOBS = Path(__file__).with_name("queue_jobs.py")
CLOCK_READS_FREE = CpuModel(clock_reads_are_free=True)


def said(lab: Lab, script: str, cost_us: float, **options: Any) -> dict[str, Any]:
    """What a Python script in the guest, or a command, prints as its one line of JSON."""
    words = script if script.startswith("python3") else f"python3 -S - <<'END'\n{script}\nEND\n"
    return dict(lab.command(words, syscall_cost_us=cost_us, **options).printed[0])


SPENT = """
import json, mmap, os, socket, time
def spent(work, times=1000):
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    for _ in range(times): work()
    return (time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - before) / times
"""


# -- a look at the clock

READ_CLOCKS = f"""{SPENT}
print(json.dumps({{"time": spent(time.time), "monotonic": spent(time.monotonic),
                   "coarse": spent(lambda: time.clock_gettime(6)), "getppid": spent(os.getppid)}}))
"""


def test_a_look_at_the_clock_is_charged_unless_it_is_asked_to_be_free(lab: Lab) -> None:
    charged = said(lab, READ_CLOCKS, 20)
    free = said(lab, READ_CLOCKS, 20, cpus=CLOCK_READS_FREE)

    assert charged["time"] >= 20_000 and charged["monotonic"] >= 20_000
    # every 64th in a row is a real call
    for clock in ("time", "monotonic", "coarse"):
        assert free[clock] == pytest.approx(20_000 / 64, rel=0.1)
    assert free["getppid"] == pytest.approx(20_000, rel=0.01)


@pytest.mark.parametrize("kernel", [SHIPPED, "5.10", "6.1", "6.12"])
def test_a_page_fault_is_no_end_of_looks_in_a_row(lab: Lab, kernel: str) -> None:
    """Else where a program has its data would decide when it pays."""
    script = f"""{SPENT}
step, times = 17 * mmap.PAGESIZE, 640  # a fault brings 16 pages at most
pages = mmap.mmap(-1, times * step, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
places = iter(range(0, times * step, step))
def fault_and_look():
    pages[next(places)] = 1
    time.monotonic()
print(json.dumps({{"each": spent(fault_and_look, times)}}))
"""
    found = said(lab, script, 20, cpus=CLOCK_READS_FREE, kernel=kernel)
    assert found["each"] == pytest.approx(20_000 / 64, rel=0.2)


def test_a_free_clock_says_what_the_charged_one_says_and_never_goes_back(lab: Lab) -> None:
    script = """
import ctypes, json, time
class Timespec(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
libc, raw = ctypes.CDLL(None), Timespec()
def by_call(clock):
    libc.syscall(228, clock, ctypes.byref(raw))
    return raw.s * 10**9 + raw.ns
apart, back, last = [], 0, 0
for i in range(3000):
    clock = i % 2
    read = time.clock_gettime_ns(clock)
    apart.append(by_call(clock) - read)
    now = time.monotonic_ns()
    back += now < last
    last = now
    if i % 100 == 0: time.sleep(0.003)
print(json.dumps({"least": min(apart), "most": max(apart), "back": back}))
"""
    found = said(lab, script, 20, cpus=CLOCK_READS_FREE)

    assert found["back"] == 0
    # The call itself moves the clock by its 256 ns, and an earlier one may have been charged.
    assert found["least"] >= 0 and found["most"] <= 45_000


@pytest.mark.parametrize("syscall_cost_us", [0.0, 5.0])
def test_a_loop_that_waits_for_a_free_clock_ends(lab: Lab, syscall_cost_us: float) -> None:
    script = """
import time
end = time.monotonic() + 0.004
while time.monotonic() < end: pass
print("{}")
"""
    assert said(lab, script, syscall_cost_us, cpus=CLOCK_READS_FREE) == {}


# -- bytes


def test_a_byte_that_a_call_moves_costs_what_was_asked(lab: Lab) -> None:
    script = f"""{SPENT}
null, zero = os.open("/dev/null", os.O_WRONLY), os.open("/dev/zero", os.O_RDONLY)
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
block = bytes(8000)
def pair():
    a.send(block); b.recv(9000)
print(json.dumps({{"write": spent(lambda: os.write(null, block)), "pair": spent(pair),
    "read": spent(lambda: os.read(zero, 4000)), "writev": spent(lambda: os.writev(null, [block, block])),
    "none": spent(lambda: os.getppid())}}))
"""
    found = said(lab, script, 10, cpus=CpuModel(byte_cost_ns=0.5))

    expected = {"write": 14_000, "read": 12_000, "writev": 18_000, "pair": 28_000, "none": 10_000}
    assert found == pytest.approx(expected, rel=0.01)


# -- whose CPU

COUNT = "python3 -S /tmp/count.py"
COUNTING = """
cat >/tmp/count.py <<END
import os, time
began = time.clock_gettime_ns(4)
for _ in range(10000): os.getppid()
print("took", (time.clock_gettime_ns(4) - began) / 1e6, flush=True)
END
"""
SAME_HOST = f"{COUNT} & {COUNT} & wait"
OTHER_HOSTS = f"unshare -n {COUNT} & unshare -n {COUNT} & wait"


def took_ms(log: str) -> list[float]:
    return [float(line.split()[1]) for line in log.splitlines() if line.startswith("took")]


@pytest.mark.parametrize(
    ("cpus", "hosts", "expected_ms"),
    [(0, OTHER_HOSTS, 400), (1, OTHER_HOSTS, 200), (1, SAME_HOST, 400), (2, SAME_HOST, 200)],
    ids=["one CPU for all", "a CPU each", "two programs, one CPU", "two programs, two CPUs"],
)
def test_programs_share_their_hosts_cpus_and_no_others(
    lab: Lab, cpus: int, hosts: str, expected_ms: float
) -> None:
    """Twice 10,000 calls of 20 µs."""
    done = lab.command(COUNTING + hosts, syscall_cost_us=20, cpus=CpuModel(host_cpus=cpus))

    assert took_ms(done.log) == pytest.approx([expected_ms, expected_ms], rel=0.05)


def test_a_host_says_what_it_has_used(lab: Lab) -> None:
    script = """unshare -n sh -c '
sysctl -qw net.host.cpus=3
python3 -S -c "
import os
for _ in range(5000): os.getppid()"
cat /proc/self/net/host_cpu'"""
    done = lab.command(script, syscall_cost_us=20, cpus=CpuModel(host_cpus=1))

    used = {
        name: int(value)
        for name, value in re.findall(r"^(cpus|calls|\w+_ns) (\d+)$", done.log, re.MULTILINE)
    }
    assert used["cpus"] == 3
    assert 5000 < used["calls"] < 8000
    assert used["busy_ns"] == 20_000 * used["calls"]
    assert used["waited_ns"] < 0.01 * used["busy_ns"]


SHARED_CORE = """unshare -n sh -c '
sysctl -qw net.host.cpu_burst_us=%d net.host.cpu_share_permille=%d
%s
wait
cat /proc/self/net/host_cpu'"""
# share in permille, burst in µs, programs: what each takes, ms
SHARES = {
    (0, 0, 2): 200,  # all of both CPUs
    (1000, 0, 2): 400,  # one CPU's time for two
    (1000, 0, 1): 200,  # who is alone has his CPU
    (500, 0, 1): 400,
    (500, 100_000, 1): 200,  # 100 ms ahead are as much as 200 ms at half pay need
    (500, 50_000, 1): 300,
}


def test_a_hosts_cpus_have_a_share_of_a_cpus_time_and_a_burst(lab: Lab) -> None:
    """10,000 calls of 20 us each, on a host after the other: settings cpu_share and cpu_burst. A
    program's start is work, too, and has used up some of the burst.
    """
    scripts = [SHARED_CORE % (us, share, " & ".join([COUNT] * n)) for share, us, n in SHARES]
    script = "\necho next\n".join(scripts)

    log = lab.command(COUNTING + script, syscall_cost_us=20, cpus=CpuModel(host_cpus=2)).log

    said = log.split("next\n")
    for ((share, _, programs), expected_ms), told in zip(SHARES.items(), said, strict=True):
        assert took_ms(told) == pytest.approx([expected_ms] * programs, rel=0.15)
        assert ("share_permille" in told) == bool(share)


# Mean waits in units of the service time, at half load. One CPU: Pollaczek and Khinchine. Two: the
# mean over 4·10^6 arrivals of Kiefer and Wolfowitz's recursion.
MEAN_WAITS = {1: 0.5, 2: 0.1764}


@pytest.mark.parametrize("words", ["1 5000", "2 5000 packets"])
@pytest.mark.parametrize("cpus", [1, 2])
def test_calls_wait_for_their_hosts_cpus_as_queueing_theory_says(
    lab: Lab, cpus: int, words: str
) -> None:
    """M/D/1 and M/D/2: calls of 1 ms that come at random, half as many as the CPUs can do; or half
    of them packets, for which a call waits no less. Each of the first 5,000 jobs' calls waits as
    the recursion says, but those behind one of the lab's own; of 50,000 jobs it says what the
    theory does.

    The arrivals are always the same ones. What the recursion makes of other seeds' has a standard
    deviation of 1.5 % (one CPU) and 2.0 % (two) about the theory.
    """
    command = f"python3 -S {quote(str(JOBS))} {cpus} 0.5 1000 50000 {words}"
    model = CpuModel(host_cpus=cpus, clock_reads_are_free=True)
    found = said(lab, command, 1000, cpus=model, keep=[JOBS.parent])

    assert found["as predicted"] > 0.99
    assert found["measured"] == pytest.approx(found["recursion"], abs=0.005)
    assert found["of all"] == pytest.approx(MEAN_WAITS[cpus], rel=0.02)


PINGS = """
sysctl -qw net.ipv6.conf.default.disable_ipv6=1
ip link set lo up
ip netns add router; ip netns add far
for host in router far; do
    ip netns exec $host sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv4.ip_forward=1; done
ip link add name near0 type veth peer name router0 netns router
ip -n router link add name router1 type veth peer name far0 netns far
ip addr add 10.9.1.1/24 dev near0; ip link set dev near0 up; ip route add 10.9.2.0/24 via 10.9.1.2
ip -n router addr add 10.9.1.2/24 dev router0; ip -n router link set dev router0 up
ip -n router addr add 10.9.2.1/24 dev router1; ip -n router link set dev router1 up
ip -n far addr add 10.9.2.2/24 dev far0; ip -n far link set dev far0 up
ip -n far route add default via 10.9.2.1
ip netns exec far sysctl -qw net.host.packet_ns=3000
sysctl -qw net.host.packet_ns=3000
ping -q -i 0.001 -c 1000 127.0.0.1 >/dev/null
ping -q -i 0.001 -c 1000 10.9.2.2 >/dev/null
for host in far router; do echo at $host; ip netns exec $host cat /proc/self/net/host_cpu; done
echo at near; cat /proc/self/net/host_cpu
"""


def test_who_receives_pays_for_packets_and_who_only_forwards_does_not(lab: Lab) -> None:
    """1,000 pings to and fro, and 1,000 on loopback, which nobody pays for: 3 us each."""
    log = lab.command(PINGS, cpus=CpuModel(host_cpus=1)).log

    used = {
        part.split()[0]: dict(re.findall(r"^(\w+) (\d+)$", part, re.MULTILINE))
        for part in re.split("^at ", log, flags=re.MULTILINE)[1:]
    }
    for host in ("near", "far"):
        packets = int(used[host]["packets"])
        assert 1000 <= packets <= 1010  # and ARP's few
        assert int(used[host]["packets_busy_ns"]) == 3000 * packets
    assert used["router"]["packets"] == "0"


# -- whole runs


def test_a_run_says_what_its_hosts_used(lab: Lab) -> None:
    own = {"cpus_by_host": {"target": 3}, "tcp_memory_mib_by_host": {"target": 128}}
    costs = {"byte_cost_ns": 0.5, "packet_cost_ns": 1000, "clock_reads": "free"}
    done = lab.run(describe(duration_s=3.0, host_cpus=2, host_tcp_memory_mib=64, **own, **costs))

    used = done.json("env.json")["host_cpu"]
    assert (used["client"]["cpus"], used["target"]["cpus"]) == (2, 3)
    assert used["client"]["bytes"] > done.goodput_bps * 3 / 8
    assert done.goodput_bps > 80e6
    assert used["target"]["packets"] > done.goodput_bps * 3 / 8 / 1500
    assert used["target"]["packets_busy_ns"] == 1000 * used["target"]["packets"]

    last = done.lines("hosts.jsonl")[-1]
    assert 0 < last["host_packets_s"]["target"] < last["host_busy_s"]["target"]
    pools = {
        host: values["net.ipv4.tcp_host_mem"].split()[2]
        for host, values in done.json("env.json")["sysctls"].items()
        if host in ("client", "target")
    }
    assert pools == {"client": str(64 * 256), "target": str(128 * 256)}


# -- TCP memory


WITH_POOLS = [name for name, each in declared_kernels().items() if "host memory" in each.features]


@pytest.mark.parametrize("kernel", WITH_POOLS)
def test_a_hosts_tcp_memory_is_its_own(lab: Lab, kernel: str) -> None:
    """A small pool holds the host back that has it."""
    wide = direction(rate_bps=500_000_000, delay_ms=50.0, buffer_pkts=10_000)
    asked = {"buffers": BIG_BUFFERS, "offloads": True, "memory_mib": 1536, "cc": "bbr"}
    asked |= {"duration_s": 2.5}
    rates = {}
    for mib in (4, 256):
        done = lab.run(describe(wide, wide, host_tcp_memory_mib=mib, kernel=kernel, **asked))
        pools = done.json("env.json")["sysctls"]
        assert pools["target"]["net.ipv4.tcp_host_mem"].split()[2] == str(mib * 256)
        rates[mib] = done.goodput_bps
    print(rates)
    assert rates[4] < 0.5 * rates[256] and rates[256] > 250e6


def test_a_pool_of_its_own_cannot_be_given_while_there_are_sockets(lab: Lab) -> None:
    script = """unshare -n sh -c '
ip link set lo up
iperf3 -s & server=$!; sleep 0.5
sysctl -w "net.ipv4.tcp_host_mem=100 200 300"
grep TCP: /proc/self/net/sockstat
kill $server; sleep 1
sysctl -w "net.ipv4.tcp_host_mem=100 200 300"; cat /proc/sys/net/ipv4/tcp_host_mem'"""
    log = lab.command(script).log

    assert "busy" in log
    assert "100\t200\t300" in log


# -- programs' own costs

TWO_PROGRAMS = """
cat >/tmp/calls.py <<'END'
import os, sys, time
null, block = os.open("/dev/null", os.O_WRONLY), bytes(int(sys.argv[2]))
before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
for _ in range(1000): os.write(null, block)
after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
print(sys.argv[1], (after - before) / 1000, flush=True)
END
unshare -n sh -c '
pays() { sh -c "echo $1 >/proc/self/net/program_cost && exec python3 -S /tmp/calls.py $2"; }
pays "large 3000 500" "large 8000"
pays "small 700 0" "small 100"
python3 -S /tmp/calls.py usual 100
sh -c "echo parent 2000 0 >/proc/self/net/program_cost; python3 -S /tmp/calls.py child 1; true"
cat /proc/net/program_cost'
cat /proc/net/program_cost
echo "no numbers" >/proc/net/program_cost || echo refused
"""


def test_each_program_on_a_host_pays_its_own_costs_and_its_children_do(lab: Lab) -> None:
    """1,000 writes each. The look at the clock adds its own call to 1,000."""
    done = lab.command(TWO_PROGRAMS, syscall_cost_us=5, cpus=CpuModel(host_cpus=1))

    spent = {
        words[0]: float(words[1])
        for words in map(str.split, done.log.splitlines())
        if len(words) == 2 and words[0] in ("large", "small", "usual", "child")
    }
    expected = {"large": 3000 + 8000 * 0.5, "small": 700, "usual": 5000, "child": 2000}
    assert spent == pytest.approx(expected, rel=0.01)
    charged = {
        words[0]: dict(zip(words[1::2], map(int, words[2::2]), strict=True))
        for words in map(str.split, done.log.splitlines())
        if words[1:2] == ["call_ns"]
    }
    assert set(charged) == {"large", "small", "parent"}
    for program in charged.values():
        exact = program["call_ns"] * program["calls"] + program["byte_ps"] * program["bytes"] / 1000
        assert program["busy_ns"] == pytest.approx(exact, abs=program["calls"])
    assert charged["large"]["bytes"] > 8_000_000 and charged["large"]["calls"] > 1000
    assert "refused" in done.log


def test_a_run_charges_its_programs_as_asked_and_says_so(lab: Lab) -> None:
    costs = {
        "iperf3/sender": {"call_ns": 900, "byte_ps": 130},
        "gost+ws/near": {"call_ns": 3000, "byte_ps": 250},
    }
    way, asked = direction(rate_bps=30_000_000), {"tunnel": "gost+ws", "duration_s": 1.0}
    run = describe(way, way, **asked, costs_of="made up", program_costs=costs)

    done = lab.run(run)
    charged = done.json("env.json")["program_costs"]
    assert set(charged["client"]) == {"iperf3/sender", "gost+ws/near"}
    assert charged["target"] == {}
    for name, cost in costs.items():
        used = charged["client"][name]
        assert {key: used[key] for key in cost} == cost
        # iperf3 3.18 writes 128 KiB at once.
        assert used["bytes"] > 2_000_000 and used["calls"] > 20
        # a replay by hand pays, too
        assert f"{name} {cost['call_ns']} {cost['byte_ps']}" in done.commands
