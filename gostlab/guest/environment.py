"""Provide the environment of a run's commands, and describe it in env.json."""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gostlab import __version__
from gostlab.errors import IS_BUNDLED
from gostlab.guest.network import NetworkError
from gostlab.install.locate import OwnProgram, TunnelBinary, file_sha256
from gostlab.install.parts_json import PartsJson
from gostlab.registry.congestion_controls import shipped_controls
from gostlab.registry.folders import FIRST_IN_ROOT
from gostlab.registry.iperf3_versions import SYSTEM
from gostlab.registry.qdiscs import bottleneck_kinds
from gostlab.spec.compatible_json import JsonObject
from gostlab.spec.cpu_model import CpuModel
from gostlab.spec.run_spec import RunSpec

TCP_MEM = Path("/proc/sys/net/ipv4/tcp_mem")
KERNEL_PARAMETERS = Path("/sys/module/kernel/parameters")
PROGRAM_COST = Path("/proc/self/net/program_cost")


def run_environ(parts: PartsJson) -> dict[str, str]:
    """Return the environment of every command on a node: the lab's iproute2 first."""
    path = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    environ = {
        "PATH": os.pathsep.join([*parts["path_dirs"], path]),
        "LC_ALL": "C.UTF-8",
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        "HOME": "/",
        "TERM": os.environ.get("TERM", "dumb"),
    }
    if tc_lib_dir := parts.get("tc_lib_dir"):
        environ["TC_LIB_DIR"] = tc_lib_dir
    return environ


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder for files that are no results, and remove it on leaving."""
    with tempfile.TemporaryDirectory(prefix="gostlab-") as folder:
        Path(folder).chmod(0o755)  # nginx's worker is another user
        yield Path(folder)


def environment(
    run: RunSpec, programs: RunPrograms, parts: PartsJson, sysctls: Mapping[str, Mapping[str, str]]
) -> JsonObject:
    """Return the contents of env.json about machine, kernel and programs.

    `sysctls` are those of every host. Raises NetworkError if a program cannot be run.
    """
    from mininet.net import VERSION as MININET_VERSION

    return {
        "lab": {"version": __version__, "commit": parts.get("commit")},
        "kernel": platform.release(),
        "kernel_build": platform.version(),
        "hz": kernel_hz(),
        "machine": run.machine,
        "clock": run.clock,
        "syscall_cost_us": installed_syscall_cost_us(),
        "cc": {node: values["net.ipv4.tcp_congestion_control"] for node, values in sysctls.items()},
        "iproute2": iproute2_version(),
        "iperf3": programs.iperf3.version.partition("-")[0],
        "iperf3_program": programs.iperf3.to_json(),
        "mininet": MININET_VERSION,
        "python": platform.python_version(),
        "modules_read": modules_source(),
        **web_programs(run, programs),
        "tunnel": programs.tunnel and programs.tunnel.to_json(),
        **({"modules": parts["modules"]} if parts.get("modules") else {}),
        **({"other_kernel": parts["kernel"]} if parts.get("kernel") else {}),
        "tcp_mem_pages": TCP_MEM.read_text(encoding="ascii").split(),
        "sysctls": sysctls,
        "host": host_below(),
    }


def modules_source() -> str:
    """Return whether all imports came from the one bundle (gostlab.sandbox.python_bundle).

    If not, the samples depend on the number of the lab's files.
    """
    return "together" if IS_BUNDLED else "each from its own file"


@dataclass(frozen=True)
class RunPrograms:
    """The programs of a run's flows and of its tunnel."""

    tunnel: TunnelBinary | None  # program of the tunnel's ends; None without a tunnel
    iperf3: OwnProgram
    nginx: str | None
    irtt: str | None  # measures round trips over UDP; None: the lab's echo does
    files: Mapping[str, str] = field(default_factory=dict)  # folder of each command flow's files


def iperf3_of(run: RunSpec, parts: PartsJson) -> OwnProgram:
    """Return the run's iperf3, the lab's or the system's. Raises NetworkError if it is missing."""
    if run.iperf3 != SYSTEM:
        part = parts.get("iperf3", {}).get(run.iperf3)
        if part is None:
            raise NetworkError(f"iperf3 {run.iperf3}: the lab's own is not there: run ./lab setup")
        return OwnProgram.from_json(part)
    path = shutil.which("iperf3")
    if path is None:
        raise NetworkError("iperf3: none is installed: run ./lab setup")
    version = first_line([path, "--version"]).split()[1]
    return OwnProgram(Path(path), version, file_sha256(Path(path)))


def host_below() -> dict[str, str]:
    """Return the description of the host below the guest, as far as the caller passed it."""
    known = json.loads(os.environ.get("GOSTLAB_HOST", "null")) or {"kernel": platform.release()}
    memory = os.environ.get("GOSTLAB_MEMORY")
    return {**known, "memory": memory} if memory else dict(known)


def web_programs(run: RunSpec, programs: RunPrograms) -> dict[str, str]:
    """Return the versions of server and client if a run has http flows."""
    versions = {}
    if any(flow.traffic.by_nginx for flow in run.flows):
        versions["nginx"] = first_line([programs.nginx or "nginx", "-v"])
    if any(flow.traffic_type == "http" for flow in run.flows):
        versions["wget"] = first_line(["wget", "--version"])
    return versions


def is_own_root() -> bool:
    """Return whether this is a sandbox on the lab's own root, where every program is known."""
    return Path(FIRST_IN_ROOT).exists()


def read_constants() -> None:
    """Read what the results say of every run alike, so that a sandbox that waits has read it."""
    kernel_config()
    shipped_controls()
    for iperf3 in sorted(Path(FIRST_IN_ROOT).parent.glob("iperf3/*/iperf3")):
        file_sha256(iperf3)
    with suppress(NetworkError):
        iproute2_version()


def iproute2_version() -> str:
    """Return the version of the `ip` on PATH. Raises NetworkError."""
    return _iproute2_version(os.environ.get("PATH", ""))


@cache
def _iproute2_version(_path: str) -> str:
    return first_line(["ip", "-V"]).removeprefix("ip utility, iproute2-").split(",")[0]


def first_line(argv: list[str]) -> str:
    """Return the first line that a command prints. Raises NetworkError if it cannot be run."""
    try:
        output = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        ).stdout
    except OSError as error:
        raise NetworkError(f"{argv[0]}: {error.strerror}: run ./lab setup") from error
    return output.strip().splitlines()[0] if output.strip() else ""


def installed_syscall_cost_us() -> float | None:
    """Return the cost of a system call on the virtual clock, or None without this feature."""
    cost_ns = kernel_number("tt_syscall_ns")
    return None if cost_ns is None else cost_ns / 1000


def installed_cpu_model() -> CpuModel:
    """Return the CPU model of the running kernel; defaults without this feature."""
    return CpuModel(
        host_cpus=kernel_number("tt_host_cpus") or 0,
        byte_cost_ns=(kernel_number("tt_byte_ps") or 0) / 1000,
        clock_reads_are_free=kernel_parameter("tt_vdso_clock") == "Y",
    )


def kernel_number(name: str) -> int | None:
    """Return a boot parameter that is a number, or a counter exported like one."""
    value = kernel_parameter(name)
    return None if value is None else int(value)


def kernel_parameter(name: str) -> str | None:
    """Return a boot parameter's value in the kernel, or None if it does not exist."""
    try:
        return (KERNEL_PARAMETERS / name).read_text(encoding="ascii").strip()
    except OSError:
        return None


def check_virtual_clock(run: RunSpec) -> None:
    """Raise NetworkError unless the sandbox's kernel charges calls as requested."""
    if (run.machine, run.clock) != ("sandbox", "virtual"):
        return
    installed_us = installed_syscall_cost_us()
    if installed_us != run.syscall_cost_us:
        raise NetworkError(
            f"system-call cost: requested {run.syscall_cost_us} us, the kernel has"
            f" {installed_us} us"
        )
    if run.program_costs and not PROGRAM_COST.exists():
        raise NetworkError(
            "this kernel knows no costs of a program's own (machine): run ./lab setup"
        )
    requested, installed = CpuModel.of(run), installed_cpu_model()
    if installed != requested:
        raise NetworkError(f"requested {requested}, the kernel has {installed}: run ./lab setup")


def unbuilt_queue(run: RunSpec) -> str:
    """Return which queue of the run the kernel is built without, and a remedy; "" if none."""
    config = kernel_config()
    for declaration in bottleneck_kinds(run.bottleneck, run.queue) if config else ():
        if not re.search(rf"^CONFIG_{declaration.option}=[ym]$", config, re.MULTILINE):
            remedy = (
                f"kernel/kconfig.fragment needs CONFIG_{declaration.option}=y, then ./lab setup"
                " rebuilds it"
            )
            if run.machine != "sandbox":
                remedy = "take another queue, or --machine sandbox"
            return (
                f"{declaration.name}: this kernel is built without {declaration.option}: {remedy}"
            )
    return ""


def kernel_hz() -> int | None:
    """Return CONFIG_HZ from /proc/config.gz or /boot, or None if neither exists."""
    match = re.search(r"^CONFIG_HZ=(\d+)", kernel_config(), re.MULTILINE)
    return int(match[1]) if match else None


@cache
def kernel_config() -> str:
    """Return the running kernel's configuration, or "" if it is not available."""
    with suppress(OSError, ValueError):
        return gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    with suppress(OSError, ValueError):
        return Path(f"/boot/config-{platform.release()}").read_text(encoding="utf-8")
    return ""
