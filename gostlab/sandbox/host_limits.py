# SPDX-License-Identifier: MIT
"""Read the limits of memory and CPU time of this process: control groups and rlimits.

A container sees its host's memory and CPUs in /proc and may use far less of them. The files are
described in Linux's Documentation/admin-guide/cgroup-v1 and cgroup-v2.
"""

import math
import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

MIB = 2**20
UNLIMITED_BYTES = 2**60  # cgroup v1 expresses "no limit" by a number near 2**63


@dataclass(frozen=True)
class AvailableMemory:
    """The available memory and its limit."""

    free_mib: int
    limited_by: str  # "this machine", "its control group", …


def available_memory(proc: Path = Path("/proc")) -> AvailableMemory:
    """Return the minimum available memory of the machine and all control groups above.

    Files that are only cached count as available.
    """
    meminfo = (proc / "meminfo").read_text(encoding="ascii")
    match = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    tightest = AvailableMemory(int(match[1]) // 1024 if match else 0, "this machine")
    for limit_bytes, used_bytes in group_memory(proc):
        left_mib = max(0, limit_bytes - used_bytes) // MIB
        if left_mib < tightest.free_mib:
            tightest = AvailableMemory(left_mib, "this container or control group")
    return tightest


def limit_mib(which: int) -> int | None:
    """Return an rlimit of this process in MiB, None if it has no limit.

    RLIMIT_AS limits its address space, RLIMIT_FSIZE the size of the files that it writes.
    """
    max_bytes, _ = resource.getrlimit(which)
    return None if max_bytes == resource.RLIM_INFINITY else max_bytes // MIB


def cpus_allowed(proc: Path = Path("/proc")) -> int | None:
    """Return the CPU quota of the control groups above in CPUs, rounded up; None: unlimited."""
    shares = []
    for group in control_groups("cpu", proc):
        quota = read_fields(group / "cpu.max")
        if not quota:
            quota = read_fields(group / "cpu.cfs_quota_us") + read_fields(
                group / "cpu.cfs_period_us"
            )
        if len(quota) == 2 and quota[0].isdigit() and int(quota[1]) > 0:
            shares.append(int(quota[0]) / int(quota[1]))
    return max(1, math.ceil(min(shares))) if shares else None


def group_memory(proc: Path) -> Iterator[tuple[int, int]]:
    """Yield limit and use, in bytes, of every control group above that has a limit."""
    for group, limit_file, use_file in memory_files(proc):
        limit, use = read_fields(limit_file), read_fields(use_file)
        if limit and use and limit[0].isdigit() and int(limit[0]) < UNLIMITED_BYTES:
            yield int(limit[0]), max(0, int(use[0]) - cached_bytes(group))


@lru_cache(maxsize=8)
def memory_files(proc: Path) -> tuple[tuple[Path, Path, Path], ...]:
    """Return the control groups above, each with its files of the memory's limit and use."""
    versions = (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    )
    return tuple(
        (group, group / limit_file, group / use_file)
        for group in control_groups("memory", proc)
        for limit_file, use_file in versions
        if (group / limit_file).is_file()
    )


def cached_bytes(group: Path) -> int:
    """Return the memory of a group that caches files of a disk."""
    try:
        text = (group / "memory.stat").read_text(encoding="ascii")
    except OSError:
        return 0
    entries = re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)
    counts = {name: int(count) for name, count in entries}
    # cgroup v1 has the totals of a group and those below under names with a prefix.
    return sum(
        counts.get(f"total_{name}", counts.get(name, 0))
        for name in ("inactive_file", "active_file")
    )


@lru_cache(maxsize=8)
def control_groups(controller: str, proc: Path) -> tuple[Path, ...]:
    """Return the control groups of a controller from this process's up to the top visible one.

    Both versions of control groups are read. They are looked for once: nobody moves a process to
    another group while it runs, and each sandbox would spend a millisecond on it.
    """
    return tuple(find_control_groups(controller, proc))


def find_control_groups(controller: str, proc: Path) -> Iterator[Path]:
    """Yield what control_groups returns."""
    paths: dict[str, str] = {}
    for line in read_lines(proc / "self/cgroup"):
        number, names, path = line.split(":", 2)
        for name in names.split(",") if names else [""] * (number == "0"):
            paths[name] = path
    for line in read_lines(proc / "self/mountinfo"):
        fields, _, fs_fields = line.partition(" - ")
        root, mounted = fields.split()[3:5]
        name = "" if fs_fields.startswith("cgroup2 ") else controller
        is_hierarchy = name == "" or (
            fs_fields.startswith("cgroup ") and controller in fs_fields.split()[-1].split(",")
        )
        if not is_hierarchy or name not in paths:
            continue
        top = Path(mounted)
        below = paths[name].removeprefix(root.rstrip("/")).strip("/")
        group = top / below if (top / below).is_dir() else top
        yield from [group, *(above for above in group.parents if above.is_relative_to(top))]


def read_lines(file: Path) -> list[str]:
    """Return a file's lines, none if it does not exist."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def read_fields(file: Path) -> list[str]:
    """Return a file's words, none if it does not exist."""
    return " ".join(read_lines(file)).split()
