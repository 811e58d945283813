# SPDX-License-Identifier: MIT
"""`./lab run` and `try` say what of their expectations holds, and end with 1 if one does not."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gostlab.cli import main
from tests.lab_command import Typed

FILE = """name: mine
title: Mine
settings: {profile: plain-100ms, rate: 10mbit, rtt: 20ms, duration: 1s}
matrices:
  - name: main
    factors: {cc: [cubic, bbr]}
    expect:
      goodput: ">= 2 Mbit/s"
      bbr.goodput: ">= 3 × cubic.goodput"
"""


@pytest.mark.sandbox
def test_a_file_s_expectations_are_judged_and_reported(here: Path, typed: Typed) -> None:
    Path("mine.yaml").write_text(FILE)
    run = ("run", "./mine.yaml", "--machine", "sandbox")
    said = typed(*run, "--junit", "out/junit.xml")
    assert said.returncode == 1
    assert "3 expectations: 2 passed, 1 failed" in said.stdout
    assert "goodput >= 2 Mbit/s" in said.stdout and "cubic.goodput is" in said.stdout

    suite = ElementTree.parse("out/junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "0",
        "skipped": "0",
    }
    (failed,) = [case for case in suite if case.find("failure") is not None]
    assert failed.get("name") == "bbr: bbr.goodput >= 3 × cubic.goodput"

    printed = json.loads(typed(*run, "--json").stdout)
    states = [each["state"] for each in printed["expectations"]]
    assert states == ["passed", "passed", "failed"]

    # the same runs, other expectations
    Path("mine.yaml").write_text(FILE.replace("3 × cubic", "0.5 × cubic"))
    assert typed(*run).returncode == 0
    assert main.main(["report", "mine"]) == 0
    page = Path("results/report/report.html").read_text("utf-8")
    assert "3 expectations: 3 passed, 0 failed." in page

    shard = typed(*run, "--shard", "1/1")
    assert shard.returncode == 0 and "a shard judges no expectation" in shard.stderr


@pytest.mark.sandbox
def test_a_question_has_expectations_and_its_file_keeps_them(here: Path, typed: Typed) -> None:
    words = "try --rate 10mbit --rtt 20ms --duration 1s --cc cubic --machine sandbox".split()
    said = typed(*words, "--expect", "goodput >= 2 Mbit/s", "--expect", "goodput <= 3mbit")
    assert said.returncode == 1 and "1 passed, 1 failed" in said.stdout
    again = typed(*words, "--expect", "goodput >= 2 Mbit/s", "--save", "mine.yaml")
    assert again.returncode == 0 and "[1/1]" not in again.stderr
    assert "expect:" in Path("mine.yaml").read_text() and typed("run", "./mine.yaml", "--dry-run")
