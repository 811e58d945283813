"""Kernels besides the shipped one: versions of Linux from Debian's own sources, and the user's
trees. Each is built on request, patched as far as it goes, and kept with what it was made of.

A declared version (kernel/versions) takes all of its series, or it is not built. Of a user's tree
it is tried which patches apply, and said which were taken.
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
from gostlab.install.build_env import SetupError, Workbench, locked, require_space, run_logged
from gostlab.registry import folders, kernels
from gostlab.registry.folders import from_root
from gostlab.registry.kernels import ALL_PATCHES, Declared, Patch

SCRIPT = folders.KERNELS / "build.sh"
OPTIONS_FILE = folders.ROOT / "kernel" / "options"
OLDEST = (4, 9)  # the first that a gcc of today compiles
VERSION_LINES = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", re.MULTILINE)
# Patches, by the end of their numbers, that build on others.
BUILDS_ON = {"07": "02", "08": "02", "15": "02", "37": "33"}
# A tree of the user's is copied without what a build left in it (tar's patterns, from its root on:
# include/linux and vmlinux.lds.S are sources).
BUILT = (
    "./.git ./.config* ./linux ./vmlinux ./vmlinux.* ./include/config ./include/generated"
    " ./arch/*/include/generated *.o *.a *.ko *.cmd"
).split()


@dataclass(frozen=True)
class AddedKernel:
    """What became of a kernel."""

    name: str
    version: str
    kernel: Path
    taken: tuple[str, ...]  # the patches, by number
    refused: tuple[str, ...]  # of a user's tree: those that did not apply
    lacks: tuple[str, ...]  # features, as declared.kernels names them
    build_s: float | None  # None: it was there


def add(bench: Workbench, what: str, name: str | None = None) -> AddedKernel:
    """Build a declared version of Linux, or a tree or tarball of the user's under a name. Raises
    BadInput, SetupError, OSError.
    """
    path = None if name is None and what in declared_names() else own_path(what, name)
    for folder in ("log", "build"):
        (bench.cache / folder).mkdir(parents=True, exist_ok=True)
    # A lock of its own: the set-up touches nothing of this, and may take as long.
    with locked(bench.cache, bench.say, "kernels.lock") as lock_fd:
        bench = replace(bench, lock_fd=lock_fd)
        if path is None or name is None:
            return add_version(bench, kernels.declared_kernels()[what])
        return add_own(bench, path, name)


def add_version(bench: Workbench, declared: Declared) -> AddedKernel:
    """Build a declared version, unless it is there. Raises SetupError."""
    name = declared.name
    there = locate.built_version(name, bench.cache)
    if there is not None:
        return described(name, there, (), None)
    folder = bench.cache / "build" / f"version-{name}-{locate.version_inputs_hash(declared)}"
    require_space(
        bench.cache, kernel_build.BUILD_BYTES, f"the source of kernel {name} while it builds"
    )
    if left := kernel_build.left_over(folder):
        try:
            return build_version(bench, folder, left, declared)
        except SetupError:
            # What was cut off may be half there: a tree, or the patches in it.
            shutil.rmtree(folder)
    return build_version(bench, folder, fetched(bench, folder, declared), declared)


def build_version(
    bench: Workbench, folder: Path, source: kernel_build.Source, declared: Declared
) -> AddedKernel:
    """Patch a version's source, and build it. Raises SetupError."""
    patch_all(source.tree, declared.series)
    write_options(source.tree, declared.more, declared.may_be_missing)
    profiles = str(declared.file.parent)
    (source.tree / ".gostlab-profiles").write_text(profiles, encoding="utf-8")
    hashed = locate.version_inputs_hash(declared)
    taken = [patch.number for patch in declared.series]
    place = bench.cache / "kernel"
    return build(bench, folder, source, declared.name, hashed, taken, (), place)


def add_own(bench: Workbench, path: Path, name: str) -> AddedKernel:
    """Build a user's tree or tarball under a name of its own. Raises BadInput, SetupError."""
    folder = bench.cache / "build" / f"tree-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    require_space(
        bench.cache, kernel_build.BUILD_BYTES, f"the source of kernel {name} while it builds"
    )
    try:
        if path.is_file():
            bench.say(f"unpacking {path}")
            summed = locate.file_sha256(path)
            source = kernel_build.unpack_tarball(bench, folder, path, str(path), summed)
        else:
            source = copied(bench, folder, path)
        version = version_of_tree(source.tree, path)
        taken, refused = patch_what_applies(source.tree, candidates(version))
        more = {word for each in kernels.declared_kernels().values() for word in each.more}
        write_options(source.tree, sorted(more), (ALL_PATCHES,))
        inputs = hashlib.sha256(
            "\n".join([source.sha256, locate.versions_common_hash(), *taken]).encode()
        ).hexdigest()
        numbers = [word.rpartition("/")[2] for word in taken]
        place = folders.own_kernels_folder()
        return build(bench, folder, source, name, inputs, numbers, refused, place)
    except SetupError:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def own_path(what: str, name: str | None) -> Path:
    """The tree or tarball that a user means, with a name that it can have. Raises BadInput."""
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
        # What tar can unpack and Python cannot is left to tar.
        if not tarfile.is_tarfile(path) and not path.name.endswith((".zst", ".lz")):
            raise BadInput(f"{path}: no tarball that can be read here")
    else:
        if not (path / "Makefile").is_file():
            raise BadInput(f"{path}: no tarball, and no Linux tree (it has no Makefile)")
        version_of_tree(path, path)
    return path


def remove(name: str) -> list[Path]:
    """Delete an added kernel; the folders that are gone. Raises BadInput, OSError."""
    own = folders.own_kernels_folder() / name
    if name in kernels.own_kernels():
        shutil.rmtree(own)
        return [own]
    declared = kernels.declared_kernels().get(name)
    there = None if declared is None else locate.built_version(name)
    shipped = next(iter(locate.built_kernels()), None)
    if there is None or there == shipped or not there.is_relative_to(folders.cache_folder()):
        raise BadInput(f"{name}: no kernel that was added (./lab kernel list)")
    shutil.rmtree(there.parent)
    return [there.parent]


# -- sources


def fetched(bench: Workbench, folder: Path, declared: Declared) -> kernel_build.Source:
    """A version's source from Debian. Raises SetupError."""
    shutil.rmtree(folder, ignore_errors=True)
    instead = f": ./lab kernel add TARBALL --name {declared.name}-mine"
    mirror = archive.private_apt(bench.apt_folder, declared.package, instead).mirror
    complaints: list[str] = []
    for apt, groups in archive.places(bench.apt_folder, mirror):
        for candidate in apt.look_for(re.escape(declared.package), (), groups, bench.say):
            bench.say(f"fetching {candidate}, about 150 MB")
            package = apt.download(candidate, folder / "download")
            return kernel_build.unpack_package(bench, folder, package, str(candidate))
        complaints += apt.complaints
    bench.notes += complaints
    raise SetupError(
        f"neither Debian's mirror nor its security archive, as this machine's apt knows them, has"
        f" {declared.package}"
    )


def copied(bench: Workbench, folder: Path, tree: Path) -> kernel_build.Source:
    """A tree of the user's, copied: his own stays as it is. Raises SetupError."""
    bench.say(f"copying {tree}")
    copy = folder / "source"
    copy.mkdir(parents=True)
    leave_out = [*kernel_build.tar_exclude_args(), *(f"--exclude={pattern}" for pattern in BUILT)]
    script = 'tar --create "$@" . | tar --extract --no-same-owner --directory "$0"'
    shell: list[str | Path] = ["bash", "-o", "pipefail", "-c", script, copy]
    run_logged([*shell, *leave_out, "--directory", tree], bench.log("kernel-unpack"))
    return kernel_build.Source(copy, str(tree), locate.hash_of_files(copy, copy.rglob("*")))


def version_of_tree(tree: Path, path: Path) -> tuple[int, ...]:
    """A tree's version. Raises BadInput for one that is too old, or is no Linux."""
    makefile = tree / "Makefile"
    text = makefile.read_text(encoding="utf-8", errors="replace") if makefile.is_file() else ""
    words = dict(VERSION_LINES.findall(text))
    if "VERSION" not in words or not (tree / "arch" / "um").is_dir():
        raise BadInput(f"{path}: not a tree of Linux that has arch/um")
    version = tuple(int(words.get(key, 0)) for key in ("VERSION", "PATCHLEVEL", "SUBLEVEL"))
    if version < OLDEST:
        raise BadInput(
            f"{path}: Linux {locate.dotted(version)}; today's gcc compiles {locate.dotted(OLDEST)}"
            " and later"
        )
    return version


# -- patches


# Without fuzz: a hunk whose context has changed may belong elsewhere.
PATCH = ("patch", "--force", "--silent", "--fuzz=0", "-p1", "--no-backup-if-mismatch")


def applies(tree: Path, patch: Patch, *options: str) -> bool:
    """Return whether a tree takes a patch; --dry-run among patch's options leaves it as it is."""
    argv: list[str | Path] = [*PATCH, *options, "--directory", tree]
    done = subprocess.run(argv, input=patch.text(), text=True, capture_output=True)
    return done.returncode == 0


def apply(tree: Path, patch: Patch, *options: str) -> None:
    """Apply all of a patch, or leave the tree as it is. Raises SetupError."""
    if not (applies(tree, patch, "--dry-run", *options) and applies(tree, patch, *options)):
        raise SetupError(f"{from_root(patch.file)} does not apply to this source")


def patch_all(tree: Path, series: Sequence[Patch]) -> None:
    """Apply a whole series, once. Raises SetupError."""
    mark = tree / ".gostlab-series"
    if mark.is_file():
        return
    for patch in series:
        apply(tree, patch)
    mark.touch()


def candidates(version: tuple[int, ...]) -> list[list[tuple[str, Patch]]]:
    """The series that may fit a version, likeliest first: of no newer ones, then of newer."""
    declared = list(kernels.declared_kernels().values())
    by_version = sorted(declared, key=lambda each: each.version)
    older = [each for each in by_version if each.version <= version[:2]]
    nearest = [*reversed(older), *by_version[len(older) :]]
    return [
        [(f"{patch.file.parent.name}/{patch.number}", patch) for patch in each.series]
        for each in nearest
    ]


def patch_what_applies(
    tree: Path, tried: Sequence[Sequence[tuple[str, Patch]]]
) -> tuple[list[str], tuple[str, ...]]:
    """Apply the series of which most applies: the patches taken, and the numbers of the others."""
    # As far as that shows without patching it.
    best = max(tried, key=lambda all_: sum(applies(tree, each, "--dry-run") for _, each in all_))
    taken: list[str] = []
    groups: dict[str, list[tuple[str, Patch]]] = {}
    for word, patch in best:
        # Those stand or fall together whose numbers end alike: 0107 finishes what 0007 began.
        groups.setdefault(patch.number[2:], []).append((word, patch))
    done: set[str] = set()
    for group, members in groups.items():
        if BUILDS_ON.get(group, group) not in {*done, group}:
            continue
        if apply_whole(tree, [patch for _, patch in members]):
            done.add(group)
            taken += [word for word, _ in members]
    return taken, tuple(f"00{group}" for group in groups if group not in done)


def apply_whole(tree: Path, group: Sequence[Patch]) -> bool:
    """Apply all patches of a group, or none."""
    done: list[Patch] = []
    for patch in group:
        try:
            apply(tree, patch)
        except SetupError:
            for each in reversed(done):
                apply(tree, each, "--reverse")
            return False
        done.append(patch)
    return True


def write_options(tree: Path, more: Sequence[str], may_be_missing: Sequence[str]) -> None:
    """What build.sh of the versions reads."""
    lines = OPTIONS_FILE.read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if re.match(r"[A-Z0-9]", line)]
    text = "".join(f"CONFIG_{line}\n" for line in [*wanted, *more])
    (tree / ".gostlab-options").write_text(text, encoding="utf-8")
    words = [word if word == ALL_PATCHES else f"CONFIG_{word}=" for word in may_be_missing]
    (tree / ".gostlab-may-be-missing").write_text("\n".join(words) + "\n", encoding="utf-8")


# -- building


def build(
    bench: Workbench,
    folder: Path,
    source: kernel_build.Source,
    name: str,
    inputs: str,
    taken: Sequence[str],
    refused: Sequence[str],
    place: Path,
) -> AddedKernel:
    """Build a patched source, boot it, and keep it in a place. `inputs`: a hash of what it is built
    with; `taken`, `refused`: patches by number. Raises SetupError.
    """
    try:
        built = kernel_build.build(bench, folder, source, SCRIPT)
    except kernel_build.SourceDoesNotFit as complaint:
        raise SetupError(f"{source.origin}: {complaint}") from None
    finished = place / (f"{built.version}-{inputs}" if name in declared_names() else name)
    missing = built.file.with_name("missing").read_text(encoding="utf-8")
    more = {
        "name": name,
        "origin": source.origin,
        "patches": list(taken),
        "patches_refused": list(refused),
        "options_missing": [each.removeprefix("CONFIG_") for each in missing.splitlines()],
    }
    kernel_build.keep(bench, source, built, finished, inputs, more)
    return described(name, finished / "linux", refused, built.build_s)


def declared_names() -> tuple[str, ...]:
    """The names that are the lab's own."""
    return tuple(kernels.declared_kernels())


def described(
    name: str, kernel: Path, refused: Sequence[str], build_s: float | None
) -> AddedKernel:
    """What there is to say of a kernel that is there."""
    record = locate.kernel_record(kernel)
    known = kernels.kernel_named(name)
    patches = record.get("patches")
    taken = tuple(map(str, patches)) if isinstance(patches, list) else ()
    return AddedKernel(
        name, str(record["version"]), kernel, taken, tuple(refused), known.lacks, build_s
    )


def check_name(name: str) -> None:
    """Raises BadInput for a name that cannot be, or is the lab's own."""
    if not kernels.NAME.fullmatch(name):
        raise BadInput(
            f"{name!r}: not a name for a kernel (letters, digits, _ . + and -, 32 at most)"
        )
    if name in (kernels.SHIPPED, *declared_names()):
        raise BadInput(f"{name}: there is one of the lab's own of that name: choose another")
