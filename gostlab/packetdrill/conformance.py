# SPDX-License-Identifier: MIT
"""Run packetdrill scripts on kernels of the sandbox, in parallel, and classify the failures.

The result of each script is appended to RESULTS/conform/KERNEL at once, and a script with a result
is not run again.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from gostlab import results, safe_read, sandbox
from gostlab.install.locate import version_tuple
from gostlab.sandbox import uml
from gostlab.sandbox.cpu_claims import claimed_cpus
from gostlab.sandbox.rootfs import root_without_run
from gostlab.spec.cpu_model import CpuModel, MachineModel

# With free system calls packetdrill would poll forever.
SYSCALL_US = 1.0
MEMORY_MIB = 512
LIMIT_S = 60.0  # CPU time per script
POLL_S = 0.2
# The kernel's ksft_runner.sh has this tolerance for slow machines.
TOLERANT = "--tolerance_usecs=14000"
FOUND, PROGRAM = "found.jsonl", "packetdrill"

NEWER_TCP_INFO = "assertion len >= sizeof(struct _tcp_info) failed"
# Reasons for failures on every kernel here that the output does not reveal; each was investigated.
KNOWN = {
    "tcp_advmss_pmtu_ipv4.pkt": "Linux: the source that has this script has not its mending:"
    " ipv4_default_advmss() takes the path's MTU",
    "tcp_advmss_pmtu_ipv6.pkt": "Linux: the same of ip6_default_advmss()",
    "tcp_tcp_info_tcp-info-sndbuf-limited.pkt": "timing: busy times are counted in ticks, of 4 ms"
    " here and 1 ms in the script's own configuration",
}


class ScriptRow(TypedDict):
    """A row of found.jsonl, as the guest writes it."""

    name: str
    passed: bool
    said: str  # packetdrill's output


@dataclass(frozen=True)
class ScriptResult:
    """The result of a script.

    `why` of a failure has its type and details: timing, options (of which this kernel was built
    without), Linux (its own source fails the script), older (the script is of a newer Linux than
    the kernel), or unexplained.
    """

    name: str
    passed: bool
    why: str = ""

    @property
    def category(self) -> str:
        return "passed" if self.passed else self.why.partition(":")[0]


@dataclass(frozen=True)
class ConformanceResult:
    kernel: str
    version: str
    results: tuple[ScriptResult, ...]

    def count(self, category: str) -> int:
        return sum(result.category == category for result in self.results)


@dataclass(frozen=True)
class ConformanceOptions:
    kernel: str
    file: Path  # path of the kernel
    version: str
    packetdrill: Path
    scripts: Path
    scripts_version: str  # version of the kernel source with the scripts
    names: Sequence[str]


def conform(
    order: ConformanceOptions, folder: Path, *, jobs: int | None, say: Callable[[str], None]
) -> ConformanceResult:
    """Run an order's scripts without a result. Raises MachineError, ResultsError, OSError."""
    folder_of_kernel = folder / "conform" / f"{order.kernel}-{order.version}"
    with results.experiment_lock(folder, f"conform-{order.kernel}", shared=False):
        known = run_scripts(order, order.names, folder_of_kernel, [], jobs, say)
        again = [name for name, row in known.items() if "timing error" in row["said"]]
        tolerant = run_scripts(
            order, sorted(again), folder_of_kernel / "tolerant", [TOLERANT], jobs, say
        )
    passed_then = {name for name, row in tolerant.items() if row["passed"]}
    return ConformanceResult(
        order.kernel,
        order.version,
        tuple(
            ScriptResult(
                name,
                known[name]["passed"],
                explain_failure(order, known[name], name in passed_then),
            )
            for name in order.names
        ),
    )


def read_rows(path: Path) -> list[ScriptRow]:
    """Return the complete rows of a file that a guest wrote, up to the first damaged one."""
    rows: list[ScriptRow] = []
    with suppress(OSError, ValueError):
        for line in safe_read.read_lines(path):
            row = safe_read.decode(line) if line.endswith(b"\n") else None
            if not isinstance(row, dict):
                break
            if [type(row.get(name)) for name in ("name", "passed", "said")] != [str, bool, str]:
                break
            rows.append(ScriptRow(name=row["name"], passed=row["passed"], said=row["said"]))
    return rows


def run_scripts(
    order: ConformanceOptions,
    names: Sequence[str],
    folder: Path,
    more: Sequence[str],
    jobs: int | None,
    say: Callable[[str], None],
) -> dict[str, ScriptRow]:
    """Run scripts without a result, distributed over one guest per CPU; return rows by script."""
    folder.mkdir(parents=True, exist_ok=True)
    known = {row["name"]: row for row in read_rows(folder / FOUND) if row["name"] in names}
    missing = [name for name in names if name not in known]
    if not missing:
        return known
    with claimed_cpus(jobs) as cpus, ExitStack() as undo:
        guests = []
        for number, cpu in enumerate(cpus[: len(missing)]):
            part = folder / f"guest-{number}"
            guest = start_guest(order, missing[number :: len(cpus)], part, more, cpu)
            undo.callback(guest.kill)
            guests.append((guest, part))
        undo.callback(gather_results, folder, [part for _, part in guests])
        began_s = time.monotonic()
        while any(guest.poll() is None for guest, _ in guests):
            rows = [row for _, part in guests for row in read_rows(part / FOUND)]
            say(progress_line(order, rows, len(missing), time.monotonic() - began_s))
            time.sleep(POLL_S)
    known = {row["name"]: row for row in read_rows(folder / FOUND) if row["name"] in names}
    if lost := [name for name in names if name not in known]:
        complaints = [guest.complaint for guest, _ in guests if guest.complaint]
        message = complaints[0] if complaints else "its guest ended"
        raise results.ResultsError(f"kernel {order.kernel}: {lost[0]}: {message}")
    return known


def progress_line(
    order: ConformanceOptions, rows: Sequence[ScriptRow], of: int, took_s: float
) -> str:
    """Return a progress line such as "[37/165] kernel 5.10: 35 passed · 120 s left"."""
    left = f" · {took_s / len(rows) * (of - len(rows)):.0f} s left" if rows else ""
    passed = sum(row["passed"] for row in rows)
    return f"[{len(rows)}/{of}] kernel {order.kernel}: {passed} passed{left}"


def start_guest(
    order: ConformanceOptions, names: Sequence[str], part: Path, more: Sequence[str], cpu: int
) -> uml.Guest:
    """Start a guest that runs some scripts. Raises MachineError, OSError."""
    part.mkdir(exist_ok=True)
    (part / FOUND).unlink(missing_ok=True)
    (part / "exit").unlink(missing_ok=True)
    # The guest has a separate /tmp, so the program is copied.
    shutil.copy2(order.packetdrill, part / PROGRAM)
    there = f"{uml.GUEST_FOLDER}/{PROGRAM}"
    root = root_without_run(scripts=order.scripts)
    guest_order = {"names": names, "options": more, "packetdrill": there}
    guest_order["scripts"] = root.inside("scripts")
    results.write_json(part / "order.json", guest_order)
    return uml.boot(
        order.file,
        part,
        sandbox.guest_argv(f"{__package__}.in_guest", uml.GUEST_FOLDER),
        MachineModel(
            MEMORY_MIB, syscall_cost_us=SYSCALL_US, cpus=CpuModel(clock_reads_are_free=True)
        ),
        keep=[sandbox.CHECKOUT, order.scripts],
        cpu=cpu,
        limit_s=LIMIT_S * len(names),
        root=root,
    )


def gather_results(folder: Path, folders: Sequence[Path]) -> None:
    with (folder / FOUND).open("a", encoding="utf-8") as file:
        for part in folders:
            file.writelines(json.dumps(row) + "\n" for row in read_rows(part / FOUND))


def explain_failure(order: ConformanceOptions, row: ScriptRow, passed_tolerant: bool) -> str:
    """Return the reason for a script's failure, or "" if it passes."""
    if row["passed"]:
        return ""
    output = str(row["said"])
    script = (order.scripts / row["name"]).read_text(encoding="utf-8", errors="replace")
    for line in output.splitlines():
        missing = line.rpartition("/proc/sys/")[2].partition(":")[0].replace("/", ".")
        if "cannot stat /proc/sys/" in line and missing in script:
            return f"options: this kernel has no {missing}"
    if passed_tolerant:
        return "timing: passes with the 14 ms of ksft_runner.sh's slow machines (a tick is 4 ms)"
    if row["name"] in KNOWN:
        return KNOWN[row["name"]]
    if NEWER_TCP_INFO in output:
        return "older: packetdrill reads a longer struct tcp_info than this kernel has"
    lines_said = output.splitlines() or [""]
    last = next((line for line in lines_said if row["name"] in line), lines_said[-1])
    last = last.replace(f"{row['name']}:", "line ").replace(row["name"], "the script")
    kernel_is_of, script_is_of = (
        version_tuple(version)[:2] for version in (order.version, order.scripts_version)
    )
    failure = "older" if kernel_is_of < script_is_of else "unexplained"
    return f"{failure}: {last.strip()[:200]}"
