"""The doctor: says which of the lab's parts are there, which are missing, and what to do.

It looks and changes nothing; the sandbox's kernel is booted once, for a fraction of a second.
Python's own library alone: it must work where the set-up did not.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from gostlab.declared.iperf3 import OWN
from gostlab.declared.tunnels import GOST, tunnel_kinds, tunnel_packages
from gostlab.setup import parts
from gostlab.setup import steps as setup
from gostlab.setup.kernel_build import boot_time_s

SETUP = "run ./lab setup"
SANDBOX_BYTES = 1024**3  # the memory of one ordinary sandbox, which it fills as it is used
RESULTS_BYTES = 500_000_000

State = Literal["there", "missing", "absent"]


@dataclass(frozen=True)
class Finding:
    """One part. `missing`: the lab does not work without it; `absent`: it does."""

    part: str
    state: State
    detail: str
    to_do: str = ""


def examine() -> list[Finding]:
    """Look at every part, in the order in which the lab needs them."""
    found = parts.find_parts()
    return [
        _packages(),
        _iproute2(found),
        *_iperf3(found),
        *_kernel(found),
        _tunnel(found),
        _gost(found),
        *_other_tunnels(),
        _memory(),
        _memory_files(),
        _disk(),
        _cores(),
        _root(),
        _host_netem(),
    ]


def _packages() -> Finding:
    missing = (
        setup.missing_packages([*setup.LAB_PACKAGES, *tunnel_packages()])
        if shutil.which("dpkg-query")
        else setup.missing_programs()
    )
    if missing:
        return Finding("packages", "missing", f"not installed: {' '.join(missing)}", SETUP)
    mininet = parts.output_of(
        [sys.executable, "-c", "import mininet.net as net; print(net.VERSION)"]
    ).strip()
    iperf3 = re.search(r"iperf ([\d.]+)", parts.output_of(["iperf3", "--version"]))
    return Finding(
        "packages",
        "there",
        f"Mininet {mininet or '?'}, iperf3 {iperf3[1] if iperf3 else '?'}, "
        f"Python {platform.python_version()}",
    )


def _iproute2(found: parts.Parts) -> Finding:
    oldest = ".".join(map(str, parts.OLDEST_IPROUTE2))
    if parts.version_tuple(found.iproute2_version or "0") >= parts.OLDEST_IPROUTE2:
        where = str(found.iproute2_dirs[0].parent) if found.iproute2_dirs else "the system's"
        return Finding("iproute2", "there", f"{found.iproute2_version} ({where})")
    return Finding(
        "iproute2",
        "missing",
        f"the system's is {found.iproute2_version}, and netem's seed needs {oldest}",
        SETUP,
    )


def _iperf3(found: parts.Parts) -> list[Finding]:
    there = [
        Finding("iperf3", "there", f"{one.version} ({one.path})") for one in found.iperf3.values()
    ]
    missing = ", ".join(version for version in OWN if version not in found.iperf3)
    if missing:
        there.append(Finding("iperf3", "missing", f"the lab's own {missing}", SETUP))
    return there


def _kernel(found: parts.Parts) -> list[Finding]:
    try:
        kernel = parts.require_kernel(found)
    except parts.MissingPart as complaint:
        detail, _, to_do = str(complaint).rpartition(": ")
        return [Finding("sandbox kernel", "missing", detail, to_do)]
    record = parts.kernel_record(kernel)
    lines = [
        Finding(
            "sandbox kernel", "there", f"{record.get('version')}, HZ {record.get('hz')} ({kernel})"
        )
    ]
    with tempfile.TemporaryDirectory(prefix="gostlab-doctor-") as scratch:
        boot_s = boot_time_s(kernel, Path(scratch))
    if boot_s is None:
        lines.append(
            Finding(
                "sandbox boots",
                "missing",
                "it did not get to its first process within 30 s",
                f"see what it says: {kernel} mem=64M",
            )
        )
    else:
        lines.append(Finding("sandbox boots", "there", f"and powers off again in {boot_s:.2f} s"))
    return lines


def _tunnel(found: parts.Parts) -> Finding:
    try:
        tunnel = parts.tunnel_binary(found)
    except parts.MissingPart:
        return Finding("tunnel", "missing", "neither GOST nor the lab's relay", SETUP)
    return Finding(
        "tunnel", "there", f"{tunnel.version}, SHA-256 {tunnel.sha256[:12]}… ({tunnel.path})"
    )


def _gost(found: parts.Parts) -> Finding:
    if found.gost is not None:
        return Finding("GOST", "there", f"{found.gost_version} ({found.gost})")
    return Finding(
        "GOST",
        "absent",
        "the lab's relay speaks its protocol; results name it",
        "put a GOST 3 on PATH, or give --gost PATH",
    )


def _other_tunnels() -> list[Finding]:
    """The programs of tunnels that are not GOST's."""
    findings = []
    for kind in dict.fromkeys(tunnel_kinds().values()):
        if kind.is_direct or kind.program == GOST:
            continue
        program, name = parts.tunnel_program(kind, None), f"tunnel {kind.name}"
        if program is None:
            findings.append(Finding(name, "missing", f"no program {kind.program}", SETUP))
        else:
            findings.append(Finding(name, "there", f"{program.version} ({program.path})"))
    return findings


def _memory() -> Finding:
    text = Path("/proc/meminfo").read_text(encoding="ascii")
    kib = {
        name: int(count) for name, count in re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)
    }
    free, total = kib.get("MemAvailable", 0) * 1024, kib.get("MemTotal", 0) * 1024
    return Finding(
        "memory",
        "there" if free >= SANDBOX_BYTES else "missing",
        f"{_gib(free)} available of {_gib(total)}",
        "" if free >= SANDBOX_BYTES else f"a sandbox takes {_gib(SANDBOX_BYTES)}: end something",
    )


def _memory_files() -> Finding:
    """User-Mode Linux keeps a guest's memory in a deleted file: in /dev/shm, unless the sandbox has
    a file system of its own.
    """
    try:
        from gostlab.machine.sandbox import (
            available_isolation,
        )  # needs the packages, which may be what is missing
    except ImportError:
        isolation = None
    else:
        isolation = available_isolation()
    if isolation is not None and isolation.namespaces:
        return Finding(
            "isolation", "there", f"{isolation}; a guest's memory is in a file system of its own"
        )
    folder = Path("/dev/shm")
    free = shutil.disk_usage(folder).free if folder.is_dir() else 0
    ok = free >= SANDBOX_BYTES and os.access(folder, os.W_OK)
    return Finding(
        "memory files",
        "there" if ok else "missing",
        f"{_gib(free)} free in {folder}",
        "" if ok else f"a sandbox keeps 1 GiB there: mount -o remount,size=2G {folder}",
    )


def _disk() -> Finding:
    folder = parts.cache_folder()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return Finding(
        "disk",
        "there" if free >= RESULTS_BYTES else "missing",
        f"{_gib(free)} free at {folder}",
        "" if free >= RESULTS_BYTES else "make room",
    )


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0))
    return Finding("cores", "there", f"{usable}: so many sandboxes side by side")


def _root() -> Finding:
    if os.geteuid() == 0:
        return Finding("root", "there", "sandboxes do not need it, --machine native does")
    return Finding("root", "absent", "only --machine native needs it", "for that: sudo ./lab run …")


def _host_netem() -> Finding:
    host = f"Linux {platform.release()}"
    if has_netem(Path("/"), platform.release()):
        return Finding("host's netem", "there", f"{host}: --machine native can shape links")
    return Finding("host's netem", "absent", f"{host} has no sch_netem; sandboxes have their own")


def has_netem(root: Path, release: str) -> bool:
    """Does a kernel have netem, built in or as a module?

    Only looks at the files under `root`: asking tc would load the module.
    """
    if (root / "sys/module/sch_netem").is_dir():
        return True
    modules = root / "lib/modules" / release
    for name in ("modules.builtin", "modules.dep"):
        try:
            if "/sch_netem.ko" in (modules / name).read_text(encoding="utf-8"):
                return True
        except OSError:
            continue
    try:
        config = gzip.decompress((root / "proc/config.gz").read_bytes()).decode()
    except OSError:
        return False
    # =m without the module's file is of no use.
    return "CONFIG_NET_SCH_NETEM=y\n" in config


def _gib(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB"


def table(findings: Sequence[Finding], width: int) -> str:
    """The findings for a person: part, state, and under it what to do."""
    column = max(len(finding.part) for finding in findings)
    lines = []
    for finding in findings:
        lines += textwrap.wrap(
            f"{finding.part:{column}}  {finding.state:7}  {finding.detail}",
            width,
            subsequent_indent=" " * (column + 11),
            break_long_words=False,
            break_on_hyphens=False,
        )
        if finding.to_do:
            lines.append(f"{'':{column + 11}}→ {finding.to_do}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """`./lab doctor`. Exit status: 0 all that the lab needs is there, 1 something is missing."""
    parser = argparse.ArgumentParser(
        prog="lab doctor",
        description="Say which of the lab's parts are there, which are missing, and what to do.",
        epilog="example: ./lab doctor --json",
    )
    parser.add_argument("--json", action="store_true", help="for a program to read")
    arguments = parser.parse_args(argv)
    findings = examine()
    missing = [finding.part for finding in findings if finding.state == "missing"]
    if arguments.json:
        record = {"ok": not missing, "findings": [asdict(finding) for finding in findings]}
        print(json.dumps(record, indent=2, ensure_ascii=False))
    else:
        print(table(findings, max(60, shutil.get_terminal_size((110, 24)).columns)))
        print(
            f"missing: {', '.join(missing)}"
            if missing
            else "everything that the lab needs is there"
        )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
