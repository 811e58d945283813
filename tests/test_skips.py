# SPDX-License-Identifier: MIT
"""Skipped tests are counted by reason, and a session fails for a reason that nobody allowed."""

import os
import re
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.lab_command import ROOT, said_by
from tests.skips import read_patterns

TESTS = """
import pytest

@pytest.mark.skip(reason="no GOST 9.9: ./lab gost add FILE")
@pytest.mark.parametrize("number", [1, 2])
def test_with_gost(number): ...

def test_with_a_cat():
    pytest.importorskip("no_such_module", reason="no cat")

def test_that_runs(): ...
"""
pytestmark = pytest.mark.slow


def session(
    folder: Path, *allowed: str, workers: int = 0, **variables: str
) -> CompletedProcess[str]:
    """Run three tests of which most are skipped, where these reasons are allowed."""
    (folder / "test_few.py").write_text(TESTS, encoding="utf-8")
    (folder / "allowed").write_text("# reasons\n\n" + "\n".join(allowed), encoding="utf-8")
    words = ["-c", os.devnull, "--rootdir", folder, "-p", "no:cacheprovider", "-p", "tests.skips"]
    words += ["-n", workers] if workers else []
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "GOSTLAB_ALLOWED_SKIPS": "allowed",
    } | variables
    argv = [sys.executable, "-m", "pytest", "-q", *words, "test_few.py"]
    return said_by(*argv, cwd=folder, env=environment)


@pytest.mark.parametrize("workers", [0, 2])
def test_every_reason_has_a_line_and_gost_has_the_last(tmp_path: Path, workers: int) -> None:
    if workers:
        pytest.importorskip("xdist", reason="no pytest-xdist")
    done = session(tmp_path, r"no GOST \S+: .*", "no cat", workers=workers)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped: 2: no GOST 9.9: ./lab gost add FILE\nskipped: 1: no cat\n" in done.stdout
    last = "2 tests of a real GOST were skipped: ./lab gost add FILE brings one"
    assert done.stdout.splitlines()[-1] == last


def test_a_reason_that_is_not_allowed_in_full_fails_the_session(tmp_path: Path) -> None:
    done = session(tmp_path, "no GOST", "no c")

    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "skipped for a reason not in allowed: no cat\n" in done.stdout
    assert "skipped for a reason not in allowed: no GOST 9.9: ./lab gost add FILE" in done.stdout


@pytest.mark.parametrize("workers", [0, 2])
def test_skipped_tests_can_be_written_down_and_run_alone(tmp_path: Path, workers: int) -> None:
    if workers:
        pytest.importorskip("xdist", reason="no pytest-xdist")
    session(tmp_path, ".*", workers=workers, GOSTLAB_WRITE_SKIPPED="skipped")
    skipped = (tmp_path / "skipped").read_text(encoding="utf-8").splitlines()
    again = session(tmp_path, ".*", workers=workers, GOSTLAB_ONLY_TESTS="skipped")

    few = "test_few.py::test_with"
    assert skipped == [f"{few}_a_cat", f"{few}_gost[1]", f"{few}_gost[2]"]
    assert "3 skipped" in again.stdout and "passed" not in again.stdout


def test_a_list_that_is_no_list_is_refused_with_its_line(tmp_path: Path) -> None:
    done = session(tmp_path, "no [cat")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert re.search(r"allowed:3: no \[cat: unterminated character set", done.stderr)
    with pytest.raises(pytest.UsageError, match="No such file"):
        read_patterns(tmp_path / "none")


def test_ci_allows_no_skip_of_a_part_that_make_test_brings() -> None:
    patterns = read_patterns(ROOT / ".ci/allowed-skips")
    allowed = ["no GOST 3.2.6: ./lab gost add FILE", "no vagrant"]
    refused = ["no kernel: ./lab setup", "no chromium", "needs root"]
    assert all(any(each.fullmatch(text) for each in patterns) for text in allowed)
    assert not any(each.fullmatch(text) for text in refused for each in patterns)
