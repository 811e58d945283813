"""The examples of docs/how-to/experiment.md, run in their quick form as a reader would."""

import csv
import sys
from pathlib import Path

import pytest

from tests.examples import experiments, write_examples
from tests.lab_command import said_by

pytestmark = pytest.mark.sandbox

LAB = Path(__file__).resolve().parents[2] / "lab"


def lab(folder: Path, *words: str) -> str:
    done = said_by(LAB, *words, cwd=folder, timeout=900)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


# A few cells of the large ones, and two seconds of each.
SHORTER = {
    "mine.yaml": ("direction=download", "cc.client=bbr", "rate=20mbit", "duration=2s"),
    "two-buffers.yaml": ("duration=5s",),
    "five-controls.yaml": ("cc=westwood,bbr", "forward.loss=1%", "duration=2s"),
}


@pytest.mark.parametrize("file", experiments())
def test_an_example_runs_and_is_reported_by_its_own_file(file: str, tmp_path: Path) -> None:
    write_examples(tmp_path)
    name = Path(file).stem

    shorter = [word for one in SHORTER[file] for word in ("--set", one)]

    table = lab(tmp_path, "run", f"./{file}", "--quick", *shorter)
    page = lab(tmp_path, "report", f"./{file}").strip()

    assert f"next: ./lab report {name}" in table
    question = (tmp_path / file).read_text().split("question: ")[1].splitlines()[0]
    assert question.replace("'", "&#39;") in (tmp_path / page).read_text()
    kept = tmp_path / "results" / name / "experiment.yaml"
    assert kept.read_bytes() == (tmp_path / file).read_bytes()
    with (tmp_path / f"results/report/tables/{name}-runs.csv").open() as rows:
        assert {row["state"] for row in csv.DictReader(rows)} == {"ok"}
    assert list((tmp_path / "results/report/figures").glob(f"{name}-*.png"))
    script = tmp_path / f"{name}.py"
    if script.exists():
        said = said_by(sys.executable, script, cwd=tmp_path, check=True).stdout
        assert "westwood" in said and "NaN" not in said


def test_a_question_without_a_file_is_answered_and_the_second_time_at_once(tmp_path: Path) -> None:
    asked = ["try", "--rate", "5mbit", "--rtt", "20ms", "--cc", "cubic", "--for", "2s"]
    table = lab(tmp_path, *asked)
    assert "5 Mbit/s" not in table and "█" in table and " ok" in table
    [place] = (tmp_path / "results").iterdir()
    assert f"kept in results/{place.name}" in table
    [status] = place.glob("*/status.json")
    made = status.stat().st_mtime_ns

    [row] = csv.DictReader(lab(tmp_path, *asked, "--csv", "--save", "mine.yaml").splitlines())

    assert 4 < float(row["goodput_mbit"]) < 5 and row["verdict"] == "ok"
    lab(tmp_path, "run", "./mine.yaml")
    assert [each.stat().st_mtime_ns for each in place.glob("*/status.json")] == [made]
