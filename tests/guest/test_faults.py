"""Interrupted, full, tampered with: finished results stay, the matrix goes on, nothing is left
behind.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gostlab import results
from gostlab.machine import CHECKOUT
from tests.lab_command import said_by
from tests.offspring import adopt_orphans, all_gone
from tests.sandboxed import Lab, describe, direction

pytestmark = pytest.mark.sandbox

MATRIX = """name: small
title: the smallest matrix
settings: {profile: plain-100ms, rate: 1mbit, duration: 1s}
matrices:
  - name: main
    factors: {cc: [cubic, bbr], streams: [1, 2]}
"""


def run_words(file: Path, place: Path) -> list[str]:
    words = f"-m gostlab run {file} --results {place} --machine sandbox"
    return [sys.executable, *words.split()]


def ran(words: list[str]) -> subprocess.CompletedProcess[str]:
    """The lab's own end of it."""
    return said_by(*words, timeout=120)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of that size."""
    disk = folder / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def finished(place: Path) -> dict[str, bytes]:
    """Every finished run's status, as it stands on disk."""
    return {path.parent.name: path.read_bytes() for path in place.glob("small/*/status.json")}


@pytest.fixture(autouse=True)
def orphans() -> None:
    """What a killed scheduler leaves would be ours, whatever else runs on the machine."""
    adopt_orphans()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_scheduler_ended_at_any_moment_loses_nothing_and_goes_on(
    tmp_path: Path, number: int
) -> None:
    file, place = tmp_path / "small.yaml", tmp_path / "results"
    file.write_text(MATRIX)
    moments = random.Random(number)
    kept: dict[str, bytes] = {}
    for _ in range(2):
        # A job that a script put into the background ignores SIGINT, and so would its children.
        process = subprocess.Popen(
            ["env", "--default-signal=INT", *run_words(file, place)],
            cwd=CHECKOUT,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(moments.uniform(0.3, 3.0))
        process.send_signal(number)
        _, words = process.communicate(timeout=30)

        # Else a busy machine had not even begun Python, which then has words of its own.
        if place.exists():
            assert "Traceback" not in words
            assert process.returncode in (0, 130)
        assert not all_gone()
        now = finished(place)
        assert kept.items() <= now.items()  # nothing that was finished has changed
        kept = now

    done = ran(run_words(file, place))

    assert done.returncode == 0, done.stderr
    assert kept.items() <= finished(place).items() and len(finished(place)) == 4


needs_mount = pytest.mark.skipif(os.geteuid() != 0, reason="a small disk needs root to mount")


@needs_mount
def test_a_disk_that_fills_during_a_run_leaves_it_unfinished(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path, "200k") as disk:
        monkeypatch.setattr(lab, "scratch", disk)
        path = direction(rate_bps=10_000_000)
        done = lab.run(describe(path, path, streams=8, sample_ms=10.0, duration_s=20.0))
        assert done.outcome["outcome"] != "ok"
        # Whoever started it cannot write how it ended either: an error in a sentence, and a run
        # that is still to be done.
        with pytest.raises(OSError, match="No space left"):
            results.finish(done.folder, 1.0, None)
        assert results.read_status(done.folder) is None


@needs_mount
def test_a_full_disk_before_a_run_is_one_line_and_keeps_results(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(MATRIX)
    with small_disk(tmp_path, "2m") as disk:
        done = ran(run_words(file, disk / "results"))
    assert done.returncode == 1
    assert "MB free" in done.stderr and "Traceback" not in done.stderr


def test_a_run_folder_that_was_tampered_with_is_run_again(tmp_path: Path) -> None:
    file, place = tmp_path / "small.yaml", tmp_path / "results"
    file.write_text(MATRIX)
    words = [*run_words(file, place), "--set", "cc=cubic", "--set", "streams=1"]
    ran(words).check_returncode()
    folder = next(place.glob("small/*/status.json")).parent
    (folder / "run.json").write_text("{}")
    shutil.rmtree(folder / ".uml", ignore_errors=True)

    ran(words).check_returncode()

    assert json.loads((folder / "run.json").read_text())["cc"] == "cubic"


def test_a_run_that_the_labs_own_exception_ended_says_so_and_is_not_finished(lab: Lab) -> None:
    run = describe(duration_s=1.0, tunnel="gost+ws")

    # a program handed over without its version: a mistake that only a bug of the lab makes
    done = lab.run(run, tunnel={"path": "/bin/true"})

    assert done.outcome["outcome"] == "failed"
    assert done.outcome["cause"] == results.OWN_ERROR
    assert "TypeError" in done.outcome["error"] and "Traceback" in done.log
    results.finish(done.folder, 1.0, None)
    assert not results.is_finished(done.folder, run)
