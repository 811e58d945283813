# SPDX-License-Identifier: MIT
"""./lab worst: what is searched, what is refused, and a search of a small budget in the sandbox."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from gostlab.search.search_space import read_axes
from gostlab.spec.profile import load_profile
from tests.lab_command import ROOT, Typed, run_here

# Runs come one at a time: no machine ends them all before it is interrupted.
SMALL = (
    "worst --cc cubic --against reno --over rate=2mbit..8mbit,buffer,queue=fifo|codel --budget 12"
    " --jobs 1 --set rtt=20ms --set duration=2s --json"
).split()
ANSWERED = 7  # of its twelve runs


def test_a_name_alone_has_its_usual_range() -> None:
    [rate, rtt, queue] = read_axes("rate,rtt=10ms..100ms,queue=fifo|codel")
    assert (rate.text(0.0), rate.text(1.0)) == ("1mbit", "100mbit")
    assert rtt.text(0.5) == "31.62ms"  # on a log scale
    assert queue.levels == ("fifo", "codel") and queue.text("codel") == "codel"


def test_a_range_from_zero_is_linear_and_whole_numbers_stay_whole() -> None:
    [loss, streams] = read_axes("forward.loss=0%..4%,streams=1..9")
    assert loss.text(0.5) == "2%" and streams.text(0.4) == "2"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompletedProcess[str]]:
    """A search that nobody interrupted: its folder, and what it came to."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run_here(*SMALL, *into(folder))


def into(folder: Path) -> tuple[object, ...]:
    return ("--results", folder, "--out", folder)


@pytest.mark.sandbox
def test_a_search_ends_with_a_path_that_is_confirmed(
    whole: tuple[Path, CompletedProcess[str]], typed: Typed
) -> None:
    folder, done = whole
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    worst = found["paths"][0]
    # Where the buffer is smallest, a flow may lose its first segment.
    assert found["searched"] == 8 and found["without_answer"] <= 1
    assert len(worst["values"]) == 5 and 0 < worst["value"] < 1
    profile = load_profile(found["profile"])
    assert profile.name == "worst-cubic-reno-share"
    asked = json.loads((Path(worst["run"]) / "run.json").read_text(encoding="utf-8"))
    written = yaml.safe_load(Path(found["profile"]).read_text(encoding="utf-8"))["forward"]
    assert written["rate"] == worst["settings"]["rate"] and written["delay"] == "10ms"
    assert asked["factors"] == worst["settings"] and asked["path"]["forward"]["delay_ms"] == 10.0

    again = typed(*SMALL, *into(folder))  # asks the same, and has the answers
    assert json.loads(again.stdout) == found


@pytest.mark.sandbox
def test_a_search_that_is_interrupted_goes_on_to_the_same_path(
    tmp_path: Path, whole: tuple[Path, CompletedProcess[str]], typed: Typed
) -> None:
    """It has had its first answers, which are the other's, before it is interrupted at one more."""
    made = sorted(whole[0].glob("*/*/status.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in made[:ANSWERED]:
        shutil.copytree(path.parent, tmp_path / path.parent.relative_to(whole[0]))
    words = [*SMALL, *map(str, into(tmp_path))]
    running = subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-m", "gostlab", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while len(finished(tmp_path)) == ANSWERED:
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    printed, said = running.communicate(timeout=60)
    assert running.returncode == 130 and printed == "", said
    assert "interrupted" in said and "Traceback" not in said
    kept = finished(tmp_path)
    assert len(kept) > ANSWERED

    resumed = typed(*words)
    assert resumed.returncode == 0, resumed.stderr
    assert found_by(resumed) == found_by(whole[1])
    ends = finished(tmp_path)
    assert kept.items() <= ends.items() and len(kept) < len(ends)  # none was run twice
    assert ends.keys() == finished(whole[0]).keys()


def finished(results: Path) -> dict[str, bytes]:
    """The runs that have ended, and how."""
    return {path.parent.name: path.read_bytes() for path in results.glob("*/*/status.json")}


def found_by(done: CompletedProcess[str]) -> dict[str, Any]:
    """What a search found, without where its files are."""
    found: dict[str, Any] = json.loads(done.stdout)
    for path in found["paths"]:
        path["run"] = Path(path["run"]).name
    return found | {"profile": ""}
