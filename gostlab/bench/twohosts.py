"""Two programs on two CPUs, on this machine and in the sandbox: whether hosts with a CPU each do
what two pinned processes do, once a call costs there what it was measured to cost here.

    python3 -m gostlab.bench.twohosts

One process writes blocks into a pipe, the other reads them. On this machine each is pinned to a CPU
of its own; their CPU time for two sizes of block gives a call's cost, c0 + c1 · bytes (the mean of
writing and reading, as the sandbox has one pair for both). In the sandbox each is a host of one CPU
with these costs. Then the same once more on one CPU for both, with the costs that they have there.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SMALL, LARGE = 1024, 32 * 1024  # bytes of a block
BLOCKS = 10_000
PIPE_BYTES = 1024 * 1024
F_SETPIPE_SZ = 1031  # <linux/fcntl.h>
CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class Pair:
    """What a writer and a reader did together."""

    seconds: float  # from the first block to the last
    cpu_s: float  # of both

    def mbit(self, size: int) -> float:
        """Blocks of so many bytes per second, in Mbit/s."""
        return 8e-6 * size * BLOCKS / self.seconds


def run_pair(size: int, cpus: tuple[int, int] | None) -> Pair:
    """Write and read the blocks here. `cpus`: whose CPU each of the two is pinned to; None: each is
    a host of its own, in a guest.
    """
    reading, writing = os.pipe()
    ctypes.CDLL(None).fcntl(writing, F_SETPIPE_SZ, PIPE_BYTES)
    told, telling = os.pipe()
    began = time.monotonic()
    children = []
    for number, work in enumerate((write_blocks, read_blocks)):
        pid = os.fork()
        if pid == 0:
            if cpus is None:
                if ctypes.CDLL(None).unshare(CLONE_NEWNET):
                    os._exit(1)
            else:
                os.sched_setaffinity(0, {cpus[number]})
            work(writing if number == 0 else reading, size)
            used = resource.getrusage(resource.RUSAGE_SELF)
            os.write(telling, f"{used.ru_utime + used.ru_stime} ".encode())
            os._exit(0)
        children.append(pid)
    if any(os.waitpid(pid, 0)[1] for pid in children):
        raise RuntimeError("a process of the pair failed")
    seconds = time.monotonic() - began
    return Pair(seconds, sum(map(float, os.read(told, 1000).split())))


def write_blocks(pipe: int, size: int) -> None:
    """One end of the pair."""
    block = bytes(size)
    for _ in range(BLOCKS):
        os.write(pipe, block)


def read_blocks(pipe: int, size: int) -> None:
    """The other. A block is read whole: the writer writes whole ones."""
    left = size * BLOCKS
    while left:
        left -= len(os.read(pipe, min(size, left)))


def costs(small: Pair, large: Pair) -> tuple[float, float]:
    """A call's cost: c0 in µs and c1 in ns per byte, by the CPU time of pairs with two sizes."""
    per_call = {size: pair.cpu_s / 2 / BLOCKS for size, pair in ((SMALL, small), (LARGE, large))}
    per_byte_s = max(0.0, (per_call[LARGE] - per_call[SMALL]) / (LARGE - SMALL))
    return 1e6 * (per_call[SMALL] - SMALL * per_byte_s), 1e9 * per_byte_s


def in_sandbox(size: int, call_us: float, byte_ns: float, *, shared: bool) -> Pair:
    """The same pair in a guest whose calls cost so much. Raises RuntimeError or MachineError."""
    from gostlab import machine  # the guest itself needs none of it
    from gostlab.ask.cpu_model import CpuModel
    from gostlab.machine import sandbox
    from gostlab.setup.parts import find_parts, require_kernel

    model = CpuModel(
        host_cpus=0 if shared else 1, byte_cost_ns=round(byte_ns, 3), clock_reads_are_free=True
    )
    with tempfile.TemporaryDirectory(prefix="gostlab-bench-") as folder:
        guest = sandbox.boot(
            require_kernel(find_parts()),
            Path(folder),
            [sys.executable, "-S", str(Path(__file__).resolve()), str(size)],
            sandbox.sandbox_environ(),
            keep=[machine.CHECKOUT],
            cpu=machine.usable_cpus()[0],
            memory_mib=256,
            clock="virtual",
            syscall_cost_us=round(call_us, 3),
            cpu_model=model,
            seed=1,
            limit_s=120,
        )
        guest.wait()
        log = Path(folder, "log.txt").read_text(encoding="utf-8", errors="replace")
    line = next((line for line in log.splitlines() if line.startswith("{")), None)
    if line is None:
        raise RuntimeError(f"the pair did not run in the sandbox: {log.strip()[-300:]}")
    return Pair(**json.loads(line))


def compare() -> Mapping[str, float]:
    """Mbit/s of large blocks: this machine's and the sandbox's, on two CPUs and on one; and the
    costs that they rest on, each taken where it is used: what is written on one CPU and read on
    another is not in that one's cache.
    """
    one, other = sorted(os.sched_getaffinity(0))[:2]
    found: dict[str, float] = {}
    for name, cpus in (("two", (one, other)), ("one", (one, one))):
        small, large = run_pair(SMALL, cpus), run_pair(LARGE, cpus)
        call_us, byte_ns = costs(small, large)
        shared = cpus[0] == cpus[1]
        found |= {
            f"call_us_{name}": call_us,
            f"byte_ns_{name}": byte_ns,
            f"here_{name}": large.mbit(LARGE),
            f"sandbox_{name}": in_sandbox(LARGE, call_us, byte_ns, shared=shared).mbit(LARGE),
        }
    return found


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(vars(run_pair(int(sys.argv[1]), None))), flush=True)
    else:
        for name, value in compare().items():
            print(f"{name} {value:.4g}")
