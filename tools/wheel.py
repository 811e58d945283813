# SPDX-License-Identifier: MIT
"""Build the wheel that has everything (`make wheel`).

It has the lab's package, the sandbox's kernel with its modules and headers, the relay and the
packed root, as the set-up built them on this machine. Nothing in it needs the host's C library:
kernel and relay are linked statically, and the root's programs have their own. So it fits every
Linux on x86_64 for which pip has a tag, with glibc or musl.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from gostlab.atomic_write import write_json
from gostlab.install import apt as archive
from gostlab.install import kernel_modules, locate
from gostlab.install.build_env import SetupError, run_logged
from gostlab.install.relay_build import go_environ
from gostlab.install.rootfs import GuestRoot, find_root, pack_root, read_lock, snapshot_time
from gostlab.registry import congestion_controls
from gostlab.registry.folders import CODE, ROOT, cache_folder

# The oldest tags of either C library that pip of Python 3.11 accepts.
TAG = "py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64"
MAKE_WHEEL = ("-m", "pip", "wheel", "--no-deps", "--wheel-dir")  # ensurepip makes no bin/pip
PAGE = Path(__file__).with_name("wheel-licences.md")
DOCUMENTS = "usr/share/doc"
# A package's copyright file has fields with licences, or refers to Debian's copies of them.
LICENCE_FIELD = re.compile(r"^License: *(\S.*)$", re.MULTILINE)
COMMON_LICENCE = re.compile(r"/usr/share/common-licenses/([A-Z][\w.-]*\w)")


def main() -> int:
    """Build a wheel: python3 -m tools.wheel FOLDER, or FOLDER sources."""
    try:
        make = make_sources if sys.argv[2:] == ["sources"] else make_wheel
        print(make(Path(sys.argv[1])))
    except (SetupError, locate.MissingPart, kernel_modules.CompileError, OSError) as error:
        print(f"wheel: {error}", file=sys.stderr)
        return 1
    return 0


def make_wheel(out: Path) -> Path:
    """Build the wheel. Raises SetupError, MissingPart, CompileError, OSError."""
    cache = cache_folder()
    parts_folder = cache / "build" / "wheel"
    shutil.rmtree(parts_folder, ignore_errors=True)
    for folder in (parts_folder, out, cache / "log"):
        folder.mkdir(parents=True, exist_ok=True)
    root = find_root()
    if root is None:
        raise SetupError("no own root is there: ./lab setup --only root")
    kernel = bring_kernel(parts_folder)
    relay = bring_relay(parts_folder)
    for program in (kernel, relay):
        if asks_for_loader(program):
            raise SetupError(f"{program}: not linked statically: build it where libc.a is")
    bring_root(root, parts_folder)
    bring_licences(root, kernel, parts_folder)
    run_logged(
        [cache / "tools/bin/python", *MAKE_WHEEL, out.absolute(), CODE],
        cache / "log" / "wheel.log",
        environment={**os.environ, "GOSTLAB_BROUGHT": str(parts_folder), "GOSTLAB_WHEEL_TAG": TAG},
    )
    shutil.rmtree(parts_folder)
    return max(out.glob(f"gostlab-*-{TAG}.whl"), key=lambda path: path.stat().st_mtime)


def bring_kernel(brought: Path) -> Path:
    """Copy the kernel, its headers, and the lab's own modules: congestion controls, capture."""
    kernel = locate.require_kernel(locate.find_parts())
    target = brought / "kernel" / kernel.parent.name
    target.mkdir(parents=True)
    for name in (kernel.name, locate.HEADERS):
        shutil.copy2(kernel.with_name(name), target / name)
    for control in congestion_controls.shipped_controls().values():
        file, compiler = kernel_modules.provide_module(control, kernel)
        shutil.copytree(file.parent, target / "cc" / file.parent.name)
    shutil.copytree(kernel_modules.provide_capture(kernel).parent, target / "capture")
    write_json(
        target / "kernel.json", {**locate.kernel_record(kernel), "modules_compiler": compiler}
    )
    return target / kernel.name


def bring_relay(brought: Path) -> Path:
    """Copy the lab's own relay."""
    relay = locate.find_own_relay()
    if relay is None:
        raise SetupError("the relay is missing: ./lab setup --only relay")
    shutil.copytree(relay.parent, brought / "relay" / relay.parent.name)
    return brought / "relay" / relay.parent.name / relay.name


def bring_root(root: GuestRoot, brought: Path) -> None:
    """Copy the root, packed once."""
    packed = root.tree.with_name("root.tar.xz")
    if not packed.is_file():
        pack_root(root, packed)
    shutil.copy2(packed, brought / packed.name)
    write_json(brought / "root.json", root.record)


def asks_for_loader(program: Path) -> bool:
    """Return whether an ELF program needs a dynamic loader, which would be the host's."""
    process = subprocess.run(["patchelf", "--print-interpreter", program], capture_output=True)
    return process.returncode == 0


# -- licences


def bring_licences(root: GuestRoot, kernel: Path, brought: Path) -> None:
    """Write a page on the licences and sources of all parts, and copy the licence texts."""
    target = brought / "licences"
    shutil.copytree(root.tree / "usr/share/common-licenses", target / "common")
    (target / "linux.config").write_text(locate.read_output([kernel, "--showconfig"]), "utf-8")
    record = locate.kernel_record(kernel)
    rows = [
        f"| {source} | {', '.join(licences_of(root.tree, documents)) or 'see its copyright'} |"
        for source, documents in root.record["sources"].items()
    ]
    text = PAGE.read_text("utf-8").format(
        kernel=f"{record['source']} (SHA-256 {record['source_sha256']})",
        libc=source_of_libc(),
        relay=", ".join(go_licences(target / "relay")),
        suite=root.record["suite"],
        packages="\n".join(rows),
    )
    (target / "README.md").write_text(text, "utf-8")


def source_of_libc() -> str:
    """Return the source package of the C library that this machine links statically."""
    form = "${source:Package} ${source:Version}"
    output = locate.read_output(["dpkg-query", "--show", "--showformat", form, "libc6-dev"])
    return output if re.fullmatch(r"\S+ \S+", output) else "unknown"


def make_sources(out: Path) -> str:
    """Pack the sources of the wheel's content; UNFOUND in the file names the missing ones.

    Fetched files stay until all are complete, and the next call resumes. Raises SetupError,
    OSError.
    """
    root, mirror = find_root(), archive.find_mirror()
    kernel = locate.kernel_record(locate.require_kernel(locate.find_parts()))
    kernel_source = re.fullmatch(r"(linux-source-\S+) (\S+) from (\S+)", str(kernel["source"]))
    if root is None or mirror is None or kernel_source is None:
        raise SetupError("needs a Debian mirror, the own root, and a kernel of Debian's source")
    scratch = cache_folder() / "build" / "wheel-sources"
    target = scratch / "sources"
    package, version, suite = kernel_source.groups()
    tarball = target / f"{package}_{version}_all.deb"
    wanted = list(dict.fromkeys([*root.record["sources"], source_of_libc()]))
    suites = list(dict.fromkeys(one.suite for one in read_lock()))
    apt = archive.PrivateApt(scratch / "apt", mirror)
    for source_apt in (apt, archive.apt_of_snapshot(apt, snapshot_time())):
        missing = [source.replace(" ", "=") for source in wanted if not has_source(target, source)]
        if source_apt is not None and missing:
            source_apt.download_sources(missing, suites, target)
        if source_apt is not None and not tarball.is_file():
            source_apt.read_suites([suite])
            with contextlib.suppress(archive.ArchiveError):
                source_apt.download_current([f"{package}={version}"], target)
    unfound = [source for source in wanted if not has_source(target, source)]
    unfound += [] if tarball.is_file() else [f"{package} {version}"]
    (target / "UNFOUND").write_text("".join(f"{source}\n" for source in unfound), "utf-8")
    out.mkdir(parents=True, exist_ok=True)
    tarball_path = out.absolute() / "gostlab-sources.tar"
    log = cache_folder() / "log" / "wheel.log"
    run_logged(
        ["tar", "--create", "--file", tarball_path, "--directory", scratch, target.name], log
    )
    if unfound:
        return (
            f"{tarball_path}, without {len(unfound)} of {len(wanted) + 1} sources, which UNFOUND"
            f" in it names: put them into {target} from a snapshot archive, and make it again"
        )
    shutil.rmtree(scratch)
    return str(tarball_path)


def has_source(folder: Path, source: str) -> bool:
    """Return whether all files of a source (`bash 5.2.15-2`) are in a folder."""
    name, version = source.split()
    description = folder / f"{name}_{version.partition(':')[2] or version}.dsc"
    if not description.is_file():
        return False
    text = description.read_text("utf-8", errors="replace")
    files = re.findall(r"^ [0-9a-f]{32} \d+ (\S+)$", text, re.MULTILINE)
    return all((folder / file).is_file() for file in files)


def licences_of(tree: Path, documents: Iterable[str]) -> list[str]:
    """Return the licences that some packages' copyright files name."""
    licences = set()
    for folder in documents:
        # The copyright of a library of another release may be in the compiler's package.
        doc_folders = (tree / folder, tree / DOCUMENTS / Path(folder).name)
        files = (doc_folder / "copyright" for doc_folder in doc_folders)
        copyright = next((file for file in files if file.is_file()), None)
        if copyright is not None:
            text = copyright.read_text("utf-8", errors="replace")
            licences |= {licence.strip().rstrip(",") for licence in LICENCE_FIELD.findall(text)}
            if not licences:
                licences |= set(COMMON_LICENCE.findall(text))
    return sorted(licences)


def go_licences(target: Path) -> Iterator[str]:
    """Copy the licences of the relay's modules and of Go; yield their names."""
    tunnel, environ = ROOT / "tunnel", go_environ(target)
    argv = ["go", "mod", "download", "-json"]
    process = subprocess.run(argv, cwd=tunnel, env=environ, capture_output=True, text=True)
    if process.returncode != 0:
        raise SetupError(f"go mod download: {process.stderr.strip()[-200:]}")
    json_objects = process.stdout.replace("}\n{", "},{")
    for module in json.loads(f"[{json_objects}]"):
        name = f"{module['Path']} {module['Version']}"
        copy_licence(Path(module["Dir"]), target / module["Path"])
        yield name
    goroot = locate.read_output(["go", "env", "GOROOT"]).strip()
    copy_licence(Path(goroot), target / "go")
    yield "Go"


def copy_licence(module: Path, target: Path) -> None:
    """Copy the licence of a Go module. Raises SetupError if there is none."""
    files = [*module.glob("LICEN[CS]E*"), *Path("/usr/share/doc").glob("golang-*-go/copyright")]
    if not files:
        raise SetupError(f"{module}: no licence in it")
    target.mkdir(parents=True)
    shutil.copyfile(files[0], target / "LICENSE")


if __name__ == "__main__":
    sys.exit(main())
