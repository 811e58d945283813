# SPDX-License-Identifier: MIT
"""The steps of action.yml and of GitLab's template, run here."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gostlab.registry.folders import ROOT
from tests.lab_command import said_by

STEPS = ROOT / ".ci/action"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
GITLAB = yaml.safe_load((ROOT / ".ci/gitlab/gostlab.yml").read_text("utf-8"))[".gostlab"]
FILE = """name: mine
title: Mine
settings: {profile: plain-100ms, rate: 10mbit, rtt: 20ms, duration: 1s}
matrices:
  - name: main
    factors: {cc: [cubic]}
    expect: {goodput: ">= 2 Mbit/s"}
"""
STUB = '#!/bin/sh\necho "$(basename "$0")" "$@" >>said\nexit "${STATUS:-0}"\n'


def step(name: str, here: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GOSTLAB_PREFIX": str(here / "prefix"), **variables}
    return said_by(STEPS / name, cwd=here, env=environment)


@pytest.fixture
def stubs(here: Path) -> Path:
    """A folder whose gostlab and pytest write down what they were called with."""
    (here / "prefix/bin").mkdir(parents=True)
    for name in ("gostlab", "gostlab-pytest"):
        (here / "prefix/bin" / name).write_text(STUB)
        (here / "prefix/bin" / name).chmod(0o755)
    return here


def scripts_of(text: str) -> set[str]:
    return set(re.findall(r"\.ci/action/([a-z-]+)", text))


def test_every_step_is_a_script_that_can_be_run() -> None:
    steps: list[dict[str, Any]] = ACTION["runs"]["steps"]
    called = scripts_of(" ".join(step.get("run", "") for step in steps))
    in_gitlab = scripts_of(
        " ".join(GITLAB["before_script"] + GITLAB["script"] + GITLAB["after_script"])
    )
    assert called == {"cache-key", "install", "run", "summary"}
    assert in_gitlab == called - {"cache-key"}
    assert all(os.access(STEPS / name, os.X_OK) for name in called)


def test_what_a_step_is_given_is_an_input_and_a_variable_that_it_reads() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    assert set(re.findall(r"inputs\.([a-z]+)", text)) == set(ACTION["inputs"])
    read = " ".join((STEPS / name).read_text("utf-8") for name in ("cache-key", "install", "run"))
    given = set(re.findall(r"^\s+(?:env: \{ )?(GOSTLAB_[A-Z]+):", text, re.MULTILINE))
    assert given and all(name in read for name in given)


def test_the_key_is_that_of_what_is_built(here: Path) -> None:
    key = step("cache-key", here, GITHUB_OUTPUT="out").stdout.strip()
    assert re.fullmatch(r"gostlab-\w+-[0-9a-f]{16}", key)
    assert Path("out").read_text() == f"parts={key}\n"
    assert step("cache-key", here).stdout.strip() == key
    (here / "a.whl").write_bytes(b"wheel")
    assert step("cache-key", here, GOSTLAB_WHEEL="a.whl").stdout.strip() != key


def test_files_are_run_with_junit_and_their_exit_code(stubs: Path) -> None:
    files = "one.yaml\ntwo.yaml\n"
    done = step("run", stubs, GOSTLAB_RUN=files, GOSTLAB_OPTIONS="--quick", STATUS="1")
    assert done.returncode == 1
    assert (
        Path("said").read_text().split()
        == (
            "gostlab run one.yaml two.yaml --quick --results gostlab-results"
            " --junit gostlab-results/junit.xml"
        ).split()
    )


def test_pytest_is_run_in_their_place(stubs: Path) -> None:
    assert step("run", stubs, GOSTLAB_PYTEST="-n 2 tests/net").returncode == 0
    assert (
        Path("said").read_text().split()
        == (
            "gostlab-pytest --gostlab-results gostlab-results"
            " --junit-xml gostlab-results/junit.xml -n 2 tests/net"
        ).split()
    )


def test_nothing_to_run_is_refused(stubs: Path) -> None:
    done = step("run", stubs)
    assert done.returncode == 2 and "neither an experiment" in done.stderr


def test_without_results_the_summary_says_so(stubs: Path) -> None:
    assert step("summary", stubs, STATUS="2", GITHUB_STEP_SUMMARY="out.md").returncode == 0
    assert "no run has a result" in Path("out.md").read_text()


@pytest.mark.sandbox
def test_a_file_is_run_and_summed_up(here: Path) -> None:
    (here / "prefix/bin").mkdir(parents=True)
    (here / "prefix/bin/gostlab").symlink_to(ROOT / "lab")
    (here / "mine.gostlab.yaml").write_text(FILE)
    done = step("run", here, GOSTLAB_RUN="./mine.gostlab.yaml")
    assert done.returncode == 0, done.stderr
    step("summary", here, GITHUB_STEP_SUMMARY="out.md")
    summary = Path("out.md").read_text("utf-8")
    assert "2 tests, 0 failed." in summary
    assert "Expectations" in summary and "passed" in summary
    assert "xychart-beta" in summary and "bar [" in summary


def test_a_checkout_brings_the_commands_that_the_steps_call(here: Path) -> None:
    (here / "checkout/.ci/action").mkdir(parents=True)
    shutil.copy(STEPS / "install", here / "checkout/.ci/action/install")
    (here / "checkout/lab").write_text(STUB)
    (here / "checkout/lab").chmod(0o755)
    (here / "cache/python/bin").mkdir(parents=True)
    (here / "cache/python/bin/python").write_text('#!/bin/sh\necho "$PYTHONPATH" "$@"\n')
    (here / "cache/python/bin/python").chmod(0o755)
    environment = {
        **os.environ,
        "GOSTLAB_PREFIX": str(here / "prefix"),
        "GOSTLAB_CACHE": str(here / "cache"),
        "GITHUB_PATH": "path",
        "GOSTLAB_WHEEL": "",
    }
    done = said_by(here / "checkout/.ci/action/install", cwd=here, env=environment)
    assert done.returncode == 0, done.stderr
    assert Path("said").read_text() == "lab setup --with test\n"
    assert Path("path").read_text() == f"{here}/prefix/bin\n"
    assert (here / "prefix/bin/gostlab").resolve() == here / "checkout/lab"
    called = said_by(here / "prefix/bin/gostlab-pytest", "-x").stdout
    assert called == f"{here}/checkout -m pytest -p gostlab.pytest_plugin -x\n"
