# SPDX-License-Identifier: MIT
"""Runs on the lab's own root: the same to the bit wherever the lab and its parts lie."""

import compileall
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gostlab.install.rootfs import GuestRoot, require_root
from gostlab.sandbox import CHECKOUT, root_of_run, rootfs
from gostlab.spec.run_spec import RunSpec
from tests.asked import run_of
from tests.lab_command import said_by
from tests.sandboxed import SAMPLED, describe, direction, without_root
from tests.skips import require_root_tree

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def made() -> GuestRoot:
    return require_root_tree()


@pytest.fixture(scope="module")
def elsewhere(made: GuestRoot, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy of the lab that has byte code of what guests import, as pip leaves it, and kinds and
    modules of its own; and another cache, with a copy of the root.
    """
    place = tmp_path_factory.mktemp("a-longer-name-than-the-lab-has")
    for package in ("gostlab", "analysis"):
        shutil.copytree(CHECKOUT / package, place / "lab" / package)
    for file in ("lab", "topo.py"):
        shutil.copy2(CHECKOUT / file, place / "lab")
    for more in ("qdiscs/later", "tunnels/later", "guest/later"):
        (place / f"lab/gostlab/{more}.py").write_text("import wave\n", encoding="ascii")
    compileall.compile_dir(place / "lab/gostlab/guest", quiet=2)
    for folder in (each for each in CHECKOUT.iterdir() if each.is_dir() and each.name[0] != "."):
        if not (place / "lab" / folder.name).exists():
            (place / "lab" / folder.name).symlink_to(folder)
    cache = without_root(place / "cache")
    folder = made.tree.parent
    shutil.copytree(folder, cache / "root" / folder.name, symlinks=True)
    return place / "lab", cache


def executed(run: RunSpec, folder: Path, lab: Path = CHECKOUT, **environ: str) -> Mapping[str, Any]:
    """Make a run on the own root; its env.json."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(run.to_json()))
    words = (str(lab / "lab"), "exec", folder / "run.json", folder / "one")
    done = said_by(*words, cwd=lab, env={**os.environ, **environ})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "one/env.json").read_text())
    return found


@pytest.mark.parametrize(("tunnel", "queue"), [("gost+ws", "bfifo"), ("wireguard", "dualpi2")])
def test_two_labs_and_caches_make_the_same_samples(
    tunnel: str, queue: str, made: GuestRoot, elsewhere: tuple[Path, Path], tmp_path: Path
) -> None:
    path = 2 * [direction(rate_bps=10_000_000, delay_ms=10.0, loss=0.01)]
    run = describe(*path, duration_s=1.0, tunnel=tunnel, cc="bbr", queue=queue)
    lab, cache = elsewhere

    environment = executed(run, tmp_path / "here")
    executed(run, tmp_path / "somewhere/else", lab, GOSTLAB_CACHE=str(cache))

    assert environment["host"]["root"]["hash"] == made.hash
    assert environment["modules_read"] == "together"
    here, there = tmp_path / "here/one", tmp_path / "somewhere/else/one"
    for name in (*SAMPLED, "iperf3.json", "commands.sh"):
        assert (here / name).read_bytes() == (there / name).read_bytes(), name
    assert not (here / ".host").exists()


def test_what_a_run_imports_is_kept_and_made_anew_when_a_source_changes(
    made: GuestRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, cache = tmp_path / "code/gostlab/one.py", tmp_path / "cache"
    source.parent.mkdir(parents=True)
    source.touch()
    replaced = {"CODE": tmp_path / "code", "TOPOLOGY_FILE": source, "cache_folder": lambda: cache}
    for name, value in replaced.items():
        monkeypatch.setattr(rootfs, name, value)

    def kept() -> Path:
        [folder] = rootfs.bundle_folder(made).values()
        assert (folder / "gostlab/guest/run.pyc").is_file()
        return folder

    first = kept()
    assert kept() == first
    os.utime(source, 2 * (time.time() - 86400,))  # as an older version's
    second = kept()
    source.with_name("two.py").touch()
    assert len({first, second, kept()}) == 3
    source.with_name("two.py").unlink()
    assert kept() == second
    assert not list(second.parent.glob(".*"))

    shutil.rmtree(cache)
    cache.write_text("a file, where none can lie")
    assert rootfs.bundle_folder(made) == {}


def test_what_is_kept_is_this_labs_in_the_folder_of_another_one(
    made: GuestRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "gostlab/__init__.py"
    other.parent.mkdir()
    other.write_text("raise ImportError('another checkout')")
    monkeypatch.setattr(rootfs, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.chdir(tmp_path)

    [folder] = rootfs.bundle_folder(made).values()

    assert (folder / "gostlab/guest/run.pyc").is_file()


def test_byte_code_of_a_lab_that_is_gone_goes_too_after_a_day(tmp_path: Path) -> None:
    """Not before: a lab in a container shares the cache, and its checkout is not seen outside. Of
    this lab's own that of another root goes.
    """
    two_days_ago = time.time() - 2 * 86400
    labs = {"here": CHECKOUT, "container": "/not/seen", "lost": "/not/there", "earlier": CHECKOUT}
    for name, lab in labs.items():
        folder = tmp_path / "compiled" / name
        folder.mkdir(parents=True)
        (folder / "of").symlink_to(lab)
        if name != "container":
            os.utime(folder, 2 * (two_days_ago,))

    os.utime(tmp_path / "compiled/here")
    rootfs.remove_orphaned_bundles(tmp_path / "compiled/here")

    assert sorted(os.listdir(tmp_path / "compiled")) == ["container", "here"]
    # A clock that jumps by days between two calls makes nothing of one's own old.
    os.utime(tmp_path / "compiled/here", 2 * (two_days_ago,))
    rootfs.remove_orphaned_bundles(tmp_path / "compiled/here")
    assert sorted(os.listdir(tmp_path / "compiled")) == ["container", "here"]


@pytest.mark.parametrize(
    ("asked", "is_made", "says"),
    [
        ("owl", True, "GOSTLAB_ROOT is 'owl': write a root's hash"),
        ("", False, "the sandbox's root is missing: run ./lab setup --only root"),
        # What a shard, a job of an array or a container is started with.
        ("{other}", True, "{other:.12}.*{made:.12}"),
    ],
    ids=["no such word", "missing", "another"],
)
def test_a_root_that_is_not_there_is_one_line_before_a_run_is_made(
    asked: str, is_made: bool, says: str, made: GuestRoot, tmp_path: Path
) -> None:
    known = {"made": made.hash, "other": made.hash[::-1]}
    run = tmp_path / "run.json"
    run.write_text(json.dumps(describe(duration_s=1.0).to_json()))
    environ = {**os.environ, "GOSTLAB_ROOT": asked.format(**known)}
    if not is_made:
        environ["GOSTLAB_CACHE"] = str(without_root(tmp_path / "cache"))

    done = said_by(str(CHECKOUT / "lab"), "exec", run, tmp_path / "one", env=environ)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert re.search(says.format(**known), done.stderr), done.stderr
    assert not (tmp_path / "one").exists()


@pytest.mark.parametrize("asked", ["", "{hash}", "{hash:.12}"])
def test_a_guest_is_on_the_root_that_is_asked_for_and_on_the_own_one_unasked(
    asked: str, made: GuestRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSTLAB_ROOT", asked.format(hash=made.hash))
    assert require_root() == made


def test_a_program_of_the_users_own_is_in_a_guest_with_the_hosts_files(made: GuestRoot) -> None:
    run = run_of(flows="{mine: {kind: command, server: x, client: y}}")
    assert root_of_run(describe()) == made and root_of_run(run) is None
