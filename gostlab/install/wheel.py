"""The wheel that has everything: the lab's package with the sandbox's kernel, its modules and
headers, the relay and the packed root, as set-up made them on this machine (`make wheel`).

Nothing in it asks for a C library of the host's: kernel and relay are linked statically, and the
root's programs have their own. So it is for every Linux on x86_64 that pip has a name for.
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

from gostlab.install import apt as archive
from gostlab.install import kernel_modules, locate
from gostlab.install.build_env import SetupError, run_logged, write_json
from gostlab.install.relay_build import go_environ
from gostlab.install.rootfs import Root, find_root, moment_of, pack, read_lock
from gostlab.registry import congestion_controls
from gostlab.registry.folders import CODE, ROOT, cache_folder

TAG = "py3-none-manylinux_2_17_x86_64"  # the oldest that pip of Python 3.11 knows by that name
PAGE = Path(__file__).with_name("wheel-licences.md")
DOCUMENTS = "usr/share/doc"
# A package's copyright file says its licences in fields, or names Debian's copies of them.
LICENCE_FIELD = re.compile(r"^License: *(\S.*)$", re.MULTILINE)
COMMON_LICENCE = re.compile(r"/usr/share/common-licenses/([A-Z][\w.-]*\w)")


def main() -> int:
    """Make a wheel: python3 -m gostlab.install.wheel FOLDER, or FOLDER sources."""
    try:
        make = make_sources if sys.argv[2:] == ["sources"] else make_wheel
        print(make(Path(sys.argv[1])))
    except (SetupError, locate.MissingPart, kernel_modules.CompileError, OSError) as error:
        print(f"wheel: {error}", file=sys.stderr)
        return 1
    return 0


def make_wheel(out: Path) -> Path:
    """The wheel of checkout and parts. Raises SetupError, MissingPart, CompileError, OSError."""
    cache = cache_folder()
    brought = cache / "build" / "wheel"
    shutil.rmtree(brought, ignore_errors=True)
    for folder in (brought, out, cache / "log"):
        folder.mkdir(parents=True, exist_ok=True)
    root = find_root()
    if root is None:
        raise SetupError("no own root is there: ./lab setup --only root")
    kernel = bring_kernel(brought)
    relay = bring_relay(brought)
    for program in (kernel, relay):
        if asks_for_loader(program):
            raise SetupError(f"{program}: not linked statically: build it where libc.a is")
    bring_root(root, brought)
    bring_licences(root, kernel, brought)
    run_logged(
        [cache / "tools/bin/pip", "wheel", "--no-deps", "--wheel-dir", out.absolute(), CODE],
        cache / "log" / "wheel.log",
        environment={**os.environ, "GOSTLAB_BROUGHT": str(brought), "GOSTLAB_WHEEL_TAG": TAG},
    )
    shutil.rmtree(brought)
    return max(out.glob(f"gostlab-*-{TAG}.whl"), key=lambda path: path.stat().st_mtime)


def bring_kernel(brought: Path) -> Path:
    """The kernel, its headers, and the lab's own congestion controls as modules of it."""
    kernel = locate.require_kernel(locate.find_parts())
    place = brought / "kernel" / kernel.parent.name
    place.mkdir(parents=True)
    for name in (kernel.name, locate.HEADERS):
        shutil.copy2(kernel.with_name(name), place / name)
    for control in congestion_controls.shipped_controls().values():
        file, compiler = kernel_modules.provide(control, kernel)
        shutil.copytree(file.parent, place / "cc" / file.parent.name)
    write_json(
        place / "kernel.json", {**locate.kernel_record(kernel), "modules_compiler": compiler}
    )
    return place / kernel.name


def bring_relay(brought: Path) -> Path:
    """The lab's own relay."""
    relay = locate.find_relay()
    if relay is None:
        raise SetupError("the relay is missing: ./lab setup --only relay")
    shutil.copytree(relay.parent, brought / "relay" / relay.parent.name)
    return brought / "relay" / relay.parent.name / relay.name


def bring_root(root: Root, brought: Path) -> None:
    """The root, packed once."""
    packed = root.tree.with_name("root.tar.xz")
    if not packed.is_file():
        pack(root, packed)
    shutil.copy2(packed, brought / packed.name)
    write_json(brought / "root.json", root.record)


def asks_for_loader(program: Path) -> bool:
    """Whether an ELF program is started by a dynamic loader, which would be the host's."""
    asked = subprocess.run(["patchelf", "--print-interpreter", program], capture_output=True)
    return asked.returncode == 0


# -- licences


def bring_licences(root: Root, kernel: Path, brought: Path) -> None:
    """A page that says what is under which licence and where its source is, and the texts."""
    place = brought / "licences"
    shutil.copytree(root.tree / "usr/share/common-licenses", place / "common")
    (place / "linux.config").write_text(locate.output_of([kernel, "--showconfig"]), "utf-8")
    record = locate.kernel_record(kernel)
    rows = [
        f"| {source} | {', '.join(licences_of(root.tree, documents)) or 'see its copyright'} |"
        for source, documents in root.record["sources"].items()
    ]
    text = PAGE.read_text("utf-8").format(
        kernel=f"{record['source']} (SHA-256 {record['source_sha256']})",
        libc=source_of_libc(),
        relay=", ".join(go_licences(place / "relay")),
        suite=root.record["suite"],
        packages="\n".join(rows),
    )
    (place / "README.md").write_text(text, "utf-8")


def source_of_libc() -> str:
    """What the C library was built from that this machine links statically."""
    form = "${source:Package} ${source:Version}"
    said = locate.output_of(["dpkg-query", "--show", "--showformat", form, "libc6-dev"])
    return said if re.fullmatch(r"\S+ \S+", said) else "unknown"


def make_sources(out: Path) -> str:
    """The sources of what the wheel carries, in one file; UNFOUND in it names what no archive has.
    What came stays until all have: the next try goes on. Raises SetupError, OSError.
    """
    root, mirror = find_root(), archive.find_mirror()
    kernel = locate.kernel_record(locate.require_kernel(locate.find_parts()))
    of_linux = re.fullmatch(r"(linux-source-\S+) (\S+) from (\S+)", str(kernel["source"]))
    if root is None or mirror is None or of_linux is None:
        raise SetupError("needs a Debian mirror, the own root, and a kernel of Debian's source")
    scratch = cache_folder() / "build" / "wheel-sources"
    place = scratch / "sources"
    package, version, suite = of_linux.groups()
    tarball = place / f"{package}_{version}_all.deb"
    wanted = list(dict.fromkeys([*root.record["sources"], source_of_libc()]))
    suites = list(dict.fromkeys(one.suite for one in read_lock()))
    apt = archive.PrivateApt(scratch / "apt", mirror)
    for each in (apt, archive.apt_at(apt, moment_of())):
        left = [source.replace(" ", "=") for source in wanted if not has_source(place, source)]
        if each is not None and left:
            each.download_sources(left, suites, place)
        if each is not None and not tarball.is_file():
            each.read_suites([suite])
            with contextlib.suppress(archive.ArchiveError):
                each.download_current([f"{package}={version}"], place)
    unfound = [each for each in wanted if not has_source(place, each)]
    unfound += [] if tarball.is_file() else [f"{package} {version}"]
    (place / "UNFOUND").write_text("".join(f"{each}\n" for each in unfound), "utf-8")
    out.mkdir(parents=True, exist_ok=True)
    made = out.absolute() / "gostlab-sources.tar"
    log = cache_folder() / "log" / "wheel.log"
    run_logged(["tar", "--create", "--file", made, "--directory", scratch, place.name], log)
    if unfound:
        return (
            f"{made}, without {len(unfound)} of {len(wanted) + 1} sources, which UNFOUND in it"
            f" names: put them into {place} from a snapshot archive, and make it again"
        )
    shutil.rmtree(scratch)
    return str(made)


def has_source(place: Path, source: str) -> bool:
    """Whether all files of a source (`bash 5.2.15-2`) are in a folder."""
    name, version = source.split()
    description = place / f"{name}_{version.partition(':')[2] or version}.dsc"
    if not description.is_file():
        return False
    text = description.read_text("utf-8", errors="replace")
    files = re.findall(r"^ [0-9a-f]{32} \d+ (\S+)$", text, re.MULTILINE)
    return all((place / each).is_file() for each in files)


def licences_of(tree: Path, documents: Iterable[str]) -> list[str]:
    """The licences that some packages' copyright files name."""
    found = set()
    for folder in documents:
        # A library of another release may have it from the compiler's package.
        places = (tree / folder, tree / DOCUMENTS / Path(folder).name)
        files = (place / "copyright" for place in places)
        copyright = next((file for file in files if file.is_file()), None)
        if copyright is not None:
            text = copyright.read_text("utf-8", errors="replace")
            found |= {each.strip().rstrip(",") for each in LICENCE_FIELD.findall(text)}
            if not found:
                found |= set(COMMON_LICENCE.findall(text))
    return sorted(found)


def go_licences(place: Path) -> Iterator[str]:
    """Copy the licences of the relay's modules and of Go; their names."""
    tunnel, environ = ROOT / "tunnel", go_environ(place)
    words = ["go", "mod", "download", "-json"]
    done = subprocess.run(words, cwd=tunnel, env=environ, capture_output=True, text=True)
    if done.returncode != 0:
        raise SetupError(f"go mod download: {done.stderr.strip()[-200:]}")
    said = done.stdout.replace("}\n{", "},{")
    for module in json.loads(f"[{said}]"):
        name = f"{module['Path']} {module['Version']}"
        copy_licence(Path(module["Dir"]), place / module["Path"])
        yield name
    goroot = locate.output_of(["go", "env", "GOROOT"]).strip()
    copy_licence(Path(goroot), place / "go")
    yield "Go"


def copy_licence(module: Path, place: Path) -> None:
    """The licence of a Go module. Raises SetupError where there is none."""
    files = [*module.glob("LICEN[CS]E*"), *Path("/usr/share/doc").glob("golang-*-go/copyright")]
    if not files:
        raise SetupError(f"{module}: no licence in it")
    place.mkdir(parents=True)
    shutil.copyfile(files[0], place / "LICENSE")


if __name__ == "__main__":
    sys.exit(main())
