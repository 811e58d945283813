# SPDX-License-Identifier: MIT
"""One lab's whole way, with real runs: start, predict, run, answer, hand in, grade, rerun."""

import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gostlab.classroom.expressions import bdp_pkts, payload_mbit
from gostlab.classroom.lab import load_lab
from gostlab.results import read_object
from gostlab.results.metrics import latency_of_folder
from gostlab.spec.run_spec import RunSpec
from tests.classroom.handins import Steady, make_run
from tests.lab_command import Typed

pytestmark = pytest.mark.sandbox

MAX = load_lab("0").most


def fill_in(sheet: Path, **answers: object) -> None:
    """Write answers into a sheet, as a student does."""
    text = sheet.read_text(encoding="utf-8")
    for key, answer in answers.items():
        section, _, name = key.partition("__")
        head, mark, tail = text.partition(f"\n{section}:")
        text = head + mark + re.sub(rf"(?m)^  {name}:.*$", f"  {name}: {answer}", tail, count=1)
    sheet.write_text(text, encoding="utf-8")


def test_a_student_who_works_has_all_points_and_one_who_edits_has_none(
    here: Path, typed: Typed
) -> None:
    folder = here / "coursework/0-warm-up"

    def lab(*words: object) -> int:
        return typed("lab", *words).returncode

    def grade(submission: Path, *words: str) -> Any:
        asked = ("--student", "alice", "--format", "json")
        done = typed("grade", 0, submission, *asked, *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    # given a lab that was begun, predicted, run
    assert lab("start", 0, "--student", "alice") == 0
    values = json.loads((folder / "assignment.json").read_text("utf-8"))["values"]
    assert lab("run", 0) == 2  # nothing is sealed yet
    rate, rtt = values["rate_mbit"], values["rtt_ms"]
    fill_in(
        folder / "answers.yaml",
        predictions__idle_rtt_ms=rtt,
        predictions__bdp_pkts=bdp_pkts(rate, rtt),
        predictions__full_rtt_ms=2 * rtt,
        predictions__half_rtt_ms=1.5 * rtt,
        predictions__payload_mbit=payload_mbit(rate),
    )
    assert lab("predict", 0) == 0
    assert lab("run", 0, "--jobs", 1) == 0
    lacking = typed("lab", "hand-in", 0)
    assert lacking.returncode == 1 and "answers.goodput_mbit: nothing there" in lacking.stderr

    # when the answers are read from what the lab itself shows
    (run,) = folder.glob("results/*/one-*/status.json")
    did = json.loads((run.parent / "flows.json").read_text("utf-8"))["flows"][0]
    checks = json.loads((run.parent / "fidelity.json").read_text("utf-8"))["checks"]
    delays = latency_of_folder(run.parent)
    assert delays is not None and delays.srtt_ms is not None
    fill_in(
        folder / "answers.yaml",
        answers__goodput_mbit=f"{did['goodput_bps'] / 1e6:.1f}",
        answers__idle_rtt_ms=next(c["got"] for c in checks if c["name"] == "idle_rtt_before"),
        answers__p95_rtt_ms=f"{delays.srtt_ms.p95:.0f}",
        answers__sawtooth_of="window",
        answers__why_below_rate='"Headers. And the first second."',
    )
    assert lab("hand-in", 0) == 0

    # then every point is earned, from the folder and from the zip, and the rerun is the same run
    archive = here / "coursework/0-warm-up-alice.zip"
    assert grade(folder)["points"] == MAX
    found = grade(archive, "--rerun")
    assert (found["points"], found["problems"]) == (MAX, [])
    assert "bit for bit" in found["reran"][0]

    # and a bad student, all of whose files agree about slower runs, has none after a rerun
    soon = datetime.now(UTC) + timedelta(seconds=10)
    for each in list(folder.glob("results/*/*/run.json")):
        forged = RunSpec.from_json(read_object(each) or {})
        shutil.rmtree(each.parent)
        make_run(folder / "results", forged, Steady(0.9 * did["goodput_bps"] / 1e6), soon)
    assert grade(folder)["problems"] == []  # the files alone do not show it
    caught = grade(folder, "--rerun")
    assert caught["points"] == 0
    assert "handed in" in " ".join(caught["problems"])
