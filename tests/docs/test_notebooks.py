"""The notebooks run from their first cell to their last, each in a kernel of its own, on small
runs; and what they are to leave is there.
"""

import os
import re
from pathlib import Path

import pytest

from gostlab.declared.folders import ROOT

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NOTEBOOKS = ROOT / "docs" / "notebooks"
SMALL = {
    "first-question": 'REPEAT, LENGTH = 1, "3s"',
    "paper-figure": 'REPEAT, LENGTH = 1, "2s"',
    "fitted-path": 'POINTS, MEMBERS, LENGTH = 4, 0, "3s"',
}


def test_every_notebook_is_run_here_and_keeps_no_output() -> None:
    files = {path.stem: path for path in NOTEBOOKS.glob("*.ipynb")}
    assert set(files) == set(SMALL)
    for path in files.values():
        cells = nbformat.read(path, as_version=4).cells
        assert not any(cell.get("outputs") for cell in cells)
        assert all(len(line) <= 100 for cell in cells for line in cell.source.splitlines())


@pytest.mark.sandbox
@pytest.mark.parametrize("name", sorted(SMALL))
def test_a_notebook_runs_to_its_end(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{os.environ.get('PYTHONPATH', '')}")
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    [given] = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", ())]
    given.source = SMALL[name]

    nbclient.NotebookClient(
        notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()

    said = "".join(
        str(each.get("text", "")) for cell in notebook.cells for each in cell.get("outputs", ())
    )
    assert "Mbit/s" in said or "good" in said
    if name == "paper-figure":
        pdf = (tmp_path / "goodput-by-loss.pdf").read_bytes()
        [width] = re.findall(rb"/MediaBox \[ 0 0 (\d+)", pdf)
        assert int(width) == round(3.5 * 72) and b"/FontFile2" in pdf
        assert (tmp_path / "runs.csv").read_text().count("\n") == 1 + 6
    if name == "fitted-path":
        assert (tmp_path / "my-path-fitted.yaml").is_file() and said.count("Mbit/s") == 3
