"""What runs need of this machine: kernels, GOSTs, congestion controls; what of it is missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from gostlab import sandbox
from gostlab.api.run import check_jobs
from gostlab.install import gost_versions, kernel_modules, kernels, locate, main, rootfs
from gostlab.install.build_env import Workbench
from gostlab.install.locate import MissingPart
from gostlab.registry import congestion_controls as controls
from gostlab.registry import folders
from gostlab.registry.folders import from_root
from gostlab.registry.kernels import FEATURES, SHIPPED, Kernel, declared_kernels, own_kernels
from gostlab.registry.needs import RunRequirements
from gostlab.registry.tunnels import GOST, tunnel_kind
from gostlab.sandbox import module_probe
from gostlab.spec.requirements import needs_of
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

# What the set-up does as it is.
add_gost, remove_gost = gost_versions.add, gost_versions.remove
remove_cc, remove_kernel = kernel_modules.remove, kernels.remove


def missing_parts(
    runs: Sequence[RunSpec], *, jobs: int | None = None, gost: Path | None = None
) -> RunRequirements:
    """What runs ask for, that the set-up can bring, and that is not there. Nobody waits
    for it and then learns that something else is amiss: that is looked for first. Raises BadInput,
    MissingPart.
    """
    check_jobs(jobs)
    found = locate.find_parts(gost)
    wanted = needs_of(runs)
    if wanted.root and rootfs.is_chosen():
        # Every program is in it: those of this machine are for the other runs.
        elsewhere = needs_of(run for run in runs if run.is_of_the_host)
        gone = rootfs.find_root() is None
        wanted = replace(elsewhere, kernels=wanted.kernels, gosts=wanted.gosts, root=gone)
    else:
        wanted = replace(wanted, root=False)
    missing = RunRequirements(
        kernels=tuple(name for name in wanted.kernels if not has_kernel(name, found)),
        iperf3s=tuple(version for version in wanted.iperf3s if version not in found.iperf3),
        gosts=tuple(name for name in wanted.gosts if not has_gost(name, found)),
        tunnels=tuple(
            name for name in wanted.tunnels if not has_programs(tunnel_kind(name).programs, found)
        ),
        programs=tuple(name for name in wanted.programs if not has_programs([name], found)),
        root=wanted.root,
        iproute2=wanted.iproute2 and not locate.find_iproute2().is_new_enough,
    )
    sandbox.require_programs((run for run in runs if not waits_for(run, missing)), found)
    return missing


def waits_for(run: RunSpec, missing: RunRequirements) -> bool:
    """Whether a run's root, iperf3 or tunnel is among what is missing."""
    if missing.root and not run.is_of_the_host:
        return True
    kind = tunnel_kind(run.tunnel)
    by_gost = kind.program == GOST and run.gost in missing.gosts
    return run.iperf3 in missing.iperf3s or kind.name in missing.tunnels or by_gost


def has_kernel(name: str, found: locate.Parts) -> bool:
    """Whether a kernel is there, or is none that the lab could build."""
    if name == SHIPPED:
        return found.kernel is not None or "GOSTLAB_KERNEL" in os.environ
    return name not in declared_kernels() or locate.built_version(name) is not None


def has_gost(name: str, found: locate.Parts) -> bool:
    """Whether what a run calls a GOST is there, or is none that the set-up could bring."""
    if name == locate.AUTO:
        return found.gost is not None or found.relay is not None
    return name != locate.RELAY or found.relay is not None


def has_programs(names: Sequence[str], found: locate.Parts) -> bool:
    """Whether programs are there, the machine's or the lab's own."""
    return all(locate.find_program(name, found.programs) is not None for name in names)


def provide_parts(wanted: RunRequirements, *, jobs: int, quiet: bool = False) -> None:
    """Fetch and build what the packages alone do not give; it says how it goes, on standard error.
    Raises MissingPart, OSError.
    """
    chosen = [each for each in main.steps(wanted) if each.name not in ("tools", "packages")]
    failed = main.take(chosen, folders.cache_folder(), jobs, quiet=quiet, out=sys.stderr)
    if failed:
        raise MissingPart("; ".join(f"{name}: {why}" for name, why in failed.items()))


def gost_lines() -> list[str]:
    """Every GOST that an experiment may ask for, a line each, and which one is taken without."""
    found = locate.find_parts()
    lines = [
        f"{name:10} {one.version}  SHA-256 {one.sha256[:12]}…  {one.path}"
        for name, one in found.gosts.items()
    ]
    taken = locate.tunnel_binary(found)
    return [*lines, f"without gost: … runs take {taken.version} ({found.tunnel_why})"]


def congestion_controls() -> list[str]:
    """Every congestion control that an experiment may name, a line each."""
    lines = [f"{', '.join(controls.IN_LINUX)}: Linux's own"]
    for control in controls.module_controls().values():
        takes = f" ({', '.join(control.parameters)})" if control.parameters else ""
        if not control.own:
            where = from_root(control.source)
        else:
            changed = "; changed since: ./lab cc add it again" * kernel_modules.has_changed(control)
            where = f"yours, from {control.origin}{changed}"
        lines.append(f"{control.name}{takes}: {where}")
    return lines


def add_cc(path: Path, name: str | None = None, *, keep: bool = True) -> kernel_modules.AddedModule:
    """Compile a C file, load it into a sandbox, and keep it as a level of `cc`. Raises BadInput,
    CompileError, MissingPart, MachineError, OSError.
    """
    kernel = locate.require_kernel(locate.find_parts())
    return kernel_modules.check(
        path, name, kernel, partial(module_probe.registered, kernel), keep=keep
    )


@contextmanager
def borrowed_cc(path: Path, name: str) -> Iterator[controls.Control]:
    """A congestion control of somebody's, as a level of `cc` until the end of the block; nothing of
    it stays. Raises what add_cc does.
    """
    kernel = locate.require_kernel(locate.find_parts())
    control = add_cc(path, name).control
    try:
        yield control
    finally:
        shutil.rmtree(kernel_modules.module_folder(control, kernel), ignore_errors=True)
        with suppress(BadInput):  # another process has ranked the same file, and is done
            kernel_modules.remove(name)


def add_kernel(
    what: str, name: str | None, *, jobs: int, say: Callable[[str], None]
) -> kernels.AddedKernel:
    """Build a declared version of Linux, or a tree or tarball of the user's under a name. Raises
    BadInput, SetupError, OSError.
    """
    bench = Workbench(folders.cache_folder(), jobs, say, -1)
    return kernels.add(bench, what, name)


def kernel_lines() -> list[str]:
    """Every kernel that an experiment may name, a line each."""
    found = locate.find_parts()
    lines = [f"{SHIPPED}: {found.kernel_version or 'not built: ./lab setup'}"]
    for name, declared in declared_kernels().items():
        built = locate.built_version(name)
        if built is None:
            said = f"not built: ./lab kernel add {name}"
        else:
            said = str(locate.kernel_record(built)["version"])
        lines.append(f"{name}: {said}{without(declared)}")
    for name, own in own_kernels().items():
        version = ".".join(map(str, own.version))
        lines.append(f"{name}: {version}, yours, from {own.origin}{without(own)}")
    return lines


def without(kernel: Kernel) -> str:
    """What a kernel cannot do, for the end of a line."""
    words = [f"no {FEATURES[name].says}" for name in kernel.lacks]
    return f"; {', '.join(words)}" if words else ""
