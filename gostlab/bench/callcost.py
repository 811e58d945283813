"""What a system call costs a tunnel program on this machine's own kernel: the figure behind the
virtual clock's cost per call.

The relay's near end carries one iperf3 stream over loopback, twice: alone, for its CPU time, and
under strace, which counts its calls and slows it. Both are taken per byte carried, so that the
slower pass need not carry as much. What a call stands for is in it: the kernel's work, the copy,
and the program's own work between two calls.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

SECONDS = 5
ENVIRON = {"GOMAXPROCS": "1", "GODEBUG": "multipathtcp=0"}


def call_us(relay: Path, rate: str, scratch: Path) -> float:
    """CPU µs per system call of the relay's near end at a rate (iperf3's word, like 150M). Needs
    iperf3 and strace.

    Raises OSError, subprocess.SubprocessError or RuntimeError where a program is missing, does not
    start or ends badly.
    """
    with near_end(relay, ()) as (process, port):
        before_s = cpu_s(process.pid)
        carried = load(port, rate)
        cpu_per_byte_s = (cpu_s(process.pid) - before_s) / carried
    counts = scratch / "strace"
    with near_end(relay, ("strace", "-f", "-c", "-o", str(counts))) as (_, port):
        carried = load(port, rate)
    return 1e6 * cpu_per_byte_s / (calls(counts.read_text(encoding="utf-8")) / carried)


@contextmanager
def near_end(relay: Path, prefix: Sequence[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Sink, far end and near end on loopback; the near end's process (or its tracer's) and the port
    that it listens on.
    """
    sink, far, near = free_ports(3)
    ends: list[subprocess.Popen[bytes]] = []

    def start(words: Sequence[str], port: int) -> subprocess.Popen[bytes]:
        ends.append(
            subprocess.Popen(
                words,
                env={**os.environ, **ENVIRON},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
        wait_for(port, ends[-1])
        return ends[-1]

    try:
        start(["iperf3", "-s", "-B", "127.0.0.1", "-p", str(sink)], sink)
        start([str(relay), "-L", f"relay+ws://127.0.0.1:{far}/127.0.0.1:{sink}"], far)
        yield (
            start(
                [
                    *prefix,
                    str(relay),
                    "-L",
                    f"tcp://127.0.0.1:{near}",
                    "-F",
                    f"relay+ws://127.0.0.1:{far}",
                ],
                near,
            ),
            near,
        )
    finally:
        for process in reversed(ends):
            # A tracer that is ended itself lets go and counts nothing: end what it traces.
            for pid in children(process.pid) or [process.pid]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def children(pid: int) -> list[int]:
    """A process's children; of one that is gone, none."""
    try:
        return [
            int(word)
            for word in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        ]
    except OSError:
        return []


def load(port: int, rate: str) -> int:
    """One stream to a port; the bytes that arrived."""
    done = subprocess.run(
        ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-b", rate, "-t", str(SECONDS), "-J"],
        capture_output=True,
        text=True,
        timeout=6 * SECONDS,
        check=False,
    )
    try:
        carried = int(json.loads(done.stdout)["end"]["sum_received"]["bytes"])
    except (ValueError, KeyError) as error:
        raise RuntimeError(
            f"iperf3 through the relay failed: {done.stdout.strip()[-200:] or done.stderr.strip()}"
        ) from error
    if not carried:
        raise RuntimeError("iperf3 carried nothing through the relay")
    return carried


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, s (proc(5): stat's fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def calls(summary: str) -> int:
    """The number of system calls in the last line of `strace -c`."""
    found = re.search(r"^\s*100\.00\s+\S+\s+\S+\s+(\d+).*\btotal$", summary, re.MULTILINE)
    if found is None:
        raise RuntimeError("strace has counted nothing (may it trace here?)")
    return int(found[1])


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


def wait_for(port: int, process: subprocess.Popen[bytes], patience_s: float = 5.0) -> None:
    """Wait until a process listens on a port, without connecting: iperf3's server would take that
    for its test.
    """
    line = f"0100007F:{port:04X} 00000000:0000 0A"
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if line in Path("/proc/net/tcp").read_text(encoding="ascii"):
            return
        if process.poll() is not None:
            break
        time.sleep(0.01)
    raise RuntimeError(f"nothing listens on port {port} of 127.0.0.1: {process.args!r}")
