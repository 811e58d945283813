# SPDX-License-Identifier: MIT
"""The wheel that has everything: its root; on request, all of it on two bare Debians."""

import os
import re
import shutil
import sys
import tomllib
from collections import Counter
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

from gostlab.install import apt, locate, rootfs
from gostlab.registry import folders
from tests.lab_command import said_by
from tests.skips import require_image_tests
from tools import wheel

SAMPLES = ("flows.json", "sockets.jsonl", "queues.jsonl", "iperf3.json")
SOMEBODY = 1000
PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}  # an older machine's and a newer one's


# -- its files


def walked(top: str, excluded: list[str]) -> list[str]:
    """A folder's files as hatchling walks it: through symbolic links, and none that is excluded."""
    files = []
    for folder, within, names in os.walk(folders.ROOT / top, followlinks=True):
        here = Path(os.path.relpath(folder, folders.ROOT))
        within[:] = [name for name in within if f"/{here / name}" not in excluded]
        files += [str(here / name) for name in names]
    return files


def test_no_two_files_come_to_lie_in_one_place_and_a_source_distribution_has_all() -> None:
    """Hatchling builds no wheel with two, and follows symbolic links, as gostlab/analysis is."""
    project = tomllib.loads((folders.ROOT / "pyproject.toml").read_text("utf-8"))
    targets = project["tool"]["hatch"]["build"]["targets"]
    wheel_table, source_table = targets["wheel"], targets["sdist"]
    moved = {source: Path(place) for source, place in wheel_table["sources"].items()}

    def places(files: list[str]) -> Counter[Path]:
        tops = [(Path(file), file.split("/")[0]) for file in files]
        return Counter(
            moved.get(top, Path(top)) / path.relative_to(top)
            for path, top in tops
            if top in wheel_table["only-include"]
        )

    tops = wheel_table["only-include"]
    from_checkout = places([file for top in tops for file in walked(top, wheel_table["exclude"])])
    assert source_table["skip-excluded-dirs"]
    from_sources = places(walked(".", source_table["exclude"]))
    assert set(from_sources) >= set(from_checkout) and len(from_checkout) > 500
    assert Path("gostlab/analysis/report/report.py") in from_checkout
    assert set(from_checkout.values()) == set(from_sources.values()) == {1}


# -- a package's root


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package's folder with a packed root of a few files, and an empty cache."""
    place = tmp_path / "brought"
    tree = tmp_path / "made/tree"
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "bin").symlink_to("usr/bin")
    (tree / "usr/bin/a").write_bytes(os.urandom(400_000))
    (tree / "usr/bin/a").chmod(0o755)
    record = {"suite": "bookworm", "hash": rootfs.hash_of(tree)}
    for folder in (place, tree.parent):
        folder.mkdir(exist_ok=True)
        rootfs.write_json(folder / "root.json", record)
    rootfs.pack_root(rootfs.GuestRoot(tree, record), place / "root.tar.xz")
    monkeypatch.setattr(rootfs, "BROUGHT", place)
    monkeypatch.setattr(rootfs, "PACKED", place / "root.tar.xz")
    monkeypatch.setenv("GOSTLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GOSTLAB_ROOT", raising=False)
    return place


def refusal() -> str:
    """The line that tells why there is no root; nothing half-made is left."""
    with pytest.raises(locate.MissingPart) as told:
        rootfs.require_root()
    assert "\n" not in str(told.value)
    assert not list(folders.cache_folder().glob("root/*"))
    return str(told.value)


def test_it_is_the_default_and_unpacked_once(brought: Path) -> None:
    first = rootfs.require_root()
    assert first is not None and rootfs.hash_of(first.tree) == first.hash
    (brought / "root.tar.xz").write_bytes(b"")
    assert rootfs.require_root() == first


def test_half_of_it_or_another_is_one_line_and_the_next_try_goes_on(brought: Path) -> None:
    whole = (brought / "root.tar.xz").read_bytes()
    (brought / "root.tar.xz").write_bytes(whole[:200_000])
    assert "not a whole root" in refusal()
    (brought / "root.tar.xz").write_bytes(whole)
    told = (brought / "root.json").read_text()
    (brought / "root.json").write_text(re.sub(r'"hash": "\w', '"hash": "x', told))
    assert "not what its hash names" in refusal()
    (brought / "root.json").write_text(told)
    assert rootfs.require_root() is not None


def test_one_of_another_hash_in_the_cache_is_replaced(brought: Path) -> None:
    first = rootfs.require_root()
    assert first is not None
    rootfs.write_json(first.tree.with_name("root.json"), {"suite": "bookworm", "hash": "other"})
    again = rootfs.require_root()
    assert again is not None and again.hash == first.hash


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_next_try_goes_on(
    brought: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rootfs, "UNPACKED_BYTES", 1 << 60)
    assert "make room" in refusal()
    monkeypatch.setattr(rootfs, "UNPACKED_BYTES", 0)
    # A disk that fills while it is at work, in a namespace of its own.
    full = brought.with_name("full")
    full.mkdir()
    script = 'mount -t tmpfs -o size=300k none "$0" && exec "$1" -c "$2" "$3"'
    python = (
        "import sys; from pathlib import Path; from gostlab.install import locate, rootfs as root\n"
        "root.LOCK, root.BROUGHT = root.LOCK, Path(sys.argv[1])  # it is read when first used\n"
        "root.PACKED = root.BROUGHT / 'root.tar.xz'\n"
        "root.UNPACKED_BYTES = 0\n"
        "try: print(root.require_root())\n"
        "except locate.MissingPart as error: print(error)\n"
    )
    done = said_by(
        *("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script),
        *(full, sys.executable, python, brought),
        env={**os.environ, "GOSTLAB_CACHE": str(full)},
    )
    if "unshare" in done.stderr:
        pytest.skip("no user namespaces")
    assert "No space left on device: make room" in done.stdout, done
    assert rootfs.require_root() is not None


# -- how it is made


def test_the_wheel_is_for_machines_of_either_c_library() -> None:
    tags = wheel.TAG.removeprefix("py3-none-").split(".")
    assert [tag.partition("_")[0] for tag in tags] == ["manylinux", "musllinux"]


def test_a_program_that_asks_for_the_hosts_loader_is_known() -> None:
    assert wheel.asks_for_loader(Path(os.path.realpath(sys.executable)))
    kernels = locate.built_kernels()
    if kernels and shutil.which("gcc"):
        assert not wheel.asks_for_loader(kernels[0])


def test_the_licences_of_a_package_are_read_from_its_copyright(tmp_path: Path) -> None:
    texts = {
        "fields": "Files: *\nLicense: GPL-2+\n text\n\nFiles: b\nLicense: BSD-3-clause\n",
        "prose": "see `/usr/share/common-licenses/GPL-3'.\n",
    }
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "copyright").write_text(text)
    assert wheel.licences_of(tmp_path, ["fields"]) == ["BSD-3-clause", "GPL-2+"]
    assert wheel.licences_of(tmp_path, ["prose"]) == ["GPL-3"]
    assert wheel.licences_of(tmp_path, ["none"]) == []


def test_a_source_is_there_with_all_its_files_alone(tmp_path: Path) -> None:
    text = "Source: b\nFiles:\n " + 32 * "0" + " 12 b_1.orig.tar.xz\n"
    (tmp_path / "b_1-2.dsc").write_text(text)
    assert not wheel.has_source(tmp_path, "b 3:1-2")
    (tmp_path / "b_1.orig.tar.xz").touch()
    assert wheel.has_source(tmp_path, "b 3:1-2")
    assert not wheel.has_source(tmp_path, "b 1-3")


# -- on bare machines


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, in a folder with the libraries that it needs on each of the machines."""
    require_image_tests()
    if apt.find_mirror() is None or rootfs.find_root() is None:
        pytest.skip("no Debian mirror or no root file system for guests")
    place = tmp_path_factory.mktemp("wheels")
    place.chmod(0o755)  # for somebody to read
    file = wheel.make_wheel(place)
    for python in PYTHONS.values():
        words = ["-m", "pip", "download", "--quiet", "--dest", place, "--only-binary=:all:"]
        words += ["--implementation", "cp", "--python-version", python]
        words += [f"--platform=manylinux_2_{each}_x86_64" for each in (17, 27, 28)]
        done = said_by(folders.cache_folder() / "tools/bin/python", *words, file)
        assert done.returncode == 0, done.stderr
    return file


@pytest.fixture(scope="module")
def digests(made: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the samples of the same runs come to, and the root that the machine makes of Debian's
    packages, by the machine's release.
    """
    return {
        suite: run_on(bare(suite, tmp_path_factory.mktemp(suite) / "debian"), made)
        for suite in PYTHONS
    }


def bare(suite: str, place: Path) -> Path:
    """A minimal Debian with Python and nothing of the lab's. debootstrap takes a while."""
    mirror = apt.find_mirror()
    assert mirror is not None
    words = ["--variant=minbase", "--include=python3,python3-venv", suite, place, mirror.uri]
    done = said_by("debootstrap", *words, timeout=3600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert not any((place / "usr/bin" / name).exists() for name in ("iperf3", "mn", "gcc", "ip"))
    shutil.copytree("/etc/apt/apt.conf.d", place / "etc/apt/apt.conf.d", dirs_exist_ok=True)
    return place


FIRST = """
set -eu
cd /class
python3 -m venv lab
lab/bin/pip install --quiet --no-index --find-links /wheels gostlab
before=$(date +%s%N)
lab/bin/gostlab try --loss 1% --cc cubic,bbr --results results
echo "the first answer: $(( ($(date +%s%N) - before) / 1000000 )) ms"
PATH=$PWD/lab/bin:$PATH
gostlab try --rate 10mbit --rtt 40ms --for 2s --cc bbr3 --tunnel relay+wss --results results
gostlab lab start 0 --student alice
sed -i 's/^\\(  [a-z_0-9]*:\\).*/\\1 1/' coursework/0-warm-up/answers.yaml
gostlab lab predict 0
gostlab lab run 0
gostlab lab report 0
gostlab lab hand-in 0
GOSTLAB_CACHE=$PWD/made python -m gostlab.install.rootfs make
"""


def run_on(machine: Path, file: Path) -> list[str]:
    """Install the wheel on a bare machine and ask it things; the sums of what it measured."""
    script = f"""
set -eu
for place in proc sys dev; do mount --rbind /$place {machine}/$place; done
mkdir {machine}/wheels
mount --bind {file.parent} {machine}/wheels
install --directory --owner {SOMEBODY} --group {SOMEBODY} {machine}/class
exec chroot --userspec={SOMEBODY}:{SOMEBODY} {machine} env HOME=/class sh -euc "$0"
"""
    done = said_by(
        *("unshare", "--mount", "--propagation", "private", "sh", "-c", script, FIRST),
        timeout=3600,
        env={"PATH": locate.SYSTEM_PATH, "LC_ALL": "C.UTF-8"},
    )
    said = done.stdout[-6000:] + done.stderr[-4000:]
    assert done.returncode == 0, said
    print(said)
    assert "/ cubic" in done.stdout, said  # the table
    assert "complete: coursework/0-warm-up-alice.zip" in done.stdout, said
    folder = machine / "class"
    files = [path for name in SAMPLES for path in sorted(folder.rglob(f"results/**/{name}"))]
    assert len(files) > len(SAMPLES)
    [made] = folder.glob("made/root/*/root.json")
    return [
        str(locate.read_json(made)),
        *(f"{path.relative_to(folder)} {sha256(path.read_bytes()).hexdigest()}" for path in files),
    ]


def test_it_has_the_parts_for_one_platform_and_is_small_enough_to_share(made: Path) -> None:
    names = {each.filename: each for each in ZipFile(made).infolist()}
    assert made.stat().st_size < 60_000_000
    for pattern in (r"kernel/[^/]+/linux", r"relay/\w+/relay"):
        [program] = [each for each in names if re.fullmatch(f"gostlab/brought/{pattern}", each)]
        assert names[program].external_attr >> 16 & 0o111
    page = ZipFile(made).read("gostlab/brought/licences/README.md").decode()
    assert re.search(r"^\| bash \S+ \| .*GPL-3", page, re.M) and "{" not in page


@pytest.mark.slow
def test_two_bare_machines_answer_and_make_the_same_root_and_runs(
    digests: dict[str, list[str]],
) -> None:
    older, newer = digests.values()
    assert older == newer
    brought = rootfs.find_root()
    assert brought is not None and brought.hash in older[0]  # of packages as in the wheel
