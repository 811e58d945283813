# SPDX-License-Identifier: MIT
"""One seed is one run, wherever the lab lies."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from gostlab.install.locate import built_version
from tests.lab_command import Gost
from tests.registry.contributed import CopiedLab, copy_lab
from tests.sandboxed import cache_at, link_or_copy
from tests.skips import require_kernel

pytestmark = pytest.mark.sandbox

LOSSY_SETTINGS = "profile: plain-100ms, rate: 50mbit, loss: 1%, jitter: 3ms, duration: 1s, cc: bbr"
LOSSY = f"""
name: mine
title: mine
settings: {{{LOSSY_SETTINGS}}}
matrices: [{{name: one}}]
"""
# A lab that has more data, and does other things before a queue and before a load.
MORE_BEFORE = """
import subprocess, time
HELD = [bytes(3000) for _ in range(700)]
as_ever = {name}

def {name}(*asked):
    time.sleep(0.1)
    subprocess.run(["true"])
    return as_ever(*asked)
"""
BEFORE = {
    "host_config": "silence_ipv6",
    "baseline_rtt": "check_idle_rtts",
}  # a module of the guest's: its function
HERE, AWAY, BUSY = "here", "y" * 90, "busy"
SAMPLES = ("flows.json", "sockets.jsonl", "queues.jsonl")


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CopiedLab]:
    """The lab in folders of other names, one of them with more lines in what it reads: their files
    are this checkout's own, which nobody may write to.
    """
    place = tmp_path_factory.mktemp("labs")
    made = {name: copy_lab(place / name, link_or_copy) for name in (HERE, AWAY, BUSY)}
    for name, function in BEFORE.items():
        module = made[BUSY].root / f"gostlab/guest/{name}.py"
        as_it_was = module.read_text()
        module.unlink()
        module.write_text(as_it_was + MORE_BEFORE.format(name=function))
    return made


def several(settings: str, levels: Mapping[str, str]) -> str:
    """An experiment of one run for each: a matrix of its name, and the settings it adds."""
    matrices = [f"{{name: {name}, settings: {{{added}}}}}" for name, added in levels.items()]
    text = LOSSY.replace("matrices: [{name: one}]", f"matrices: [{', '.join(matrices)}]")
    return text.replace(LOSSY_SETTINGS, settings)


def samples_of(lab: CopiedLab, text: str) -> dict[tuple[str, str], bytes]:
    """What a lab samples of an experiment's runs, by matrix and file."""
    found = {}
    for folder in lab.runs(text):
        matrix = json.loads((folder / "run.json").read_text())["matrix"]
        found |= {(matrix, name): (folder / name).read_bytes() for name in SAMPLES}
    shutil.rmtree(lab.root / "mine")
    return found


def but_queues(found: Mapping[tuple[str, str], bytes]) -> dict[tuple[str, str], bytes]:
    return {at: content for at, content in found.items() if at[1] != "queues.jsonl"}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What set-up made, in a folder of another name."""
    return cache_at(tmp_path_factory.mktemp("cache") / "a-cache-of-a-longer-name")


@pytest.mark.parametrize("kernel", ["shipped", "5.10"])
def test_a_run_does_not_depend_on_where_the_lab_lies(
    labs: dict[str, CopiedLab], cache: Path, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    """Neither on how often Python asks for memory, nor on what it reads while the clock goes, nor
    on the names of folders in the kernel's command line: the sockets' ports are drawn.
    """
    if kernel != "shipped":
        require_kernel(kernel)
    text = LOSSY.replace("cc: bbr", f"cc: bbr, kernel: '{kernel}'")

    here = but_queues(samples_of(labs[HERE], text))
    monkeypatch.setenv("GOSTLAB_CACHE", str(cache))

    assert here == but_queues(samples_of(labs[AWAY], text))


@pytest.mark.real_gost
def test_a_run_through_a_gost_does_not_depend_on_where_that_lies(
    labs: dict[str, CopiedLab], tmp_path: Path, gost: Gost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go reads the path of its program, and the sandbox's has one name for the same bytes."""
    require_kernel("5.10")
    program = gost("3.2.6").path
    elsewhere = tmp_path / "in-a-folder-of-a-longer-name/gost"
    elsewhere.parent.mkdir()
    shutil.copy2(program, elsewhere)
    text = LOSSY.replace("cc: bbr", "cc: bbr, tunnel: gost+ws, streams: 4, kernel: '5.10'")
    found = []
    for place in (program, elsewhere):
        monkeypatch.setenv("GOSTLAB_GOST", str(place))
        found.append(but_queues(samples_of(labs[HERE], text)))

    assert found[0] == found[1]


@pytest.mark.real_gost
@pytest.mark.parametrize("version", ["3.0.0-rc8", "3.2.6"])
def test_where_the_labs_python_has_its_data_has_no_say(
    labs: dict[str, CopiedLab], version: str, gost: Gost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other page faults, and other lines of the lab that it reads before the load begins."""
    monkeypatch.setenv("GOSTLAB_GOST", str(gost(version).path))
    text = LOSSY.replace("cc: bbr", "cc: bbr, tunnel: gost+wss")

    assert samples_of(labs[HERE], text) == samples_of(labs[BUSY], text)


def test_what_comes_before_a_load_has_no_say(labs: dict[str, CopiedLab]) -> None:
    """Neither instants nor processes, on any kernel: no timer from before wakes the CPU at another
    one, nor a queue's.
    """
    there = [name for name in ("5.10", "6.1", "6.12") if built_version(name) is not None]
    on = {f"on-{name}": f"kernel: '{name}', loss: 2%" for name in ("shipped", *there)}
    behind = {queue: f"queue: {queue}, cc: bbr" for queue in ("dualpi2", "pie")}
    text = several("profile: plain-100ms, rate: 50mbit, duration: 1s, cc: cubic", on | behind)

    here, busy = (samples_of(labs[name], text) for name in (HERE, BUSY))

    # Where netem has no seed its queues count other losses, of the pings before the load.
    for seedless in {("on-5.10", "queues.jsonl"), ("on-6.1", "queues.jsonl")} & set(here):
        del here[seedless], busy[seedless]
    assert len(here) > len(SAMPLES) and here == busy
