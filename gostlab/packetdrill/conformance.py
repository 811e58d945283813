"""The scripts on a kernel of the sandbox, as many at a time as there are CPUs, and why some fail.

What a script came to is kept in RESULTS/conform/KERNEL, a line as soon as it is known: what is
there is not run again.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab import results, safe_read, sandbox
from gostlab.install.locate import version_tuple
from gostlab.sandbox import uml
from gostlab.sandbox.cpu_claims import claimed_cpus
from gostlab.sandbox.rootfs import plain_root
from gostlab.spec.cpu_model import CpuModel, MachineModel

# A call that costs nothing lets packetdrill spin for ever: it polls.
SYSCALL_US = 1.0
MEMORY_MIB = 512
LIMIT_S = 60.0  # of CPU time, for each script
POLL_S = 0.2
# The slow machines' tolerance of the kernel's own ksft_runner.sh.
TOLERANT = "--tolerance_usecs=14000"
FOUND, PROGRAM = "found.jsonl", "packetdrill"

NEWER_TCP_INFO = "assertion len >= sizeof(struct _tcp_info) failed"
# Why a script fails on every kernel here, where its words do not tell; each looked at once.
KNOWN = {
    "tcp_advmss_pmtu_ipv4.pkt": "Linux: the source that has this script has not its mending:"
    " ipv4_default_advmss() takes the path's MTU",
    "tcp_advmss_pmtu_ipv6.pkt": "Linux: the same of ip6_default_advmss()",
    "tcp_tcp_info_tcp-info-sndbuf-limited.pkt": "timing: busy times are counted in ticks, of 4 ms"
    " here and 1 ms in the script's own configuration",
}


@dataclass(frozen=True)
class ScriptResult:
    """What a script came to. why: of one that fails, its kind and what is known: timing, options
    (that this kernel was built without), Linux (its own source fails it), older (the script is of a
    newer Linux than the kernel), or unexplained.
    """

    name: str
    passed: bool
    why: str = ""

    @property
    def kind(self) -> str:
        return "passed" if self.passed else self.why.partition(":")[0]


@dataclass(frozen=True)
class Conformed:
    kernel: str
    version: str
    found: tuple[ScriptResult, ...]

    def count(self, kind: str) -> int:
        return sum(each.kind == kind for each in self.found)


@dataclass(frozen=True)
class ConformanceOptions:
    kernel: str
    file: Path  # the kernel
    version: str
    packetdrill: Path
    scripts: Path
    scripts_version: str  # of the source that they are of
    names: Sequence[str]


def conform(
    order: ConformanceOptions, folder: Path, *, jobs: int | None, say: Callable[[str], None]
) -> Conformed:
    """Run what of an order is not known yet. Raises MachineError, ResultsError, OSError."""
    place = folder / "conform" / f"{order.kernel}-{order.version}"
    with results.experiment_lock(folder, f"conform-{order.kernel}", shared=False):
        known = run_scripts(order, order.names, place, [], jobs, say)
        again = [name for name, row in known.items() if "timing error" in row["said"]]
        tolerant = run_scripts(order, sorted(again), place / "tolerant", [TOLERANT], jobs, say)
    passed_then = {name for name, row in tolerant.items() if row["passed"]}
    return Conformed(
        order.kernel,
        order.version,
        tuple(
            ScriptResult(name, known[name]["passed"], why(order, known[name], name in passed_then))
            for name in order.names
        ),
    )


def lines(path: Path) -> list[dict[str, Any]]:
    """The whole rows of a file that a guest may have left, up to the first that is none."""
    found: list[dict[str, Any]] = []
    with suppress(OSError, ValueError):
        for line in safe_read.read_lines(path):
            row = safe_read.decode(line) if line.endswith(b"\n") else None
            if not isinstance(row, dict) or not is_found(row):
                break
            found.append(row)
    return found


def is_found(row: Mapping[str, Any]) -> bool:
    """Return whether a row says how a script went."""
    kinds = {"name": str, "passed": bool, "said": str}
    return all(type(row.get(name)) is kind for name, kind in kinds.items())


def run_scripts(
    order: ConformanceOptions,
    names: Sequence[str],
    place: Path,
    more: Sequence[str],
    jobs: int | None,
    say: Callable[[str], None],
) -> dict[str, dict[str, Any]]:
    """Run what of some scripts is not known yet, dealt out to a guest for each CPU; of each its
    line of found.jsonl.
    """
    place.mkdir(parents=True, exist_ok=True)
    known = {row["name"]: row for row in lines(place / FOUND) if row["name"] in names}
    missing = [name for name in names if name not in known]
    if not missing:
        return known
    with claimed_cpus(jobs) as cpus, ExitStack() as undo:
        guests = []
        for number, cpu in enumerate(cpus[: len(missing)]):
            part = place / f"guest-{number}"
            guest = start_guest(order, missing[number :: len(cpus)], part, more, cpu)
            undo.callback(guest.kill)
            guests.append((guest, part))
        undo.callback(gather, place, [part for _, part in guests])
        began_s = time.monotonic()
        while any(guest.poll() is None for guest, _ in guests):
            rows = [row for _, part in guests for row in lines(part / FOUND)]
            say(progress(order, rows, len(missing), time.monotonic() - began_s))
            time.sleep(POLL_S)
    known = {row["name"]: row for row in lines(place / FOUND) if row["name"] in names}
    if lost := [name for name in names if name not in known]:
        complaints = [guest.complaint for guest, _ in guests if guest.complaint]
        words = complaints[0] if complaints else "its guest ended"
        raise results.ResultsError(f"kernel {order.kernel}: {lost[0]}: {words}")
    return known


def progress(
    order: ConformanceOptions, rows: Sequence[dict[str, Any]], of: int, took_s: float
) -> str:
    """[37/165] kernel 5.10: 35 passed · 120 s left."""
    left = f" · {took_s / len(rows) * (of - len(rows)):.0f} s left" if rows else ""
    passed = sum(row["passed"] for row in rows)
    return f"[{len(rows)}/{of}] kernel {order.kernel}: {passed} passed{left}"


def start_guest(
    order: ConformanceOptions, names: Sequence[str], part: Path, more: Sequence[str], cpu: int
) -> uml.Guest:
    """A guest that runs some scripts. Raises MachineError, OSError."""
    part.mkdir(exist_ok=True)
    (part / FOUND).unlink(missing_ok=True)
    (part / "exit").unlink(missing_ok=True)
    shutil.copy2(order.packetdrill, part / PROGRAM)  # wherever it lies: the guest has its own /tmp
    there = f"{uml.GUEST_FOLDER}/{PROGRAM}"
    root = plain_root(scripts=order.scripts)
    scripts = root.inside("scripts") if root else str(order.scripts)
    asked = {"names": names, "words": more, "packetdrill": there, "scripts": scripts}
    results.write_json(part / "order.json", asked)
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


def gather(place: Path, folders: Sequence[Path]) -> None:
    with (place / FOUND).open("a", encoding="utf-8") as file:
        for part in folders:
            file.writelines(json.dumps(row) + "\n" for row in lines(part / FOUND))


def why(order: ConformanceOptions, row: dict[str, Any], passed_tolerant: bool) -> str:
    """Why a script fails; "" of one that passes."""
    if row["passed"]:
        return ""
    said = str(row["said"])
    script = (order.scripts / row["name"]).read_text(encoding="utf-8", errors="replace")
    for line in said.splitlines():
        missing = line.rpartition("/proc/sys/")[2].partition(":")[0].replace("/", ".")
        if "cannot stat /proc/sys/" in line and missing in script:
            return f"options: this kernel has no {missing}"
    if passed_tolerant:
        return "timing: passes with the 14 ms of ksft_runner.sh's slow machines (a tick is 4 ms)"
    if row["name"] in KNOWN:
        return KNOWN[row["name"]]
    if NEWER_TCP_INFO in said:
        return "older: packetdrill reads a longer struct tcp_info than this kernel has"
    lines_said = said.splitlines() or [""]
    last = next((line for line in lines_said if row["name"] in line), lines_said[-1])
    last = last.replace(f"{row['name']}:", "line ").replace(row["name"], "the script")
    its, script_is_of = (version_tuple(each)[:2] for each in (order.version, order.scripts_version))
    kind = "older" if its < script_is_of else "unexplained"
    return f"{kind}: {last.strip()[:200]}"
