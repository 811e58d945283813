# SPDX-License-Identifier: MIT
"""The notebooks run from their first cell to their last, on small runs; and what they are to leave
is there.
"""

import os
import re
from pathlib import Path

import pytest

from gostlab.registry.folders import ROOT

nbformat = pytest.importorskip("nbformat", reason="no nbformat")
nbclient = pytest.importorskip("nbclient", reason="no nbclient")
pytest.importorskip("ipykernel", reason="no ipykernel")

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
def test_the_notebooks_run_to_their_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after another in one kernel, which forgets the names of each: to start one takes long."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{os.environ.get('PYTHONPATH', '')}")
    cells: dict[str, list[nbformat.NotebookNode]] = {}
    for name, small in SMALL.items():
        (tmp_path / name).mkdir()
        anew = nbformat.v4.new_code_cell(f"%reset -f\n%cd -q {tmp_path / name}")
        cells[name] = [anew, *nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4).cells]
        [given] = [cell for cell in cells[name] if "parameters" in cell.metadata.get("tags", ())]
        given.source = small

    whole = nbformat.v4.new_notebook(cells=[cell for each in cells.values() for cell in each])
    nbclient.NotebookClient(whole, timeout=600).execute()

    said = {
        name: "".join(str(out.get("text", "")) for cell in each for out in cell.get("outputs", ()))
        for name, each in cells.items()
    }
    assert all("Mbit/s" in each or "good" in each for each in said.values())
    pdf = (tmp_path / "paper-figure/goodput-by-loss.pdf").read_bytes()
    [width] = re.findall(rb"/MediaBox \[ 0 0 (\d+)", pdf)
    assert int(width) == round(3.5 * 72) and b"/FontFile2" in pdf
    assert (tmp_path / "paper-figure/runs.csv").read_text().count("\n") == 1 + 6
    assert (tmp_path / "fitted-path/my-path-fitted.yaml").is_file()
    assert said["fitted-path"].count("Mbit/s") == 3
