# SPDX-License-Identifier: MIT
"""Jobs of one system call each that come at random: how long each waits for its host's CPUs.

Run in the guest: queue_jobs.py CPUS LOAD COST_US JOBS SEED MADE [packets]. Prints the mean wait in
units of the cost of the first MADE jobs, as the kernel gave it and as the queue's recursion gives it
for the same arrivals; what the recursion gives for all JOBS; and the share of the first MADE that
waited within a thousandth of the cost as long as it says.

With `packets` every other job, by a coin, is a packet that another host sends and this one's kernel
receives, at the same cost. It comes as much later as the sender's sleep costs, on a host that has a
CPU for each sender.
"""

import ctypes
import json
import mmap
import os
import random
import socket
import subprocess
import sys
import time

WORKERS = 48
SENDER = """
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
ip netns add far
ip netns exec far sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.host.cpus=64
ip link add name here address 02:00:00:00:00:01 type veth peer name there netns far
ip addr add 10.9.0.1/24 dev here
ip link set here up
ip netns exec far ip addr add 10.9.0.2/24 dev there
ip netns exec far ip link set there up
ip netns exec far ip neigh replace 10.9.0.1 lladdr 02:00:00:00:00:01 dev there nud permanent
sysctl -qw net.host.packet_ns={cost_ns}
"""
CLONE_NEWNET = 0x40000000
cpus, drawn, seed, jobs = (int(sys.argv[i]) for i in (1, 4, 5, 6))
with_packets = "packets" in sys.argv
load, cost_ns = float(sys.argv[2]), 1000 * float(sys.argv[3])


class Timespec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]


libc = ctypes.CDLL(None)
libc.prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: to the ns
draw = random.Random(seed)
gap_ns = cost_ns / (load * cpus)
at = 0.0
arrivals = []
for _ in range(drawn):
    at += draw.expovariate(1 / gap_ns)
    arrivals.append(int(at))
is_packet = [with_packets and draw.random() < 0.5 for _ in range(drawn)]
if with_packets:
    subprocess.run(["sh", "-e"], input=SENDER.format(cost_ns=int(cost_ns)), text=True, check=True)
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("10.9.0.1", 9))
ended = mmap.mmap(-1, 8 * jobs)
base_ns = time.monotonic_ns() + 2_000_000_000


def work(first):
    times = (ctypes.c_int64 * jobs).from_buffer(ended)
    until = Timespec()
    now, sleep, address = time.monotonic_ns, libc.clock_nanosleep, ctypes.byref(until)
    for i in range(first, jobs, WORKERS):
        times[i] = 1  # its page is there before it counts
    for i in range(first, jobs, WORKERS):
        if is_packet[i]:
            continue
        until.sec, until.nsec = divmod(base_ns + arrivals[i], 1_000_000_000)
        sleep(1, 1, address, None)
        times[i] = now()


def send(first):
    with open("/run/netns/far") as far:
        if libc.setns(far.fileno(), CLONE_NEWNET):
            raise OSError("setns")
    until = Timespec()
    sleep, address = libc.clock_nanosleep, ctypes.byref(until)
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.connect(("10.9.0.1", 9))
    for i in range(first, jobs, WORKERS):
        if is_packet[i]:
            until.sec, until.nsec = divmod(base_ns + arrivals[i], 1_000_000_000)
            sleep(1, 1, address, None)
            out.send(b"x")


pids = []
for does in [work, send] if with_packets else [work]:
    for first in range(WORKERS):
        pid = os.fork()
        if pid == 0:
            does(first)
            os._exit(0)
        pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)

free = [0.0] * cpus
comes = [at + cost_ns * packet for at, packet in zip(arrivals, is_packet, strict=True)]
waits = {}
for at, i in sorted(zip(comes, range(drawn), strict=True)):
    cpu = min(range(cpus), key=free.__getitem__)
    start = max(at, free[cpu])
    free[cpu] = start + cost_ns
    waits[i] = (start - at) / cost_ns
predicted = [waits[i] for i in range(drawn) if not is_packet[i]]
times = (ctypes.c_int64 * jobs).from_buffer(ended)
measured = [
    (times[i] - base_ns - arrivals[i]) / cost_ns - 1 for i in range(jobs) if not is_packet[i]
]
as_predicted = [
    abs(one - other) < 0.001
    for one, other in zip(measured, predicted[: len(measured)], strict=True)
]
found = {
    "measured": measured,
    "recursion": predicted[: len(measured)],
    "of all": predicted,
    "as predicted": as_predicted,
}
print(json.dumps({name: sum(each) / len(each) for name, each in found.items()}))
