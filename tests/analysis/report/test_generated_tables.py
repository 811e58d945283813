# SPDX-License-Identifier: MIT
"""Tables that runs write into handwritten pages, and the page of results."""

from dataclasses import replace
from pathlib import Path

import pytest
import synthetic

from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.study import Study
from gostlab.analysis.stats.cells import to_matrices
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment, with_repetitions
from gostlab.spec.yaml_source import BadInput
from tools.results_pages.__main__ import main
from tools.results_pages.generated_tables import END, plot_tables, write_marked
from tools.results_pages.summary import COMMAND, write_summary

BEGIN = "<!-- runs: {} -->"


def write_runs(results: Path, repetitions: int, *, cc: str = "", verdict: str = "ok") -> None:
    """Runs of the quick form of download's matrix main; each has a rate of its own."""
    read = with_repetitions(load_experiment("download"), repetitions)
    for run in expand(read, quick=True):
        if cc in ("", run.cc):
            rate = {"bbr": 20.0, "cubic": 0.2}.get(run.cc, 10.0) * (1 + run.repetition / 100)
            synthetic.write_run(
                results, run.to_json(), name=run.name, goodput_mbit=rate, verdict=verdict
            )


def marked(folder: Path, words: str, table: str = "") -> Path:
    page = folder / "page.md"
    page.write_text(f"Before.\n\n{BEGIN.format(words)}\n{table}\n{END}\n\nAfter.\n")
    return page


def filled(folder: Path, words: str) -> str:
    """A page's text whose table the results beside it have filled."""
    page = marked(folder, words)
    write_marked([page], folder / "results", folder)
    return page.read_text()


def test_a_table_between_marks_is_written_from_the_runs(tmp_path: Path) -> None:
    write_runs(tmp_path / "results", 5)
    page = marked(tmp_path, "download/main rows=cc", "| old | numbers |")
    assert write_marked([page], tmp_path / "results", tmp_path) == [page]
    text = page.read_text()
    assert text.startswith("Before.\n") and text.endswith(f"{END}\n\nAfter.\n")
    assert "| BBR | 20.6 (20.2–21) |" in text and "old" not in text
    foot = " ".join(text.split())
    assert "n = 5; 20 runs count." in foot and "FIXTURE" in foot
    assert "`./lab run download --quick --matrix main --repeat 5`" in foot
    assert write_marked([page], tmp_path / "results", tmp_path) == []  # again it is the same


def test_the_plots_own_tables_stand_between_marks(tmp_path: Path) -> None:
    write_runs(tmp_path / "results", 5)
    (matrix,) = to_matrices(load_results(tmp_path / "results", "download").runs)
    study = Study("download", "Download")
    lines = plot_tables(study, [replace(matrix, draw=("marked",))])
    assert lines[1].startswith("| Cell | Tunnel | cc | Marked by the queue |")
    assert len(lines) == 4 + len(matrix.cells)


def test_a_cell_of_fewer_runs_has_no_number_and_the_table_says_so(tmp_path: Path) -> None:
    write_runs(tmp_path / "results", 5, cc="bbr")
    write_runs(tmp_path / "results", 4, cc="cubic")
    text = filled(tmp_path, "download/main rows=cc")
    assert "| CUBIC | – |" in text and "| BBR | 20.6" in text
    assert "1 cell has fewer than 5 runs, and no number" in " ".join(text.split())


def test_degraded_cells_are_marked_and_figures_and_sides_can_be_chosen(tmp_path: Path) -> None:
    write_runs(tmp_path / "results", 5, verdict="degraded")
    text = filled(tmp_path, "download/main figure=goodput_mbit,retr")
    assert "20.6 (20.2–21)†" in text and "BBR, goodput (Mbit/s)" in text
    assert "BBR, retransmissions" in text and "20 degraded" in text


def test_a_table_of_one_level_has_its_cells_alone(tmp_path: Path) -> None:
    write_runs(tmp_path / "results", 5)
    text = filled(tmp_path, "download/main rows=cc only=cc:bbr")
    assert "| BBR | 20.6" in text and "| CUBIC |" not in text
    page = marked(tmp_path, "download/main rows=cc only=cc:reno", "| kept | 1 |")
    assert write_marked([page], tmp_path / "results", tmp_path) == []


def test_published_numbers_stand_beside_the_labs_and_what_moved_is_said(tmp_path: Path) -> None:
    write_runs(tmp_path / "results", 5)
    (tmp_path / "then.csv").write_text(
        "matrix,cell,figure,median,n,verdict\n"
        'main,CUBIC,"goodput, mean of the fastest three (Mbit/s)",0.1,1,agrees\n'
    )
    text = filled(tmp_path, "download/main targets since=then.csv")
    (row,) = (line for line in text.splitlines() if "fastest three" in line)
    assert "2 of 2 agree; n = 5; 20 runs count." in " ".join(text.split())
    assert "| 0.08 to 0.8 |" in row and "| agrees | 0.1 | +10" in row
    moved_alone = filled(tmp_path, "download/main targets moved since=then.csv")
    heading, _, moved = [line for line in moved_alone.splitlines() if "|" in line]
    assert "fastest three" in heading and "+10" in moved
    text = filled(tmp_path, "download/main targets")
    (ratio,) = (line for line in text.splitlines() if "at least 10" in line)
    assert "| 100 (100–100) |" in ratio or "| 100 (identical) |" in ratio


def test_without_such_runs_a_table_stays_as_it_is(tmp_path: Path) -> None:
    page = marked(tmp_path, "download/main", "| kept | 1 |")
    assert write_marked([page], tmp_path / "results", tmp_path) == []
    assert "| kept | 1 |" in page.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("download", "EXPERIMENT/MATRIX"),
        ("download/mian", "no matrix mian"),
        ("download/main row=cc", "row=cc"),
        ("download/main rows=streams", "rows=streams"),
        ("download/main figure=speed", "no figure of merit"),
        ("download/main targets=1", "targets=1"),
        ("download/main only=cc", "only=FACTOR:LEVEL"),
    ],
)
def test_a_wrong_mark_is_refused_by_file_and_line_and_no_page_changes(
    words: str, said: str, tmp_path: Path
) -> None:
    write_runs(tmp_path / "results", 5)
    good, bad = marked(tmp_path, "download/main"), tmp_path / "bad.md"
    bad.write_text(f"{BEGIN.format(words)}\n{END}\n")
    before = good.read_text()
    with pytest.raises(BadInput) as told:
        write_marked([good, bad], tmp_path / "results", tmp_path)
    assert "bad.md:1" in str(told.value) and said in str(told.value)
    assert good.read_text() == before


def test_a_table_without_an_end_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(BEGIN.format("download/main") + "\n| a |\n")
    with pytest.raises(BadInput, match=r"page\.md:1: .*no end"):
        write_marked([page], tmp_path, tmp_path)


@pytest.mark.slow
def test_the_page_of_results_has_answer_picture_and_what_it_rests_on(tmp_path: Path) -> None:
    write_runs(tmp_path / "results", 5)
    page = write_summary(tmp_path / "results", ["download"], tmp_path / "results.md")
    text = page.read_text()
    study = load_experiment("download")
    assert COMMAND in text and f"## {study.title}" in text
    section = " ".join(text.partition("<a id=")[2].split())
    assert "20 runs, n = 5, 2 of 2 published numbers agree, spread: " in section
    assert "`./lab run download --quick --matrix main --repeat 5`" in section
    assert len(section.split()) <= 75  # twenty experiments have 1,500 words
    assert "](results/download.png)" in text and (tmp_path / "results/download.png").exists()
    assert max(len(line) for line in text.splitlines() if line[:1] not in "|!") <= 100
    # what has no runs here stays, and the picture with it
    write_summary(tmp_path / "none", ["download"], page)
    assert page.read_text() == text and (tmp_path / "results/download.png").exists()


@pytest.mark.slow
def test_a_section_is_of_its_first_matrix_and_an_own_page_has_a_picture_of_each(
    tmp_path: Path,
) -> None:
    few = {"tunnel": "direct", "rtt": "100ms", "loss": "0%"}
    for run in expand(load_experiment("which-tunnel"), overrides=few):
        synthetic.write_run(tmp_path / run.matrix, run.to_json(), name=run.name)
    own = tmp_path / "which-tunnel.md"
    own.write_text("![Another rate](results/which-tunnel-hundred.png)\n")
    page = write_summary(tmp_path / "ten", ["which-tunnel"], tmp_path / "results.md")
    text = page.read_text()
    assert "](results/which-tunnel.png)" in text
    assert [each.name for each in (tmp_path / "results").iterdir()] == ["which-tunnel.png"]
    write_summary(tmp_path / "hundred", ["which-tunnel"], page)
    assert page.read_text() == text
    assert (tmp_path / "results/which-tunnel-hundred.png").exists()


@pytest.mark.slow
def test_the_command_line_writes_the_pages_of_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_runs(tmp_path / "results", 5)
    page = marked(tmp_path, "download/main")
    words = ["--docs", "--results", str(tmp_path / "results"), "--out", str(tmp_path)]
    assert main(words) == 0
    assert set(capsys.readouterr().out.split()) == {str(page), str(tmp_path / "results.md")}
