# SPDX-License-Identifier: MIT
"""The page of studies, and the report's figures, tables and sentences for what an experiment's file
asks to be drawn.
"""

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic

from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.study import Study, load_study, question_keys
from gostlab.analysis.report.findings import Chapter, to_chapter
from gostlab.analysis.report.report import write_report
from gostlab.spec.expand import expand
from gostlab.spec.experiment import Published, load_experiment
from gostlab.spec.run_spec import RunSpec
from tests.analysis.conftest import sketch_all
from tools.results_pages.paper_reproductions import COMMAND, write_studies_page

# Whole pages and every drawing of made-up sweeps: `make test` has them, `make fast` does not.
pytestmark = pytest.mark.slow

STUDY = Study(
    "li-2018",
    "BBR, evaluated again",
    "Is BBR faster, and is it fair?",
    "Four servers, a switch and netem at 1 Gbit/s.",
    seed="li2018",
    sections="4.1, 4.3",
    matrix_titles=(
        *(("loss", "By loss"), ("fair", "Two flows"), ("rtt", "By RTT")),
        *(("jitter", "Jitter"), ("plain", "Plain")),
    ),
    matrix_draws=(
        ("loss", ("by-loss", "bars")),
        ("fair", ("shares", "series", "by-rtt")),
        ("rtt", ("by-rtt",)),
        ("jitter", ("bars", "cwnd")),
    ),
    published=(
        Published(
            "loss",
            {"cc": "cubic", "loss": 0.001},
            figure="goodput_mbit",
            value=8.0,
            least=4.0,
            most=11.0,
            source="CACM 60(2), figure 8",
        ),
        Published(
            "loss",
            {"cc": "bbr", "loss": 0.001},
            50.0,
            source="made up",
            why="The study's link was slower.",
        ),
        Published("loss", {"cc": "bbr", "loss": 0.5}, 1.0, source="never run"),
        Published("fair", {"flow2.rtt": "20ms"}, figure="jain", value=0.99, source="4.3"),
    ),
)


BASE = {
    "experiment": "li-2018",
    "tunnel": "direct",
    "rate_bps": 100_000_000,
    "rtt_ms": 100.0,
    "duration_s": 40.0,
}


def write(results: Path, asked: dict, name: str, **measured: object) -> Path:
    return synthetic.write_run(
        results, synthetic.description(**{**BASE, **asked}), name=name, **measured
    )


def write_losses(results: Path) -> None:
    """A few runs of the first matrix."""
    for loss, rates in ((0.0, (95, 94)), (0.001, (7, 93)), (0.01, (1.5, 88))):
        for cc, rate in zip(("cubic", "bbr"), rates, strict=True):
            for repetition in (1, 2):
                asked = {"matrix": "loss", "cc": cc, "factors": {"cc": cc, "loss": loss}}
                asked |= {**synthetic.repeated(repetition), "loss": {"model": "random", "p": loss}}
                verdict = "degraded" if (cc, loss) == ("bbr", 0.01) else "ok"
                name = f"loss-{loss}-{cc}-{repetition}"
                write(results, asked, name, goodput_mbit=rate, verdict=verdict)


def write_results(results: Path) -> None:
    """A few runs of each kind."""
    write_losses(results)
    for rtt, share in ((10, 0.5), (20, 0.7)):
        run = synthetic.several(
            {"cc": "bbr"},
            {"cc": "bbr", "rtt_ms": float(rtt)},
            experiment="li-2018",
            matrix="fair",
            cc="bbr",
            factors={"flow2.rtt": f"{rtt}ms"},
        )
        folder = synthetic.write_run(results, run, goodput_mbit=95, name=f"fair-{rtt}")
        synthetic.write_over_time(
            folder, run, {"flow1": 95 * share, "flow2": 95 * (1 - share)}, sample_s=0.5
        )
    for rtt, rate in ((10.0, 95), (20.0, 94), (50.0, 60)):
        asked = {"matrix": "rtt", "cc": "bbr", "rtt_ms": rtt, "factors": {"rtt": f"{rtt:g}ms"}}
        write(results, asked, f"rtt-{rtt:g}", goodput_mbit=rate)
    for cc in ("cubic", "reno"):
        levels = {"cc": cc, "jitter": "10ms"}
        run = synthetic.description(matrix="jitter", cc=cc, factors=levels, acks=True, **BASE)
        run["path"]["forward"]["jitter_ms"] = 10.0
        folder = synthetic.write_run(results, run, goodput_mbit=20, wan=4, name=f"jitter-{cc}")
        windows = ((0.01 * t, "flow1", 10 + t % 50, "" if t < 100 else 30) for t in range(4000))
        synthetic.write_acks(folder, list(windows))
    plain = {"bbr": ("plain", {"goodput_mbit": 93}), "cubic": ("bad", {"verdict": "invalid"})}
    for cc, (name, measured) in {**plain, "reno": ("cut", {"outcome": None})}.items():
        write(results, {"matrix": "plain", "cc": cc, "factors": {"cc": cc}}, name, **measured)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    write_results(folder)
    return folder


@pytest.fixture(scope="module")
def losses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("losses")
    write_losses(folder)
    return folder


@pytest.fixture(scope="module")
def page(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patched:
        sketch_all(patched)
        return write_studies_page(results, [STUDY], tmp_path_factory.mktemp("docs") / "studies.md")


@pytest.fixture(scope="module")
def chapter(results: Path) -> Chapter:
    with pytest.MonkeyPatch.context() as patched:
        sketch_all(patched)
        return to_chapter(STUDY, load_results(results, "li-2018"))


def test_the_page_says_what_makes_it_what_was_asked_and_what_was_done(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\u00a0", " ")
    asked = (COMMAND, "do not edit", STUDY.title, STUDY.question, STUDY.note)
    done = ("li2018, sections 4.1, 4.3", "sandbox, virtual clock", "n = 1 to 2 per cell")
    aside = ("Of 22 run folders 2 count", "rests on 2.", "`cut`: unfinished")
    for words in (*asked, *done, *aside, "`bad`: invalid", "| 4 | 1 | 2 | 1 |"):
        assert words in text, words


def test_what_disagrees_is_said_with_its_reason(page: Path) -> None:
    text = page.read_text(encoding="utf-8").replace("\u00a0", " ")
    assert text.count("The study's link was slower.") == 1
    for words in ("Why they differ", "Nobody has found out yet.", "4 to 11", "no run"):
        assert words in text


def test_a_figure_of_cells_stands_before_those_of_single_runs(losses: Path) -> None:
    drawn = replace(STUDY, matrix_draws=(("loss", ("series", "bars", "by-loss")),))
    part = to_chapter(drawn, load_results(losses, "li-2018")).parts[0]
    names = [picture.name for picture in part.pictures]
    assert names[0] == "li-2018-loss-bars" and "series" in names[1]


def test_every_picture_is_shown_and_every_shown_picture_is_there(page: Path) -> None:
    shown = set(re.findall(r"\]\((studies/[^)]+\.png)\)", page.read_text(encoding="utf-8")))
    assert shown == {f"studies/{path.name}" for path in (page.parent / "studies").iterdir()}
    drawn = "loss-by-loss loss-bars fair-shares fair-by-rtt rtt-by-rtt jitter-bars jitter-cwnd"
    assert {f"studies/li-2018-{part}.png" for part in drawn.split()} < shown
    assert sum("fair-series" in name for name in shown) == 2


def test_made_again_it_is_the_same_and_only_its_own_pictures_go(
    losses: Path, tmp_path: Path
) -> None:
    page = write_studies_page(losses, [STUDY], tmp_path / "studies.md")
    before = {path: path.read_bytes() for path in page.parent.rglob("*") if path.is_file()}
    mine = page.parent / "studies" / "mine.png"
    mine.write_bytes(b"a user's own")
    write_studies_page(losses, [STUDY], page)
    assert {path: path.read_bytes() for path in before} == before
    write_studies_page(losses, [replace(STUDY, matrix_draws=(("loss", ("bars",)),))], page)
    names = {path.name for path in (page.parent / "studies").iterdir()}
    assert {"mine.png", "li-2018-loss-bars.png"} <= names
    assert "li-2018-loss-by-loss.png" not in names


def test_one_study_is_made_anew_and_the_others_stay_as_they_are(
    losses: Path, tmp_path: Path
) -> None:
    other = replace(STUDY, name="zebra", title="Another")
    results = Path(shutil.copytree(losses, tmp_path / "results"))
    shutil.copytree(results / "li-2018", results / "zebra")
    page = write_studies_page(results, [STUDY, other], tmp_path / "studies.md")
    before, pictures = page.read_text(), set((tmp_path / "studies").iterdir())
    shutil.rmtree(results / "li-2018")
    for run in (results / "zebra").iterdir():
        shutil.rmtree(run)

    write_studies_page(results, [load_study("zebra")], page, keep=True)

    first, _, second = page.read_text().partition('<a id="study-zebra"></a>')
    assert first.split('<a id="study-li-2018"></a>')[1] in before
    assert next(line for line in before.splitlines() if "(#study-li-2018) |" in line) in first
    assert "No run counts yet" in second
    left = set((tmp_path / "studies").iterdir())
    assert left == {path for path in pictures if not path.name.startswith("zebra")}
    # named without a page that is there, it is the page of that study alone
    alone = write_studies_page(results, [load_study("zebra")], tmp_path / "alone.md", keep=True)
    assert "study-li-2018" not in alone.read_text()


def test_a_page_that_something_else_wrote_loses_no_pictures(tmp_path: Path) -> None:
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies/old.png").write_bytes(b"x")
    (tmp_path / "studies.md").write_text("by hand: ![x](studies/old.png)")
    write_studies_page(tmp_path / "none", [STUDY], tmp_path / "studies.md")
    assert (tmp_path / "studies/old.png").exists()


def test_no_results_give_a_page_that_says_so(tmp_path: Path) -> None:
    for names, words in (([], "There are no results yet"), (["nothing"], "No run counts yet")):
        page = write_studies_page(tmp_path, [*map(load_study, names)], tmp_path / "studies.md")
        assert words in page.read_text()


def test_the_report_draws_what_the_file_names_and_holds_study_against_lab(
    results: Path, tmp_path: Path
) -> None:
    html = write_report(results, [STUDY], tmp_path).read_text(encoding="utf-8")
    names = {path.stem.removeprefix("li-2018-") for path in (tmp_path / "figures").iterdir()}
    assert {"loss-by-loss", "loss-bars", "fair-shares", "jitter-cwnd"} <= names
    assert not any(name.startswith("loss-series") for name in names)
    assert 'badge ok">agrees' in html and 'badge degraded">disagrees' in html
    answer = html.partition('class="answer"')[2].partition("</section>")[0]
    assert "<th" in answer and "numbers agree" in answer, (
        "no rates beside the lab's on the first screen"
    )
    assert (tmp_path / "tables/li-2018-targets.csv").exists()
    assert (tmp_path / "tables/li-2018-fair-flows.csv").exists()


def test_one_map_shows_both_ways_of_a_star_that_the_file_has_apart(tmp_path: Path) -> None:
    path = synthetic.description()["path"]
    sites = {f"client-{name}": path for name in ("paris", "tokyo")}
    for way in ("upload", "download"):
        for site in sites:
            asked = {"experiment": "star", "topology": "star", "tunnel": "direct", "cc": "bbr"}
            asked |= {"matrix": f"client-{way}", "direction": way, "sites": sites, "profile": site}
            run = synthetic.description(**asked, factors={"cc": "bbr", "profile": site})
            synthetic.write_run(tmp_path, run, name=f"{way}-{site}", goodput_mbit=50)
    study = Study(
        "star",
        "Sites",
        matrix_draws=(("client-upload", ("map",)), ("client-download", ("map",))),
        matrix_titles=(("client-upload", "Uploads"), ("client-download", "Downloads")),
    )
    first, second = to_chapter(study, load_results(tmp_path, "star")).parts
    (drawing,) = first.pictures
    assert [ax.get_title(loc="left") for ax in drawing.figure.axes] == ["upload", "download"]
    assert not second.pictures and "These cells stand in the figure of “Uploads”" in second.note


def test_a_figure_of_another_matrix_stands_not_beside_what_a_file_draws(results: Path) -> None:
    study = replace(
        STUDY, published=(Published("plain", {"cc": "bbr"}, 900.0, source="of another loss"),)
    )
    found = load_results(results, "li-2018")
    runs = tuple(run for run in found.runs if run.matrix in ("loss", "plain"))
    parts = to_chapter(study, replace(found, runs=runs)).parts
    tables = next(part.tables for part in parts if part.title == "By loss")
    assert tables and "study_mbit" not in {each.key for table in tables for each in table.columns}


def test_the_page_rests_on_the_full_form_of_the_file_as_it_stands(tmp_path: Path) -> None:
    full, quick = (expand(load_experiment("download"), quick=quick) for quick in (False, True))
    again = {**full[0].to_json(), "repetition": 40, "seed": 1040}
    asked = [full[0].to_json(), quick[0].to_json(), again]
    for number, run in enumerate(asked):
        synthetic.write_run(tmp_path, run, goodput_mbit=10, name=f"run-{number}")
    (tmp_path / "download/broken").mkdir()
    (tmp_path / "download/broken/run.json").write_text("{")
    for quickly, names in ((False, ["run-0", "run-2"]), (True, ["run-1"])):
        kept = load_results(tmp_path, "download", question_keys("download", quick=quickly))
        assert [run.name for run in kept.runs] == names and not kept.broken
    assert question_keys("of no file") is None
    shutil.rmtree(tmp_path / "download/run-1")
    page = write_studies_page(tmp_path, [load_study("download")], tmp_path / "studies.md")
    assert "; 2 runs, n = 2 per cell" in page.read_text("utf-8").replace("\u00a0", " ")


def test_of_a_matrix_that_was_hardly_run_the_quick_form_counts_and_the_page_says_so(
    tmp_path: Path,
) -> None:
    full, quick = (expand(load_experiment("download"), quick=quick) for quick in (False, True))
    names = [name for name, _ in load_study("download").matrix_titles]
    study = replace(load_study("download"), matrix_draws=tuple((name, ("bars",)) for name in names))

    def page_of(runs: Sequence[RunSpec]) -> str:
        for run in runs:
            if not (tmp_path / "download" / run.name).exists():  # in both forms
                synthetic.write_run(tmp_path, run.to_json(), goodput_mbit=10, name=run.name)
        page = write_studies_page(tmp_path, [study], tmp_path / "studies.md")
        return page.read_text(encoding="utf-8").replace("\u00a0", " ")

    of_main = [run for run in full if run.matrix == "main"]
    page = page_of([*quick, of_main[0]])
    assert f"| {len(quick)}, quick form |" in page  # the full form's one is not among them
    assert "the quick form: shorter runs" in page
    page = page_of(full)
    assert "quick form" not in page
