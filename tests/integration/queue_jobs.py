"""Jobs of one system call each that come at random: how long each waits for its host's CPUs.

Run in the guest: queue_jobs.py CPUS LOAD COST_US JOBS SEED. Prints the mean wait in units of the
cost, as the kernel gave it and as the queue's recursion gives it for the same arrivals.
"""

import ctypes
import json
import mmap
import os
import random
import sys
import time

WORKERS = 48
cpus, jobs, seed = (int(sys.argv[i]) for i in (1, 4, 5))
load, cost_ns = float(sys.argv[2]), 1000 * float(sys.argv[3])


class Timespec(ctypes.Structure):
    _fields_ = [("sec", ctypes.c_long), ("nsec", ctypes.c_long)]


libc = ctypes.CDLL(None)
libc.prctl(29, 1, 0, 0, 0)  # PR_SET_TIMERSLACK: to the ns
draw = random.Random(seed)
gap_ns = cost_ns / (load * cpus)
at = 0.0
arrivals = []
for _ in range(jobs):
    at += draw.expovariate(1 / gap_ns)
    arrivals.append(int(at))
ended = mmap.mmap(-1, 8 * jobs)
base_ns = time.monotonic_ns() + 2_000_000_000


def work(first):
    times = (ctypes.c_int64 * jobs).from_buffer(ended)
    until = Timespec()
    now, sleep, address = time.monotonic_ns, libc.clock_nanosleep, ctypes.byref(until)
    for i in range(first, jobs, WORKERS):
        times[i] = 1  # its page is there before it counts
    for i in range(first, jobs, WORKERS):
        until.sec, until.nsec = divmod(base_ns + arrivals[i], 1_000_000_000)
        sleep(1, 1, address, None)
        times[i] = now()


pids = []
for first in range(WORKERS):
    pid = os.fork()
    if pid == 0:
        work(first)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)

free = [0.0] * cpus
predicted = measured = 0.0
times = (ctypes.c_int64 * jobs).from_buffer(ended)
for i, at in enumerate(arrivals):
    cpu = min(range(cpus), key=free.__getitem__)
    start = max(at, free[cpu])
    free[cpu] = start + cost_ns
    predicted += start - at
    measured += times[i] - base_ns - at - cost_ns
print(json.dumps({"measured": measured / jobs / cost_ns, "recursion": predicted / jobs / cost_ns}))
