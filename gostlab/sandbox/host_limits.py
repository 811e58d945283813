"""What this process may have of its machine: memory and CPU time, by control groups and limits.

A container sees its host's memory and CPUs in /proc and may use far less of them. Linux's
Documentation/admin-guide/cgroup-v1 and cgroup-v2 say what the files mean.
"""

import math
import re
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20
UNLIMITED_BYTES = 2**60  # version 1 says "no limit" by a number near 2**63


@dataclass(frozen=True)
class Memory:
    """How much memory is left, and what limits it."""

    free_mib: int
    limited_by: str  # "this machine", "its control group", …


def memory_left(proc: Path = Path("/proc")) -> Memory:
    """The least of what the machine and every control group above this process have left. Files
    that are only cached count as left.
    """
    meminfo = (proc / "meminfo").read_text(encoding="ascii")
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    least = Memory(int(found[1]) // 1024 if found else 0, "this machine")
    for limit_bytes, used_bytes in group_memory(proc):
        left_mib = max(0, limit_bytes - used_bytes) // MIB
        if left_mib < least.free_mib:
            least = Memory(left_mib, "this container or control group")
    return least


def limit_mib(which: int) -> int | None:
    """One of this process's own limits (resource.RLIMIT_AS, its address space; RLIMIT_FSIZE, the
    files that it makes); None: there is none.
    """
    most_bytes, _ = resource.getrlimit(which)
    return None if most_bytes == resource.RLIM_INFINITY else most_bytes // MIB


def cpus_allowed(proc: Path = Path("/proc")) -> int | None:
    """How many CPUs' time the control groups above this process give it, rounded up; None: no such
    limit.
    """
    shares = []
    for group in groups("cpu", proc):
        quota = read_words(group / "cpu.max")
        if not quota:
            quota = read_words(group / "cpu.cfs_quota_us") + read_words(group / "cpu.cfs_period_us")
        if len(quota) == 2 and quota[0].isdigit() and int(quota[1]) > 0:
            shares.append(int(quota[0]) / int(quota[1]))
    return max(1, math.ceil(min(shares))) if shares else None


def group_memory(proc: Path) -> Iterator[tuple[int, int]]:
    """Limit and use, bytes, of every control group above this process that has a limit."""
    for group in groups("memory", proc):
        for limit_file, use_file in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, use = read_words(group / limit_file), read_words(group / use_file)
            if limit and use and limit[0].isdigit() and int(limit[0]) < UNLIMITED_BYTES:
                yield int(limit[0]), max(0, int(use[0]) - cached_bytes(group))


def cached_bytes(group: Path) -> int:
    """Of a group's memory, what holds files that are on a disk too."""
    try:
        text = (group / "memory.stat").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)
    counts = {name: int(count) for name, count in found}
    # version 1 has the sum with the groups below under another name
    return sum(
        counts.get(f"total_{name}", counts.get(name, 0))
        for name in ("inactive_file", "active_file")
    )


def groups(controller: str, proc: Path) -> Iterator[Path]:
    """The control groups that this process is in, of a controller, from its own up to the highest
    that it can see; of both versions.
    """
    own: dict[str, str] = {}
    for line in read_lines(proc / "self/cgroup"):
        number, names, path = line.split(":", 2)
        for name in names.split(",") if names else [""] * (number == "0"):
            own[name] = path
    for line in read_lines(proc / "self/mountinfo"):
        fields, _, kind = line.partition(" - ")
        root, mounted = fields.split()[3:5]
        name = "" if kind.startswith("cgroup2 ") else controller
        is_it = name == "" or (
            kind.startswith("cgroup ") and controller in kind.split()[-1].split(",")
        )
        if not is_it or name not in own:
            continue
        top = Path(mounted)
        below = own[name].removeprefix(root.rstrip("/")).strip("/")
        group = top / below if (top / below).is_dir() else top
        yield from [group, *(above for above in group.parents if above.is_relative_to(top))]


def read_lines(file: Path) -> list[str]:
    """A file's lines; none of one that is not there."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def read_words(file: Path) -> list[str]:
    """A file's words; none of one that is not there."""
    return " ".join(read_lines(file)).split()
