"""What a run's commands find around them, and env.json: what produced the numbers."""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mininet.net import VERSION as MININET_VERSION

from gostlab import __version__
from gostlab.guest.network import NetworkError
from gostlab.install.locate import OwnProgram, TunnelBinary, file_sha256
from gostlab.registry.iperf3_versions import SYSTEM
from gostlab.registry.qdiscs import bottleneck_kinds
from gostlab.spec.cpu_model import CpuModel
from gostlab.spec.run_spec import RunSpec

TCP_MEM = Path("/proc/sys/net/ipv4/tcp_mem")
KERNEL_PARAMETERS = Path("/sys/module/kernel/parameters")
PROGRAM_COST = Path("/proc/self/net/program_cost")


def run_environ(parts: Mapping[str, Any]) -> dict[str, str]:
    """The environment of every command on a node: the lab's own iproute2 first."""
    path = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    environ = {
        "PATH": os.pathsep.join([*parts["path_dirs"], path]),
        "LC_ALL": "C.UTF-8",
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        "HOME": "/",
        "TERM": os.environ.get("TERM", "dumb"),
    }
    if parts.get("tc_lib_dir"):
        environ["TC_LIB_DIR"] = parts["tc_lib_dir"]
    return environ


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for what a run's programs write that is no result; gone on leaving."""
    with tempfile.TemporaryDirectory(prefix="gostlab-") as made:
        Path(made).chmod(0o755)  # nginx's worker is another user
        yield Path(made)


def environment(
    run: RunSpec,
    programs: Programs,
    parts: Mapping[str, Any],
    sysctls: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """What env.json says of machine, kernel and programs; `sysctls`: of every host. Raises
    NetworkError if a program cannot be asked.
    """
    return {
        "lab": {
            "version": __version__,
            "commit": json.loads(os.environ.get("GOSTLAB_COMMIT", "null")),
        },
        "kernel": platform.release(),
        "kernel_build": platform.version(),
        "hz": kernel_hz(),
        "machine": run.machine,
        "clock": run.clock,
        "syscall_cost_us": installed_syscall_cost_us(),
        "cc": {node: values["net.ipv4.tcp_congestion_control"] for node, values in sysctls.items()},
        "iproute2": first_line(["ip", "-V"]).removeprefix("ip utility, iproute2-").split(",")[0],
        "iperf3": programs.iperf3.version.partition("-")[0],
        "iperf3_program": programs.iperf3.to_json(),
        "mininet": MININET_VERSION,
        "python": platform.python_version(),
        "modules_read": modules_read(),
        **web_programs(run, programs),
        "tunnel": programs.tunnel and programs.tunnel.to_json(),
        **({"modules": parts["modules"]} if parts.get("modules") else {}),
        **({"other_kernel": parts["kernel"]} if parts.get("kernel") else {}),
        "tcp_mem_pages": TCP_MEM.read_text(encoding="ascii").split(),
        "sysctls": sysctls,
        "host": below(),
    }


def modules_read() -> str:
    """Return whether all imports came from the one bundle (gostlab.sandbox.module_bundle).

    If not, the samples depend on how many files the lab has.
    """
    together = any(hasattr(finder, "codes") for finder in sys.meta_path)  # init.py's
    return "together" if together else "each from its own file"


@dataclass(frozen=True)
class Programs:
    """What a run's flows and its tunnel are made by."""

    tunnel: TunnelBinary | None  # what runs at its ends; None where there is no tunnel
    iperf3: OwnProgram
    nginx: str | None
    irtt: str | None  # what measures round trips over UDP; None: the lab's own echo does


def iperf3_of(run: RunSpec, parts: Mapping[str, Any]) -> OwnProgram:
    """The run's iperf3: the lab's own, or the system's. Raises NetworkError if it is not there."""
    if run.iperf3 != SYSTEM:
        handed = parts.get("iperf3", {}).get(run.iperf3)
        if handed is None:
            raise NetworkError(f"iperf3 {run.iperf3}: the lab's own is not there: run ./lab setup")
        return OwnProgram.from_json(handed)
    path = shutil.which("iperf3")
    if path is None:
        raise NetworkError("iperf3: none is installed: run ./lab setup")
    version = first_line([path, "--version"]).split()[1]
    return OwnProgram(Path(path), version, file_sha256(Path(path)))


def below() -> dict[str, Any]:
    """The machine below, as far as the caller told of it."""
    known = json.loads(os.environ.get("GOSTLAB_HOST", "null")) or {"kernel": platform.release()}
    memory = os.environ.get("GOSTLAB_MEMORY")
    return {**known, "memory": memory} if memory else dict(known)


def web_programs(run: RunSpec, programs: Programs) -> dict[str, str]:
    """The versions of server and client where a run has http flows."""
    found = {}
    if any(flow.traffic.by_nginx for flow in run.flows):
        found["nginx"] = first_line([programs.nginx or "nginx", "-v"])
    if any(flow.kind == "http" for flow in run.flows):
        found["wget"] = first_line(["wget", "--version"])
    return found


def first_line(argv: list[str]) -> str:
    """The first line that a command prints. Raises NetworkError if it cannot be run."""
    try:
        out = subprocess.run(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        ).stdout
    except OSError as error:
        raise NetworkError(f"{argv[0]}: {error.strerror}: run ./lab setup") from error
    return out.strip().splitlines()[0] if out.strip() else ""


def installed_syscall_cost_us() -> float | None:
    """What a system call costs on the virtual clock; None where the kernel knows no such thing."""
    cost_ns = kernel_number("tt_syscall_ns")
    return None if cost_ns is None else cost_ns / 1000


def installed_cpu_model() -> CpuModel:
    """Who pays for calls on the running kernel; one that knows no such thing has the defaults."""
    return CpuModel(
        host_cpus=kernel_number("tt_host_cpus") or 0,
        byte_cost_ns=(kernel_number("tt_byte_ps") or 0) / 1000,
        clock_reads_are_free=kernel_parameter("tt_vdso_clock") == "Y",
    )


def kernel_number(name: str) -> int | None:
    """A boot parameter that is a number, or a count that stands beside them."""
    value = kernel_parameter(name)
    return None if value is None else int(value)


def kernel_parameter(name: str) -> str | None:
    """A boot parameter's value as the kernel has it; None where it has no such parameter."""
    try:
        return (KERNEL_PARAMETERS / name).read_text(encoding="ascii").strip()
    except OSError:
        return None


def check_virtual_clock(run: RunSpec) -> None:
    """Whether the sandbox's kernel charges programs as was asked. Raises NetworkError."""
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
    asked, installed = CpuModel.of(run), installed_cpu_model()
    if installed != asked:
        raise NetworkError(f"requested {asked}, the kernel has {installed}: run ./lab setup")


def unbuilt_queue(run: RunSpec) -> str:
    """Which of the run's queues its kernel is built without, and what to do; "" if none."""
    config = kernel_config()
    for kind in bottleneck_kinds(run.bottleneck, run.queue) if config else ():
        if not re.search(rf"^CONFIG_{kind.option}=[ym]$", config, re.MULTILINE):
            todo = f"kernel/options needs {kind.option}=y, then ./lab setup rebuilds it"
            if run.machine != "sandbox":
                todo = "take another queue, or --machine sandbox"
            return f"{kind.name}: this kernel is built without {kind.option}: {todo}"
    return ""


def kernel_hz() -> int | None:
    """CONFIG_HZ from /proc/config.gz or /boot; None where neither is there."""
    found = re.search(r"^CONFIG_HZ=(\d+)", kernel_config(), re.MULTILINE)
    return int(found[1]) if found else None


def kernel_config() -> str:
    """The running kernel's configuration; empty where it is not to be had."""
    with suppress(OSError, ValueError):
        return gzip.decompress(Path("/proc/config.gz").read_bytes()).decode()
    with suppress(OSError, ValueError):
        return Path(f"/boot/config-{platform.release()}").read_text(encoding="utf-8")
    return ""
