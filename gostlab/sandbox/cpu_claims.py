"""Which CPUs a process takes, so that several on one machine do not all take the first.

A sandbox is pinned to one CPU. Several `./lab exec` or shards on a machine (GNU parallel, a
job array without a cpuset) choose for themselves. A claim is a name in the
abstract UNIX socket namespace: one process has it, it leaves no file, and it ends with the process.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from gostlab.sandbox import usable_cpus
from gostlab.sandbox.host_limits import cpus_allowed

POLL_S = 0.2


@contextmanager
def claimed_cpus(count: int | None) -> Iterator[list[int]]:
    """So many of the CPUs that this process may use, or all, but no more than its control group
    has time for: those first that no other process of this user has claimed. Where all are claimed
    they are shared.
    """
    usable = list(usable_cpus())
    count = cpus_allowed() if count is None else count
    with ExitStack() as claims:
        free: list[int] = []
        taken: list[int] = []
        for cpu in usable:
            if count is not None and len(free) >= count:
                taken.append(cpu)
                continue
            (free if claims.enter_context(claim(f"cpu-{cpu}")) else taken).append(cpu)
        # Where all are taken, not every process adds to the first one's load.
        start = os.getpid() % max(1, len(taken))
        yield [*free, *taken[start:], *taken[:start]][:count]


@contextmanager
def alone_on_the_real_clock() -> Iterator[None]:
    """Wait until no other process of this user has a run on the real clock here: what one CPU
    cannot carry distorts such a run.
    """
    while True:
        with claim("real-clock") as is_mine:
            if is_mine:
                yield
                return
        time.sleep(POLL_S)


@contextmanager
def claim(what: str) -> Iterator[bool]:
    """Whether this process has a name of its user's on this machine; it has it until it leaves."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claimed:
        try:
            claimed.bind(f"\0gostlab-{os.geteuid()}-{what}")
        except OSError:
            yield False
        else:
            yield True
