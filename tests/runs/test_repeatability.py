"""One seed is one run, wherever the lab lies."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from gostlab.setup.parts import built_version
from tests.declared.contributed import CopiedLab, copy_lab
from tests.lab_command import Gost
from tests.sandboxed import cache_at

pytestmark = pytest.mark.sandbox

LOSSY = """
name: mine
title: mine
settings: {profile: plain-100ms, rate: 50mbit, loss: 1%, jitter: 3ms, duration: 2s, cc: bbr}
matrices: [{name: one}]
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
BEFORE = {"hosts": "silence_ipv6", "idle": "check_idle"}  # a module of the guest's: its function
HERE, AWAY, FAR, BUSY = "here", "there-in-a-folder-of-a-longer-name", "y" * 90, "busy"
SAMPLES = ("flows.json", "sockets.jsonl", "queues.jsonl")


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CopiedLab]:
    """Copies of the lab in folders of other names, one of them with more lines in what it reads."""
    place = tmp_path_factory.mktemp("labs")
    made = {name: copy_lab(place / name) for name in (HERE, AWAY, FAR, BUSY)}
    for name, function in BEFORE.items():
        module = made[BUSY].root / f"gostlab/guest/{name}.py"
        module.write_text(module.read_text() + MORE_BEFORE.format(name=function))
    return made


def samples_of(lab: CopiedLab, text: str, names: Sequence[str] = SAMPLES[:2]) -> list[bytes]:
    """What a lab samples of an experiment's run."""
    folder = lab.run(text).folder
    found = [(folder / name).read_bytes() for name in names]
    shutil.rmtree(lab.root / "mine")
    return found


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What set-up made, in a folder of another name."""
    return cache_at(tmp_path_factory.mktemp("cache") / "a-cache-of-a-longer-name")


@pytest.mark.parametrize("kernel", ["shipped", "5.10"])
def test_a_run_does_not_depend_on_where_the_lab_lies(
    labs: dict[str, CopiedLab], cache: Path, kernel: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither on how often Python asks for memory, nor on what it reads while the clock goes, nor
    on the names of folders in the kernel's command line: the sockets' ports are drawn.
    """
    text = LOSSY.replace("cc: bbr", f"cc: bbr, kernel: '{kernel}'")

    here, far = (samples_of(labs[name], text) for name in (HERE, FAR))
    monkeypatch.setenv("GOSTLAB_CACHE", str(cache))
    away = samples_of(labs[AWAY], text)

    assert here == far == away


@pytest.mark.real_gost
def test_a_run_through_a_gost_does_not_depend_on_where_that_lies(
    labs: dict[str, CopiedLab], tmp_path: Path, gost: Gost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go reads the path of its program, and the sandbox's has one name for the same bytes."""
    program = gost("3.2.6").path
    elsewhere = tmp_path / "in-a-folder-of-a-longer-name/gost"
    elsewhere.parent.mkdir()
    shutil.copy2(program, elsewhere)
    text = LOSSY.replace("cc: bbr", "cc: bbr, tunnel: gost+ws, streams: 4, kernel: '5.10'")
    found = []
    for place in (program, elsewhere):
        monkeypatch.setenv("GOSTLAB_GOST", str(place))
        found.append(samples_of(labs[HERE], text))

    assert found[0] == found[1]


@pytest.mark.real_gost
@pytest.mark.parametrize("version", ["3.0.0-rc8", "3.2.6"])
def test_where_the_labs_python_has_its_data_has_no_say(
    labs: dict[str, CopiedLab], version: str, gost: Gost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other page faults, and other lines of the lab that it reads before the load begins."""
    monkeypatch.setenv("GOSTLAB_GOST", str(gost(version).path))
    text = LOSSY.replace("cc: bbr", "cc: bbr, tunnel: gost+wss")

    assert samples_of(labs[HERE], text, SAMPLES) == samples_of(labs[BUSY], text, SAMPLES)


@pytest.mark.parametrize("kernel", ["shipped", "5.10", "6.1", "6.12"])
def test_what_comes_before_a_load_has_no_say(labs: dict[str, CopiedLab], kernel: str) -> None:
    """Neither instants nor processes: no timer from before wakes the CPU at another one."""
    if kernel != "shipped" and built_version(kernel) is None:
        pytest.skip(f"there is no kernel {kernel} here: ./lab kernel add {kernel}")
    text = LOSSY.replace("jitter: 3ms", "jitter: 0ms").replace("loss: 1%", "loss: 2%")
    text = text.replace("cc: bbr", f"cc: cubic, kernel: '{kernel}'")
    # Where netem has no seed its queues count other losses, of the pings before the load.
    names = SAMPLES[:2] if kernel in ("5.10", "6.1") else SAMPLES

    assert samples_of(labs[HERE], text, names) == samples_of(labs[BUSY], text, names)


@pytest.mark.parametrize("queue", ["dualpi2", "pie"])
def test_what_comes_before_a_queue_has_no_say_in_when_its_timer_goes_off(
    labs: dict[str, CopiedLab], queue: str
) -> None:
    text = LOSSY.replace("loss: 1%, jitter: 3ms, ", "").replace("cc: bbr", f"queue: {queue}")

    assert samples_of(labs[HERE], text, SAMPLES) == samples_of(labs[BUSY], text, SAMPLES)
