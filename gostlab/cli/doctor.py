# SPDX-License-Identifier: MIT
"""Check which of gostlab's parts are present, which are missing, and what to do.

Nothing is changed; the sandbox's kernel is booted once, for a fraction of a second. Only Python's
standard library is used, because the doctor must work if the set-up failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from gostlab import sandbox, startup
from gostlab.install import locate, rootfs, shared_install
from gostlab.install import main as setup
from gostlab.registry import folders
from gostlab.registry.iperf3_versions import OWN
from gostlab.registry.tunnels import GOST, tunnel_kinds, tunnel_packages
from gostlab.sandbox import host_limits, uml
from gostlab.sandbox.rootfs import root_without_run
from gostlab.spec.cpu_model import MachineModel

SETUP = "run ./lab setup"
BOOT_MIB = 448  # memory of a small run
BOOT_LIMIT_S = 30.0
RESULTS_BYTES = 500_000_000

State = Literal["there", "missing", "absent"]


@dataclass(frozen=True)
class Finding:
    """Represent the state of one part.

    `missing`: gostlab does not work without it; `absent`: it does.
    """

    part: str
    state: State
    detail: str
    to_do: str = ""


def check_parts() -> list[Finding]:
    """Check every part, in the order in which gostlab needs them."""
    parts = locate.find_parts()
    in_root = _is_in_root()
    return [
        *([] if folders.IS_PACKAGE else [_python()]),
        *([] if in_root else [_packages(), _iproute2(parts), *_iperf3(parts)]),
        *_own_root(),
        *_kernel(parts),
        *_shared(),
        _tunnel(parts),
        _gost(parts),
        *([] if in_root else _other_tunnels()),
        _memory(),
        _isolation(),
        _disk(),
        _cores(),
        _root(),
        _host_netem(),
    ]


def _judged(part: str, is_there: bool, detail: str, to_do: str) -> Finding:
    """Return a finding that a part is there, or missing with advice."""
    return Finding(part, "there", detail) if is_there else Finding(part, "missing", detail, to_do)


def _is_in_root() -> bool:
    """Return whether a run's programs are in the sandbox's root and not this machine's."""
    return rootfs.PACKED.is_file() or os.geteuid() != 0


def _python() -> Finding:
    """Check the environment with the Python packages that the lab imports."""
    python = locate.find_python()
    return _judged("python", python is not None, str(python or "no environment"), SETUP)


def _packages() -> Finding:
    wanted, has_dpkg = [*setup.LAB_PACKAGES, *tunnel_packages()], shutil.which("dpkg-query")
    missing = setup.missing_packages(wanted) if has_dpkg else setup.missing_programs()
    if missing:
        return Finding("packages", "missing", f"not installed: {' '.join(missing)}", SETUP)
    ask: list[str | Path] = [sys.executable, "-c", "import mininet.net as net; print(net.VERSION)"]
    mininet = re.fullmatch(r"[\d.]+\w*", locate.read_output(ask).strip())
    if mininet is None:
        detail = f"{sys.executable} has no Mininet, which only --machine native needs"
        to_do = "for that: python3 -m venv --system-site-packages, after apt-get install mininet"
        return Finding("packages", "absent", detail, to_do)
    iperf3 = re.search(r"iperf ([\d.]+)", locate.read_output(["iperf3", "--version"]))
    return Finding(
        "packages",
        "there",
        f"Mininet {mininet[0]}, iperf3 {iperf3[1] if iperf3 else '?'}, "
        f"Python {platform.python_version()}",
    )


def _iproute2(parts: locate.Parts) -> Finding:
    iproute2, oldest = parts.iproute2, locate.format_version(locate.OLDEST_IPROUTE2)
    where = str(iproute2.dirs[0].parent) if iproute2.dirs else "the system's"
    detail = f"{iproute2.version} ({where})"
    if not iproute2.is_new_enough:
        detail = f"the system's is {iproute2.version}, and netem's seed needs {oldest}"
    return _judged("iproute2", iproute2.is_new_enough, detail, SETUP)


def _iperf3(parts: locate.Parts) -> list[Finding]:
    findings = [
        Finding("iperf3", "there", f"{one.version} ({one.path})") for one in parts.iperf3.values()
    ]
    required = [version for version, build in OWN.items() if not build.may_lack]
    if missing := ", ".join(version for version in required if version not in parts.iperf3):
        findings.append(Finding("iperf3", "missing", f"the lab's own {missing}", SETUP))
    return findings


def _own_root() -> list[Finding]:
    """Check the root file system that sandboxes boot on."""
    part = "sandbox root"
    try:
        root = rootfs.require_root()
    except locate.MissingPart as complaint:
        detail, _, to_do = str(complaint).partition(": ")
        return [Finding(part, "missing", detail, to_do)]
    return [Finding(part, "there", f"{rootfs.root_label(root)} ({root.tree})")]


def _kernel(parts: locate.Parts) -> list[Finding]:
    try:
        kernel = locate.require_kernel(parts)
    except locate.MissingPart as complaint:
        detail, _, to_do = str(complaint).rpartition(": ")
        return [Finding("sandbox kernel", "missing", detail, to_do)]
    record = locate.kernel_record(kernel)
    detail = f"{record.get('version')}, HZ {record.get('hz')} ({kernel})"
    return [Finding("sandbox kernel", "there", detail), _boots(kernel)]


def _boots(kernel: Path) -> Finding:
    part = "sandbox boots"
    started = time.monotonic()
    try:
        root = root_without_run()
        with tempfile.TemporaryDirectory(prefix="gostlab-doctor-") as scratch:
            guest = uml.boot(
                kernel,
                Path(scratch),
                ["/bin/true"],
                MachineModel(BOOT_MIB),
                keep=[kernel.parent],
                cpu=sandbox.usable_cpus()[0],
                limit_s=BOOT_LIMIT_S,
                root=root,
                trial=True,
            )
            guest.wait()
            booted = Path(scratch, "exit").exists()
            log = Path(scratch, "log.txt").read_text(encoding="utf-8", errors="replace").strip()
    except ImportError as error:  # a Python package is not installed yet
        return Finding(part, "missing", f"not tried: {error}", SETUP)
    except sandbox.CannotBoot as error:
        cause, _, to_do = str(error).partition(": ")
        return Finding(part, "missing", cause, to_do)
    except (sandbox.MachineError, locate.MissingPart, OSError) as error:
        cause, _, to_do = str(error).rpartition(": ")
        return Finding(part, "missing", cause or to_do, to_do if cause else "")
    if not booted:
        lines = [line for line in log.splitlines() if "Kernel panic" not in line] or [log]
        reason = guest.complaint or lines[-1] or "and it said nothing"
        return Finding(part, "missing", f"it ended without its first process: {reason}")
    took_s = time.monotonic() - started
    return Finding(
        part,
        "there",
        f"and powers off again in {took_s:.2f} s; a guest's memory is a file in {guest.memory}",
    )


def _shared() -> list[Finding]:
    """Check the parts that root built for all users of this machine."""
    folder = shared_install.system_folder()
    if folder is None or not folder.is_dir():
        return []
    name = "parts for all users"
    untrusted = [shared_install.why_not_trusted(folder / part) for part in shared_install.PARTS]
    complaint = next(
        (message for message in untrusted if message and "No such file" not in message), None
    )
    if complaint:
        to_do = f"root: chown -R root {folder}; chmod -R go-w {folder}"
        return [Finding(name, "absent", f"passed over: {complaint}", to_do)]
    return [Finding(name, "there", str(folder))]


def _tunnel(parts: locate.Parts) -> Finding:
    try:
        tunnel = locate.tunnel_binary(parts)
    except locate.MissingPart:
        return Finding("tunnel", "missing", "neither GOST nor the lab's relay", SETUP)
    return Finding(
        "tunnel", "there", f"{tunnel.version}, SHA-256 {tunnel.sha256[:12]}… ({tunnel.path})"
    )


def _gost(parts: locate.Parts) -> Finding:
    if parts.gost is not None:
        return Finding("GOST", "there", f"{parts.gost_says} ({parts.gost}: {parts.tunnel_why})")
    return Finding(
        "GOST",
        "absent",
        "the lab's relay speaks its protocol; results name it",
        "put a GOST 3 on PATH, or give --gost PATH",
    )


def _other_tunnels() -> list[Finding]:
    """Check the programs of tunnels that do not use GOST."""
    findings, programs = [], locate.find_programs()
    for tunnel in dict.fromkeys(tunnel_kinds().values()):
        if tunnel.is_direct or tunnel.program == GOST:
            continue
        program, name = locate.tunnel_program(tunnel, None, programs), f"tunnel {tunnel.name}"
        if program is None:
            missing = [one for one in tunnel.programs if locate.find_program(one, programs) is None]
            findings.append(Finding(name, "missing", f"no program {', '.join(missing)}", SETUP))
        else:
            findings.append(Finding(name, "there", f"{program.version} ({program.path})"))
    return findings


def _memory() -> Finding:
    try:
        left = host_limits.available_memory()
    except ImportError:
        return Finding("memory", "absent", "not looked at before the packages are there", SETUP)
    to_do = f"a small run's sandbox takes {BOOT_MIB} MiB: end something, or raise the limit"
    detail = f"{left.free_mib / 1024:.1f} GiB available to {left.limited_by}"
    return _judged("memory", left.free_mib >= BOOT_MIB, detail, to_do)


def _isolation() -> Finding:
    """Check how this kernel isolates a sandbox."""
    try:
        isolation = uml.available_isolation()
    except ImportError:
        return Finding("isolation", "absent", "not looked at before the packages are there", SETUP)
    if isolation.reads_all:
        to_do = "run as an ordinary user, or on a kernel with Landlock (SECURITY.md)"
        return Finding("isolation", "absent", str(isolation), to_do)
    if isolation.namespaces:
        return Finding("isolation", "there", str(isolation))
    return Finding(
        "isolation", "absent", f"{isolation}; no namespaces here", "SECURITY.md says what they keep"
    )


def _disk() -> Finding:
    cache = folders.cache_folder()
    folder = next(candidate for candidate in (cache, *cache.parents) if candidate.exists())
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1024**3:.1f} GiB free at {folder}"
    return _judged("disk", free >= RESULTS_BYTES, detail, "make room")


def _cores() -> Finding:
    usable = len(os.sched_getaffinity(0))
    try:
        allowed = host_limits.cpus_allowed()
    except ImportError:
        allowed = None
    fewer = allowed is not None and allowed < usable
    limit = f", and the control group has time for {allowed}" if fewer else ""
    return Finding("cores", "there", f"{usable}{limit}: so many sandboxes side by side")


def _root() -> Finding:
    if os.geteuid() == 0:
        return Finding("root", "there", "sandboxes do not need it, --machine native does")
    return Finding("root", "absent", "only --machine native needs it", "for that: sudo ./lab run …")


def _host_netem() -> Finding:
    host = f"Linux {platform.release()}"
    if sandbox.has_netem(Path("/"), platform.release()):
        return Finding("host's netem", "there", f"{host}: --machine native can shape links")
    return Finding("host's netem", "absent", f"{host} has no sch_netem; sandboxes have their own")


def format_findings(findings: Sequence[Finding], width: int) -> str:
    """Format the findings for a person: part, state, detail and advice."""
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
    """Run `./lab doctor`; return 0 if all required parts are there, 1 if one is missing."""
    parser = argparse.ArgumentParser(
        prog="lab doctor",
        description="Say which of the lab's parts are there, which are missing, and what to do.",
        epilog="example: ./lab doctor --json",
    )
    parser.add_argument("--json", action="store_true", help="for a program to read")
    arguments = parser.parse_args(argv)
    startup.raise_on_interrupt()
    findings = check_parts()
    missing = [finding.part for finding in findings if finding.state == "missing"]
    if arguments.json:
        record = {"ok": not missing, "findings": [asdict(finding) for finding in findings]}
        print(json.dumps(record, indent=2, ensure_ascii=False))
    else:
        print(format_findings(findings, max(60, shutil.get_terminal_size((110, 24)).columns)))
        all_present = "everything that the lab needs is there"
        print(f"missing: {', '.join(missing)}" if missing else all_present)
    return 1 if missing else 0


if __name__ == "__main__":
    try:
        startup.unblock()
        startup.open_streams()
        sys.exit(startup.run_and_flush(main))
    except KeyboardInterrupt:
        sys.exit(startup.EXIT_INTERRUPTED)
