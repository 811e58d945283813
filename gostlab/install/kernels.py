# SPDX-License-Identifier: MIT
"""Build kernels besides the shipped one: versions of Linux from Debian's sources, and user's trees.

Each is built on request and saved with a record of its inputs. A declared version (kernel/versions)
takes all of its patches, or it is not built. For a user's tree, every patch of the nearest version
is tried, and the record names those that applied.
"""

import hashlib
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.install import apt as archive
from gostlab.install import kernel_build, locate
from gostlab.install.build_env import (
    InstallContext,
    SetupError,
    lock_folder,
    require_space,
    run_logged,
)
from gostlab.registry import folders, kernels
from gostlab.registry.kernels import DeclaredKernel, Patch

OPTIONS_FILE = folders.ROOT / "kernel" / "kconfig.fragment"
OLDEST = (4, 9)  # the first version that a current gcc compiles
VERSION_LINES = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", re.MULTILINE)
# Patch -> the patch that it depends on.
BUILDS_ON = {
    "um-time-travel-cpu-cost": "um-gostlab-kconfig",
    "um-time-travel-reset": "um-time-travel-cpu-cost",
    "um-time-travel-read-ahead-of-user": "um-time-travel-cpu-cost",
    "random32-no-address-noise": "um-time-travel-reset",
    "um-skas-seccomp-notify": "um-skas-lazy-fp",
}
ALL_OPTIONS = "*"  # stands for every option among those that may be missing
# Build products that are not copied from a user's tree (tar's patterns, relative to its root:
# include/linux and vmlinux.lds.S are sources).
BUILT = (
    "./.git ./.config* ./linux ./vmlinux ./vmlinux.* ./include/config ./include/generated"
    " ./arch/*/include/generated *.o *.a *.ko *.cmd"
).split()


@dataclass(frozen=True)
class AddedKernel:
    """The result of adding a kernel."""

    name: str
    version: str
    kernel: Path
    taken: tuple[str, ...]  # names of the applied patches
    refused: tuple[str, ...]  # names of the patches that did not apply to a user's tree
    lacks: tuple[str, ...]  # missing features by their names in registry.kernels
    build_s: float | None  # None: built before


def add_kernel(bench: InstallContext, what: str, name: str | None = None) -> AddedKernel:
    """Build a declared version of Linux, or a user's tree or tarball under a name.

    Raises BadInput, SetupError, OSError.
    """
    path = None if name is None and what in declared_names() else check_user_source(what, name)
    for folder in ("log", "build"):
        (bench.cache / folder).mkdir(parents=True, exist_ok=True)
    # This lock is separate: the set-up writes none of these files, and may take as long.
    with lock_folder(bench.cache, bench.say, "kernels.lock") as lock_fd:
        bench = replace(bench, lock_fd=lock_fd)
        if path is None or name is None:
            return add_version(bench, kernels.declared_kernels()[what])
        return add_user_kernel(bench, path, name)


def add_version(bench: InstallContext, declared: DeclaredKernel) -> AddedKernel:
    """Build a declared version unless it exists. Raises SetupError."""
    name = declared.name
    existing = locate.built_version(name, bench.cache)
    if existing is not None:
        return describe_kernel(name, existing, (), None)
    folder = bench.cache / "build" / f"version-{name}-{locate.version_inputs_hash(declared)}"
    require_space(
        bench.cache, kernel_build.BUILD_BYTES, f"the source of kernel {name} while it builds"
    )
    if left := kernel_build.find_left_over_source(folder):
        try:
            return build_version(bench, folder, left, declared)
        except SetupError:
            # An interrupted run may leave an incomplete tree, or only some of its patches.
            shutil.rmtree(folder)
    return build_version(bench, folder, fetch_source(bench, folder, declared), declared)


def build_version(
    bench: InstallContext, folder: Path, source: kernel_build.KernelSource, declared: DeclaredKernel
) -> AddedKernel:
    """Patch and build a version's source. Raises SetupError."""
    write_options(source.tree, declared.more, declared.may_be_missing)
    inputs = locate.version_inputs_hash(declared)
    names = [patch.name for patch in declared.series]
    kernels_folder = bench.cache / "kernel"
    return build_patched(bench, folder, source, declared.name, inputs, names, (), kernels_folder)


def add_user_kernel(bench: InstallContext, path: Path, name: str) -> AddedKernel:
    """Build a user's tree or tarball under a name. Raises BadInput, SetupError."""
    folder = bench.cache / "build" / f"tree-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    require_space(
        bench.cache, kernel_build.BUILD_BYTES, f"the source of kernel {name} while it builds"
    )
    try:
        if path.is_file():
            bench.say(f"unpacking {path}")
            digest = locate.file_sha256(path)
            source = kernel_build.unpack_tarball(bench, folder, path, str(path), digest)
        else:
            source = copy_tree(bench, folder, path)
        version = version_of_tree(source.tree, path)
        taken, refused = patch_what_applies(source.tree, candidate_series(version))
        mark_patches_applied(source.tree, taken)
        more = {option for one in kernels.declared_kernels().values() for option in one.more}
        write_options(source.tree, sorted(more), (ALL_OPTIONS,))
        inputs = hashlib.sha256(
            "\n".join(
                [source.sha256, locate.versions_common_hash(), *(patch.label for patch in taken)]
            ).encode()
        ).hexdigest()
        names = [patch.name for patch in taken]
        kernels_folder = folders.own_kernels_folder()
        return build_patched(bench, folder, source, name, inputs, names, refused, kernels_folder)
    except SetupError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def check_user_source(what: str, name: str | None) -> Path:
    """Check a user's tree or tarball and its name; return its path. Raises BadInput."""
    path = locate.home_expanded(what)
    if not path.exists():
        raise BadInput(
            f"{what}: neither a version that the lab knows ({', '.join(declared_names())})"
            " nor a tree or tarball"
        )
    if name is None:
        raise BadInput(f"{what}: call it something: --name NAME")
    check_name(name)
    if path.is_file():
        # Formats that only tar can unpack are left to tar.
        if not tarfile.is_tarfile(path) and not path.name.endswith((".zst", ".lz")):
            raise BadInput(f"{path}: no tarball that can be read here")
    else:
        if not (path / "Makefile").is_file():
            raise BadInput(f"{path}: no tarball, and no Linux tree (it has no Makefile)")
        version_of_tree(path, path)
    return path


def remove_kernel(name: str) -> list[Path]:
    """Delete an added kernel; return the deleted folders. Raises BadInput, OSError."""
    user_folder = folders.own_kernels_folder() / name
    if name in kernels.own_kernels():
        shutil.rmtree(user_folder)
        return [user_folder]
    declared = kernels.declared_kernels().get(name)
    kernel = None if declared is None else locate.built_version(name)
    shipped = next(iter(locate.built_kernels()), None)
    if kernel is None or kernel == shipped or not kernel.is_relative_to(folders.cache_folder()):
        raise BadInput(f"{name}: no kernel that was added (./lab kernel list)")
    shutil.rmtree(kernel.parent)
    return [kernel.parent]


# -- sources


def fetch_source(
    bench: InstallContext, folder: Path, declared: DeclaredKernel
) -> kernel_build.KernelSource:
    """Fetch a version's source from Debian. Raises SetupError."""
    shutil.rmtree(folder, ignore_errors=True)
    instead = f": ./lab kernel add TARBALL --name {declared.name}-mine"
    mirror = archive.private_apt(bench.apt_folder, declared.package, instead).mirror
    complaints: list[str] = []
    for apt, groups in archive.archives_and_suites(bench.apt_folder, mirror):
        for candidate in apt.find_matching(re.escape(declared.package), (), groups, bench.say):
            bench.say(f"fetching {candidate}, about 150 MB")
            package = apt.download(candidate, folder / "download")
            return kernel_build.unpack_package(bench, folder, package, str(candidate))
        complaints += apt.complaints
    bench.notes += complaints
    raise SetupError(
        f"neither Debian's mirror nor its security archive, as this machine's apt knows them, has"
        f" {declared.package}"
    )


def copy_tree(bench: InstallContext, folder: Path, tree: Path) -> kernel_build.KernelSource:
    """Copy a user's tree, which stays unchanged. Raises SetupError."""
    bench.say(f"copying {tree}")
    copy = folder / "source"
    copy.mkdir(parents=True)
    excluded = [*kernel_build.tar_exclude_args(), *(f"--exclude={pattern}" for pattern in BUILT)]
    script = 'tar --create "$@" . | tar --extract --no-same-owner --directory "$0"'
    shell: list[str | Path] = ["bash", "-o", "pipefail", "-c", script, copy]
    run_logged([*shell, *excluded, "--directory", tree], bench.log("kernel-unpack"))
    return kernel_build.KernelSource(copy, str(tree), locate.hash_of_files(copy, copy.rglob("*")))


def version_of_tree(tree: Path, path: Path) -> tuple[int, ...]:
    """Return a tree's version. Raises BadInput if it is too old, or not Linux."""
    makefile = tree / "Makefile"
    text = makefile.read_text(encoding="utf-8", errors="replace") if makefile.is_file() else ""
    fields = dict(VERSION_LINES.findall(text))
    if "VERSION" not in fields or not (tree / "arch" / "um").is_dir():
        raise BadInput(f"{path}: not a tree of Linux that has arch/um")
    version = tuple(int(fields.get(key, 0)) for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))
    if version < OLDEST:
        raise BadInput(
            f"{path}: Linux {locate.format_version(version)}; today's gcc compiles"
            f" {locate.format_version(OLDEST)} and later"
        )
    return version


# -- patches


# Fuzz is disabled: a hunk whose context has changed may belong elsewhere.
PATCH = ("patch", "--force", "--silent", "--fuzz=0", "-p1", "--no-backup-if-mismatch")


def patch_applies(tree: Path, patch: Patch, *options: str) -> bool:
    """Return whether a patch applies to a tree; with --dry-run the tree is not changed."""
    argv: list[str | Path] = [*PATCH, *options, "--directory", tree]
    process = subprocess.run(argv, input=patch.diff(), text=True, capture_output=True)
    return process.returncode == 0


def candidate_series(version: tuple[int, ...]) -> list[Sequence[Patch]]:
    """Return the series that may fit a version: first those of older versions, nearest first."""
    declared = list(kernels.declared_kernels().values())
    by_version = sorted(declared, key=lambda version_declared: version_declared.version)
    older = [
        version_declared
        for version_declared in by_version
        if version_declared.version <= version[:2]
    ]
    return [nearest.series for nearest in [*reversed(older), *by_version[len(older) :]]]


def patch_what_applies(
    tree: Path, tried: Sequence[Sequence[Patch]]
) -> tuple[list[Patch], tuple[str, ...]]:
    """Apply the best-fitting series; return the applied patches and the others' names."""
    # The fit is estimated by dry runs on the unpatched tree.
    best = max(
        tried, key=lambda series: sum(patch_applies(tree, one, "--dry-run") for one in series)
    )
    taken: list[Patch] = []
    for patch in best:
        needed = BUILDS_ON.get(patch.name)
        if needed is not None and needed not in (one.name for one in taken):
            continue
        if patch_applies(tree, patch, "--dry-run") and patch_applies(tree, patch):
            taken.append(patch)
    return taken, tuple(patch.name for patch in best if patch not in taken)


def mark_patches_applied(tree: Path, taken: Sequence[Patch]) -> None:
    """Tell build.sh that a user's tree has its patches."""
    text = "".join(f"{patch.label}\n" for patch in taken)
    for name in (".gostlab-series", ".gostlab-patched"):
        (tree / name).write_text(text, encoding="utf-8")


def write_options(tree: Path, more: Sequence[str], may_be_missing: Sequence[str]) -> None:
    """Write the options that build.sh sets, and which of them it may miss."""
    lines = OPTIONS_FILE.read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line.startswith("CONFIG_")]
    text = "".join(f"{line}\n" for line in [*wanted, *(f"CONFIG_{option}" for option in more)])
    (tree / ".gostlab-options").write_text(text, encoding="utf-8")
    entries = [word if word == ALL_OPTIONS else f"CONFIG_{word}=" for word in may_be_missing]
    (tree / ".gostlab-may-be-missing").write_text("\n".join(entries) + "\n", encoding="utf-8")


# -- building


def build_patched(
    bench: InstallContext,
    folder: Path,
    source: kernel_build.KernelSource,
    name: str,
    inputs: str,
    taken: Sequence[str],
    refused: Sequence[str],
    kernels_folder: Path,
) -> AddedKernel:
    """Build and boot a patched source, and save the kernel.

    `inputs`: a digest of its inputs; `taken`, `refused`: patches by name. Raises SetupError.
    """
    try:
        built = kernel_build.build_kernel(bench, folder, source, name)
    except kernel_build.SourceDoesNotFit as complaint:
        raise SetupError(f"{source.origin}: {complaint}") from None
    finished = kernels_folder / (f"{built.version}-{inputs}" if name in declared_names() else name)
    missing = built.file.with_name("missing").read_text(encoding="utf-8")
    extra_fields = {
        "name": name,
        "origin": source.origin,
        "patches": list(taken),
        "patches_refused": list(refused),
        "options_missing": [option.removeprefix("CONFIG_") for option in missing.splitlines()],
    }
    kernel_build.save_kernel(bench, source, built, finished, inputs, extra_fields)
    return describe_kernel(name, finished / "linux", refused, built.build_s)


def declared_names() -> tuple[str, ...]:
    """Return the names of the lab's own versions."""
    return tuple(kernels.declared_kernels())


def describe_kernel(
    name: str, kernel: Path, refused: Sequence[str], build_s: float | None
) -> AddedKernel:
    """Return the result for an existing kernel."""
    record = locate.kernel_record(kernel)
    known = kernels.kernel_named(name)
    patches = record.get("patches")
    taken = tuple(map(str, patches)) if isinstance(patches, list) else ()
    return AddedKernel(
        name, str(record["version"]), kernel, taken, tuple(refused), known.lacks, build_s
    )


def check_name(name: str) -> None:
    """Check that a name is valid and not the lab's own. Raises BadInput."""
    if not kernels.NAME.fullmatch(name):
        raise BadInput(
            f"{name!r}: not a name for a kernel (letters, digits, _ . + and -, 32 at most)"
        )
    if name in (kernels.SHIPPED, *declared_names()):
        raise BadInput(f"{name}: there is one of the lab's own of that name: choose another")
