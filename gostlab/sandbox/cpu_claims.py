# SPDX-License-Identifier: MIT
"""Claim CPUs, so that several processes on one machine do not all use the first one.

A sandbox is pinned to one CPU. Several `./lab exec` or shards on a machine (GNU parallel, a job
array without a cpuset) choose independently. A claim is a name in the abstract UNIX socket
namespace: it belongs to one process, leaves no file, and ends with the process.
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
    """Yield up to `count` of this process's usable CPUs, all if None.

    There are no more than the quota of its control group. CPUs not claimed by another process of
    this user come first; if all are claimed they are shared.
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
        # If all are taken, processes start at different CPUs to spread the load.
        start = os.getpid() % max(1, len(taken))
        yield [*free, *taken[start:], *taken[:start]][:count]


@contextmanager
def alone_on_the_real_clock() -> Iterator[None]:
    """Wait until no other process of this user has a run on the real clock here.

    A second run on an overloaded CPU would distort the first.
    """
    while True:
        with claim("real-clock") as is_mine:
            if is_mine:
                yield
                return
        time.sleep(POLL_S)


@contextmanager
def claim(name: str) -> Iterator[bool]:
    """Claim a name for this process until the block ends; yield whether that succeeded."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as claim_socket:
        try:
            claim_socket.bind(f"\0gostlab-{os.geteuid()}-{name}")
        except OSError:
            yield False
        else:
            yield True
