"""One seed is one run, wherever the lab lies."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from gostlab.declared.folders import cache_folder
from gostlab.setup.parts import TunnelBinary, built_version
from tests.declared.contributed import copy_lab

pytestmark = pytest.mark.sandbox

LOSSY = """
name: mine
title: mine
settings: {profile: plain-100ms, rate: 50mbit, loss: 1%, jitter: 3ms, duration: 2s, cc: bbr}
matrices: [{name: one}]
"""
# A lab that does other things before a load.
MORE_BEFORE = """
import subprocess, time
as_ever = check_idle

def check_idle(*asked):
    time.sleep(0.1)
    subprocess.run(["true"])
    return as_ever(*asked)
"""


def link_or_copy(source: str, target: str) -> None:
    """The same file, or a copy where that is another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


SAMPLES = ("flows.json", "sockets.jsonl", "queues.jsonl")


def runs_are_equal(folder: Path, text: str, more: str, samples: Sequence[str] = SAMPLES) -> None:
    """Run an experiment by this lab and by one with more lines in what it reads before a load."""
    runs = []
    for number, added in enumerate(("", more)):
        lab = copy_lab(folder / f"lab-{number}")
        with (lab.root / "gostlab/guest/idle.py").open("a", encoding="utf-8") as module:
            module.write(added)
        runs.append(lab.run(text))
    for file in samples:
        assert (runs[0] / file).read_bytes() == (runs[1] / file).read_bytes()


@pytest.mark.parametrize("kernel", ["shipped", "5.10"])
def test_a_run_does_not_depend_on_where_the_lab_lies(
    tmp_path: Path, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither on how often Python asks for memory, nor on what it reads while the clock goes, nor
    on the names of folders in the kernel's command line: the sockets' ports are drawn.
    """
    text = LOSSY.replace("cc: bbr", f"cc: bbr, kernel: '{kernel}'")
    names = ("here", "else", "there-in-a-folder-of-a-longer-name", "y" * 90)
    runs = [copy_lab(tmp_path / name).run(text) for name in names]
    cache = tmp_path / "a-cache-of-a-longer-name"
    others = shutil.ignore_patterns("*tools", "*.lock", "build", "log", "python")
    shutil.copytree(cache_folder(), cache, symlinks=True, ignore=others, copy_function=link_or_copy)
    monkeypatch.setenv("GOSTLAB_CACHE", str(cache))
    runs.append(copy_lab(tmp_path / "last").run(text))

    for file in ("flows.json", "sockets.jsonl"):
        found = [(run / file).read_bytes() for run in runs]
        assert found[1:] == found[:-1]


@pytest.mark.real_gost
def test_a_run_through_a_gost_does_not_depend_on_where_that_lies(
    tmp_path: Path, gosts: dict[str, TunnelBinary], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go reads the path of its program, and the sandbox's has one name for the same bytes."""
    if "3.2.6" not in gosts:
        pytest.skip("there is no GOST 3.2.6")
    elsewhere = tmp_path / "in-a-folder-of-a-longer-name/gost"
    elsewhere.parent.mkdir()
    shutil.copy2(gosts["3.2.6"].path, elsewhere)
    text = LOSSY.replace("cc: bbr", "cc: bbr, tunnel: gost+ws, streams: 4, kernel: '5.10'")
    found = []
    for place in (gosts["3.2.6"].path, elsewhere):
        monkeypatch.setenv("GOSTLAB_GOST", str(place))
        found.append(copy_lab(tmp_path / f"lab-{len(found)}").run(text))

    for file in ("flows.json", "sockets.jsonl"):
        assert (found[0] / file).read_bytes() == (found[1] / file).read_bytes()


@pytest.mark.real_gost
@pytest.mark.parametrize("version", ["3.0.0-rc8", "3.2.6"])
def test_where_the_labs_python_has_its_data_has_no_say(
    tmp_path: Path, version: str, gosts: dict[str, TunnelBinary], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other page faults, and other lines of the lab that it reads before the load begins."""
    if version not in gosts:
        pytest.skip(f"there is no GOST {version}")
    monkeypatch.setenv("GOSTLAB_GOST", str(gosts[version].path))
    text = LOSSY.replace("cc: bbr", "cc: bbr, tunnel: gost+wss")
    runs_are_equal(tmp_path, text, "HELD = [bytes(3000) for _ in range(700)]\n")


@pytest.mark.parametrize("kernel", ["shipped", "5.10", "6.1", "6.12"])
def test_what_comes_before_a_load_has_no_say(tmp_path: Path, kernel: str) -> None:
    """Neither instants nor processes: no timer from before wakes the CPU at another one."""
    if kernel != "shipped" and built_version(kernel) is None:
        pytest.skip(f"there is no kernel {kernel} here: ./lab kernel add {kernel}")
    text = LOSSY.replace("jitter: 3ms", "jitter: 0ms").replace("loss: 1%", "loss: 2%")
    text = text.replace("cc: bbr", f"cc: cubic, kernel: '{kernel}'")
    # Where netem has no seed its queues count other losses, of the pings before the load.
    samples = SAMPLES[:2] if kernel in ("5.10", "6.1") else SAMPLES
    runs_are_equal(tmp_path, text, MORE_BEFORE, samples)
