# SPDX-License-Identifier: MIT
"""docs/how-to/network-test.md: its file, its tests and its commands are as it says."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from gostlab.registry.folders import ROOT, cache_folder
from tests.docs.console import WrittenFile, difference, steps
from tests.lab_command import Typed, said_by

PAGE = ROOT / "docs/how-to/network-test.md"
TEXT = PAGE.read_text("utf-8")
INPUTS = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))["inputs"]


@pytest.mark.sandbox
def test_a_stranger_who_follows_the_page_has_a_network_as_a_test(
    here: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    for step in steps(TEXT):
        if isinstance(step, WrittenFile):
            (here / step.name).write_text(step.text, encoding="utf-8")
            continue
        done = typed(*step.words.split()[1:])
        assert done.returncode == 0, done.stderr
        assert difference(step.shown, done.stdout) == "", done.stdout
    assert Path("junit.xml").exists()

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GOSTLAB_CACHE": str(cache_folder())}
    words = (
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "gostlab.pytest_plugin",
        "-p",
        "no:cacheprovider",
    )
    tests = said_by(
        *words, "--gostlab-results", "results", "--gostlab-update", cwd=here, env=environment
    )
    assert "4 passed" in tests.stdout, tests.stdout
    assert len(json.loads(Path("gostlab-baseline.json").read_text("utf-8"))) == 4


def test_what_the_page_gives_the_action_are_its_inputs() -> None:
    named = set(re.findall(r"\bwith: \{(\w+):", TEXT)) | set(re.findall(r"`(\w+):[^`/]*`", TEXT))
    assert {"run", "wheel", "pytest"} <= named
    assert named <= set(INPUTS)
