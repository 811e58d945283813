# SPDX-License-Identifier: MIT
"""Find out which kernels, GOSTs and congestion controls runs need, and provide missing ones."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gostlab import sandbox
from gostlab.api.run import check_jobs
from gostlab.install import gost_versions, kernel_modules, locate, rootfs
from gostlab.install import kernels as kernel_builds
from gostlab.install.build_env import InstallContext
from gostlab.install.locate import MissingPart
from gostlab.registry import congestion_controls as controls
from gostlab.registry import folders
from gostlab.registry.folders import from_root
from gostlab.registry.kernels import FEATURES, SHIPPED, Kernel, declared_kernels, own_kernels
from gostlab.registry.run_requirements import RunRequirements
from gostlab.registry.tunnels import GOST, tunnel_kind
from gostlab.sandbox import module_probe
from gostlab.spec.requirements import requirements_of
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

# Functions of the install package that the API offers unchanged.
add_gost, remove_gost = gost_versions.add_gost, gost_versions.remove_gost
remove_cc, remove_kernel = kernel_modules.remove_user_control, kernel_builds.remove_kernel


def missing_parts(
    runs: Sequence[RunSpec], *, jobs: int | None = None, gost: Path | None = None
) -> RunRequirements:
    """Return the parts that runs need, that the set-up can provide, and that are missing.

    Problems that the set-up cannot solve are reported first, so that nobody waits for a build in
    vain. Raises BadInput, MissingPart.
    """
    check_jobs(jobs)
    parts = locate.find_parts(gost)
    needed = requirements_of(runs)
    if needed.root:
        # The root has every program: only the other runs need programs of this machine.
        native = requirements_of(run for run in runs if run.needs_host_files)
        root_is_missing = rootfs.find_root() is None
        needed = replace(native, kernels=needed.kernels, gosts=needed.gosts, root=root_is_missing)
    else:
        needed = replace(needed, root=False)
    missing = RunRequirements(
        kernels=tuple(name for name in needed.kernels if not has_kernel(name, parts)),
        iperf3s=tuple(version for version in needed.iperf3s if version not in parts.iperf3),
        gosts=tuple(name for name in needed.gosts if not has_gost(name, parts)),
        tunnels=tuple(
            name for name in needed.tunnels if not has_programs(tunnel_kind(name).programs, parts)
        ),
        programs=tuple(name for name in needed.programs if not has_programs([name], parts)),
        root=needed.root,
        iproute2=needed.iproute2 and not locate.find_iproute2().is_new_enough,
    )
    sandbox.require_programs((run for run in runs if not waits_for(run, missing)), parts)
    return missing


def waits_for(run: RunSpec, missing: RunRequirements) -> bool:
    """Return whether a run's root, iperf3 or tunnel is among the missing parts."""
    if missing.root and not run.needs_host_files:
        return True
    tunnel = tunnel_kind(run.tunnel)
    by_gost = tunnel.program == GOST and run.gost_program in missing.gosts
    return run.iperf3 in missing.iperf3s or tunnel.name in missing.tunnels or by_gost


def has_kernel(name: str, parts: locate.Parts) -> bool:
    """Return whether a kernel is present, or is none that gostlab could build."""
    if name == SHIPPED:
        return parts.kernel is not None or "GOSTLAB_KERNEL" in os.environ
    return name not in declared_kernels() or locate.built_version(name) is not None


def has_gost(name: str, parts: locate.Parts) -> bool:
    """Return whether a run's GOST is present, or is none that the set-up could provide."""
    if name == locate.AUTO:
        return parts.gost is not None or parts.relay is not None
    return name != locate.RELAY or parts.relay is not None


def has_programs(names: Sequence[str], parts: locate.Parts) -> bool:
    """Return whether all programs are present, from this machine or gostlab's cache."""
    return all(locate.find_program(name, parts.programs) is not None for name in names)


def provide_parts(needed: RunRequirements, *, jobs: int, quiet: bool = False) -> None:
    """Fetch and build missing parts, and say so on standard error. Raises MissingPart, OSError."""
    from gostlab.install import main

    steps = [step for step in main.setup_steps(needed) if step.name not in ("tools", "packages")]
    failed = main.run_locked(steps, folders.cache_folder(), jobs, quiet=quiet, out=sys.stderr)
    if failed:
        raise MissingPart("; ".join(f"{name}: {why}" for name, why in failed.items()))


@dataclass(frozen=True)
class ListedPart:
    """Represent a kernel, GOST or congestion control that an experiment may name, and its line."""

    name: str
    version: str | None  # None: not built yet, or without a version
    origin: str  # "Linux", "gostlab", or the path of what the user added
    details: Mapping[str, object]  # further keys of its JSON
    line: str

    def to_json(self) -> dict[str, object]:
        values = {"name": self.name, "version": self.version, "origin": self.origin}
        return {**values, **self.details}


def gosts() -> tuple[list[ListedPart], str]:
    """Return every available GOST, and a line on the one of runs that name none."""
    parts = locate.find_parts()
    default = locate.tunnel_binary(parts)
    listed = [
        ListedPart(
            name,
            gost.version,
            str(gost.path),
            {"sha256": gost.sha256, "default": gost.path == default.path},
            f"{name:10} {gost.version}  SHA-256 {gost.sha256[:12]}…  {gost.path}",
        )
        for name, gost in parts.gosts.items()
    ]
    return listed, f"without gost: … runs take {default.version} ({parts.tunnel_why})"


def congestion_controls() -> list[ListedPart]:
    """Return every congestion control that an experiment may name."""
    listed = [
        ListedPart(name, None, "Linux", {"parameters": []}, f"{name}: Linux's own")
        for name in controls.IN_LINUX
    ]
    for control in controls.module_controls().values():
        parameters = f" ({', '.join(control.parameters)})" if control.parameters else ""
        origin = says = from_root(control.source)
        details: dict[str, object] = {"parameters": control.parameters, "sha256": control.sha256}
        if control.is_user_supplied:
            changed = kernel_modules.has_changed(control)
            again = "; changed since: ./lab cc add it again" * changed
            origin, says = control.origin, f"yours, from {control.origin}{again}"
            details["changed"] = changed
        line = f"{control.name}{parameters}: {says}"
        listed.append(ListedPart(control.name, None, origin, details, line))
    return listed


def add_cc(path: Path, name: str | None = None, *, keep: bool = True) -> kernel_modules.AddedModule:
    """Compile a C file, load it into a sandbox, and add it as a level of `cc`.

    Raises BadInput, CompileError, MissingPart, MachineError, OSError.
    """
    kernel = locate.require_kernel(locate.find_parts())
    return kernel_modules.compile_and_probe(
        path, name, kernel, partial(module_probe.probe_module, kernel), keep=keep
    )


@contextmanager
def temporary_cc(path: Path, name: str) -> Iterator[controls.ControlFile]:
    """Provide a congestion control from a C file as a level of `cc` within a `with` block.

    Everything of it is removed at the end of the block. Raises what add_cc does.
    """
    kernel = locate.require_kernel(locate.find_parts())
    control = add_cc(path, name).control
    try:
        yield control
    finally:
        shutil.rmtree(kernel_modules.module_folder(control, kernel), ignore_errors=True)
        with suppress(BadInput):  # another process removed the same control already
            kernel_modules.remove_user_control(name)


def add_kernel(
    what: str, name: str | None, *, jobs: int, say: Callable[[str], None]
) -> kernel_builds.AddedKernel:
    """Build a declared version of Linux, or the user's tree or tarball under a name.

    Raises BadInput, SetupError, OSError.
    """
    bench = InstallContext(folders.cache_folder(), jobs, say, -1)
    return kernel_builds.add_kernel(bench, what, name)


def kernels() -> list[ListedPart]:
    """Return every kernel that an experiment may name."""
    shipped = locate.find_parts().kernel_version
    line = f"{SHIPPED}: {shipped or 'not built: ./lab setup'}"
    listed = [ListedPart(SHIPPED, shipped, "gostlab", {"lacks": []}, line)]
    for name, declared in declared_kernels().items():
        built = locate.built_version(name)
        version = None if built is None else str(locate.kernel_record(built)["version"])
        state = version or f"not built: ./lab kernel add {name}"
        line = f"{name}: {state}{lacking_features_note(declared)}"
        listed.append(ListedPart(name, version, "gostlab", {"lacks": declared.lacks}, line))
    for name, user_kernel in own_kernels().items():
        version = ".".join(map(str, user_kernel.version))
        note = lacking_features_note(user_kernel)
        line = f"{name}: {version}, yours, from {user_kernel.origin}{note}"
        details = {"lacks": user_kernel.lacks}
        listed.append(ListedPart(name, version, user_kernel.origin, details, line))
    return listed


def lacking_features_note(kernel: Kernel) -> str:
    """Return the features that a kernel lacks, as the end of a line."""
    missing = [f"no {FEATURES[name].says}" for name in kernel.lacks]
    return f"; {', '.join(missing)}" if missing else ""
