"""Runs on the lab's own root: the same to the bit wherever the lab and its parts lie."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gostlab.declared.folders import cache_folder
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.machine import CHECKOUT
from gostlab.setup.root import Root, chosen_root, find_root
from tests.lab_command import said_by
from tests.sandboxed import describe, direction

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def made() -> Root:
    found = find_root()
    if found is None:
        pytest.skip("the sandbox's own root is not there: run ./lab setup --only root")
    return found


@pytest.fixture(scope="module")
def elsewhere(made: Root, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A copy of the lab, and another cache, with a copy of the root."""
    place = tmp_path_factory.mktemp("a-longer-name-than-the-lab-has")
    for package in ("gostlab", "analysis"):
        shutil.copytree(CHECKOUT / package, place / "lab" / package)
    for file in ("lab", "topo.py"):
        shutil.copy2(CHECKOUT / file, place / "lab")
    for folder in (each for each in CHECKOUT.iterdir() if each.is_dir() and each.name[0] != "."):
        if not (place / "lab" / folder.name).exists():
            (place / "lab" / folder.name).symlink_to(folder)
    cache = without_root(place / "cache")
    folder = made.tree.parent
    shutil.copytree(folder, cache / "root" / folder.name, symlinks=True)
    return place / "lab", cache


def without_root(cache: Path) -> Path:
    """A cache folder with what set-up made but the root."""
    cache.mkdir()
    for part in cache_folder().iterdir():
        if part.is_dir() and part.name != "root":
            (cache / part.name).symlink_to(part)
    return cache


def executed(
    run: RunDescription, folder: Path, lab: Path = CHECKOUT, **environ: str
) -> Mapping[str, Any]:
    """Make a run on the own root; its env.json."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(run.to_json()))
    words = (str(lab / "lab"), "exec", folder / "run.json", folder / "one")
    done = said_by(*words, cwd=lab, env={**os.environ, "GOSTLAB_ROOT": "own", **environ})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((folder / "one/env.json").read_text())
    return found


@pytest.mark.parametrize("tunnel", ["direct", "gost+ws", "wireguard"])
def test_two_labs_and_caches_make_the_same_samples(
    tunnel: str, made: Root, elsewhere: tuple[Path, Path], tmp_path: Path
) -> None:
    path = 2 * [direction(rate_bps=10_000_000, delay_ms=10.0, loss=0.01)]
    run = describe(*path, duration_s=2.0, tunnel=tunnel, cc="bbr")
    lab, cache = elsewhere

    environment = executed(run, tmp_path / "here")
    executed(run, tmp_path / "somewhere/else", lab, GOSTLAB_CACHE=str(cache))

    assert environment["host"]["root"]["hash"] == made.hash
    here, there = tmp_path / "here/one", tmp_path / "somewhere/else/one"
    for name in ("flows.json", "sockets.jsonl", "queues.jsonl", "iperf3.json", "commands.sh"):
        assert (here / name).read_bytes() == (there / name).read_bytes(), name
    assert not (here / ".host").exists()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("owl", "GOSTLAB_ROOT is 'owl': write own or host"),
        ("own", "GOSTLAB_ROOT=own: no own root is there: ./lab setup --only root"),
    ],
)
def test_a_root_that_is_not_there_is_one_line(asked: str, says: str, tmp_path: Path) -> None:
    words = "try --rate 10mbit --rtt 40ms --cc bbr --for 1s --results".split()
    cache = without_root(tmp_path / "cache")
    environ = {**os.environ, "GOSTLAB_ROOT": asked, "GOSTLAB_CACHE": str(cache)}

    done = said_by(str(CHECKOUT / "lab"), *words, tmp_path / "results", cwd=CHECKOUT, env=environ)

    assert done.returncode == 2
    assert done.stderr == f"gostlab: {says}\n"


@pytest.mark.parametrize("asked", [None, "", "host"])
def test_by_default_a_run_is_on_the_hosts_files(
    asked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOSTLAB_ROOT", raising=False)
    if asked is not None:
        monkeypatch.setenv("GOSTLAB_ROOT", asked)
    assert chosen_root() is None
