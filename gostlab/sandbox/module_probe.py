# SPDX-License-Identifier: MIT
"""Test whether a kernel accepts a module: boot a sandbox that loads it."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gostlab import safe_read
from gostlab.install.kernel_modules import CompileError, KernelModule
from gostlab.registry.congestion_controls import IN_LINUX, ControlFile
from gostlab.sandbox import CHECKOUT, uml, usable_cpus
from gostlab.sandbox.kernel_log import explain_kernel_death
from gostlab.sandbox.rootfs import root_without_run
from gostlab.spec.cpu_model import MachineModel

AVAILABLE = "/proc/sys/net/ipv4/tcp_available_congestion_control"
LIMIT_S = 20.0  # CPU time; loading takes a second


def probe_module(kernel: Path, file: Path, arguments: str) -> Sequence[str]:
    """Return the congestion controls that a module adds to a kernel.

    Raises CompileError with the kernel's message if the kernel rejects the module or crashes, and
    MissingPart, MachineError and OSError.
    """
    root = root_without_run()
    control = ControlFile(file.name, file.name, file, (), "", is_user_supplied=True)
    module = KernelModule(file.name, file, arguments, "", control)
    with tempfile.TemporaryDirectory(prefix="gostlab-cc-") as scratch:
        folder = Path(scratch).resolve()
        script = (
            f'cat {AVAILABLE} >/run/gostlab/said; echo "$GOSTLAB_NOT_LOADED" >>/run/gostlab/said'
        )
        guest = uml.boot(
            kernel,
            folder,
            ["/bin/sh", "-c", script],
            MachineModel(128, syscall_cost_us=5.0),
            keep=[CHECKOUT],
            cpu=usable_cpus()[0],
            limit_s=LIMIT_S,
            modules=[module],
            root=root,
        )
        guest.wait()
        try:
            names, refused = safe_read.read_bytes(folder / "said").decode("utf-8").splitlines()
        except (OSError, ValueError):
            cause = (
                f"its init does not end ({guest.complaint})"
                if guest.at_its_limit
                else f"the kernel died of it: {explain_kernel_death(folder)}"
            )
            raise CompileError(f"{file.name}: {cause}") from None
    reason = json.loads(refused).get(file.name)
    if reason:
        raise CompileError(f"{file.name}: it compiles, but the kernel does not take it: {reason}")
    return [name for name in names.split() if name not in IN_LINUX]
