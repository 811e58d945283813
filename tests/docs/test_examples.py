# SPDX-License-Identifier: MIT
"""The examples of docs/how-to/experiment.md, run in their quick form as a reader would."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.examples import experiments, write_examples
from tests.lab_command import Typed, script_here

pytestmark = pytest.mark.sandbox


@pytest.fixture
def lab(here: Path, typed: Typed) -> Callable[..., str]:
    """What ./lab prints in a folder of the test's own."""

    def run(*words: str) -> str:
        done = typed(*words)
        assert done.returncode in (0, 3), done.stderr
        return done.stdout

    return run


# A few cells of the large ones, and a second or two of each.
SHORTER = {
    "mine.yaml": ("direction=download", "cc.client=bbr", "rate=20mbit", "duration=1s"),
    "two-buffers.yaml": ("duration=2s",),
    "five-controls.yaml": ("cc=westwood,bbr", "forward.loss=1%", "duration=1s"),
}


@pytest.mark.parametrize("file", experiments())
def test_an_example_runs_and_is_reported_by_its_own_file(
    file: str, here: Path, lab: Callable[..., str]
) -> None:
    write_examples(here)
    name = Path(file).stem

    shorter = [word for one in SHORTER[file] for word in ("--set", one)]

    table = lab("run", f"./{file}", "--quick", *shorter)
    page = lab("report", f"./{file}").strip()

    assert f"next: ./lab report {name}" in table
    question = (here / file).read_text().split("question: ")[1].splitlines()[0]
    assert question.replace("'", "&#39;") in (here / page).read_text()
    kept = here / "results" / name / "experiment.yaml"
    assert kept.read_bytes() == (here / file).read_bytes()
    with (here / f"results/report/tables/{name}-runs.csv").open() as rows:
        assert {row["state"] for row in csv.DictReader(rows)} == {"ok"}
    assert list((here / "results/report/figures").glob(f"{name}-*.png"))
    script = here / f"{name}.py"
    if script.exists():
        said = script_here(script).stdout
        assert "westwood" in said and "NaN" not in said


def test_a_question_without_a_file_is_answered_and_the_second_time_at_once(
    here: Path, lab: Callable[..., str]
) -> None:
    asked = ["try", "--rate", "5mbit", "--rtt", "20ms", "--cc", "cubic", "--for", "2s"]
    table = lab(*asked)
    assert "5 Mbit/s" not in table and "█" in table and " ok" in table
    [place] = (here / "results").iterdir()
    assert f"kept in results/{place.name}" in table
    [status] = place.glob("*/status.json")
    made = status.stat().st_mtime_ns

    [row] = csv.DictReader(lab(*asked, "--csv", "--save", "mine.yaml").splitlines())

    assert 4 < float(row["goodput_mbit"]) < 5 and row["verdict"] == "ok"
    lab("run", "./mine.yaml")
    assert [each.stat().st_mtime_ns for each in place.glob("*/status.json")] == [made]
