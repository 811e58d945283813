# SPDX-License-Identifier: MIT
"""The page: everything in it, nothing needed beside it, sentences that follow the data, partial and
hostile results.
"""

import csv
import json
import os
import re
import signal
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import synthetic
from matplotlib.figure import Figure

from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.study import Study, levels_equal, load_study
from gostlab.analysis.plotting.style import save_figure
from gostlab.analysis.report.findings import to_chapter
from gostlab.analysis.report.report import write_report
from gostlab.analysis.report.tables import goodput_scope_note, path_table
from gostlab.analysis.stats.cells import Cell, to_matrices
from gostlab.cli import main
from gostlab.results import EPOCH, EPOCHS
from tests.analysis.conftest import sketch

# Whole pages: `make test` has them, `make fast` does not.
pytestmark = pytest.mark.slow

HOSTILE = '<script>alert("x")</script> & "\' {{ 7*7 }} $\\frac$ -- | \x00\x1b[31m\u202e'


class Page(HTMLParser):
    """A page's references, ids, text, and whether its tags close in order."""

    VOID = frozenset({"meta", "img", "br", "hr", "link", "input"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


# The study with one figure, where words and tables are looked at.
PLAIN = replace(synthetic.STUDY, matrix_draws=(("main", ("cells",)),))


def page_of(results: Path, out: Path, *studies: Study) -> Page:
    return Page(write_report(results, studies, out).read_text(encoding="utf-8"))


def report(results: Path, out: Path, study: Study = synthetic.STUDY) -> Page:
    return page_of(results, out, study)


@pytest.fixture(scope="module")
def whole(everything: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    """Its figures on the page are real; their bitmaps, of which the page has none, and their PDFs
    are sketched.
    """
    out = tmp_path_factory.mktemp("out")

    def saved(figure: Figure, kind: str) -> bytes:
        return (save_figure if kind == "svg" else sketch)(figure, kind)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("gostlab.analysis.report.report.save_figure", saved)
        return out, report(everything, out)


def test_the_page_needs_nothing_beside_it(whole: tuple[Path, Page]) -> None:
    _, page = whole
    assert not [tag for tag, _ in page.tags if tag in ("link", "iframe", "object", "embed")]
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "poster", "data", "action"):
            assert (attributes.get(name) or "#").startswith(("data:", "#"))
    html = (whole[0] / "report.html").read_text(encoding="utf-8")
    # a figure's own parts, %23 in its address, are inside it
    assert "@import" not in html and not re.search(r"url\((?!data:|%23)", html)


def test_ids_are_unique_and_links_lead_somewhere(whole: tuple[Path, Page]) -> None:
    ids = [attributes["id"] for _, attributes in whole[1].tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["href"] for tag, a in whole[1].tags if tag == "a"} <= {f"#{each}" for each in ids}


def test_every_figure_is_on_the_page_and_a_file_in_each_format(whole: tuple[Path, Page]) -> None:
    """What is in them: tests/analysis/load/test_published.py."""
    out, page = whole
    images = [attributes for tag, attributes in page.tags if tag == "img"]
    names = {path.stem for path in (out / "figures").iterdir()}
    files = {f"{name}.{kind}" for name in names for kind in ("svg", "png", "pdf")}
    assert {path.name for path in (out / "figures").iterdir()} == files
    narrow = [tag for tag, attributes in page.tags if attributes.get("class") == "picture narrow"]
    assert narrow and len(images) - len(narrow) == len(names)
    assert all(image["alt"] for image in images)
    for part in ("main-goodput", "main-ratio", "main-retransmissions", "cpu-cpu", "buffer-buffer"):
        assert f"made-up-{part}" in names


HEADINGS = (
    *("BBR against CUBIC, run against run of the same seed", "Retransmissions per leg"),
    *("Goodput by the bottleneck's buffer", "Goodput by what a system call costs"),
)
MADE = ("What produced each number", "0.0.0-fixture", "fixture relay 0", "0f0f0f0f0f0f0f0f")
SHOWN = ("Made-up numbers", "report --open", "repetition 1 · seed 1001")
ASIDE = ("(exit status 9)", "fixture: panic at the last line", "+831.000 ms off")
ANSWERS = ("Goodput: from ", "over 24 cells (n = 5 to 6")


@pytest.mark.parametrize(
    "parts", [(synthetic.STUDY.question,), HEADINGS, MADE, SHOWN, ASIDE, ANSWERS]
)
def test_the_page_says_what_was_asked_answered_made_and_set_aside(
    whole: tuple[Path, Page], parts: tuple[str, ...]
) -> None:
    assert [part for part in parts if part not in whole[1].text] == []


@pytest.mark.parametrize("question", [synthetic.STUDY.question, "Why is it so? " * 30])
def test_the_first_screen_is_short(singles: Path, tmp_path: Path, question: str) -> None:
    """Question, an answer of one sentence, what it rests on in a line; then one picture."""
    study = replace(PLAIN, question=question)
    first = to_chapter(study, load_results(singles, study.name)).first
    html = write_report(singles, [study], tmp_path).read_text(encoding="utf-8")
    before, _, after = html[html.index("<article") :].partition("<img")
    assert first.picture and first.answer.count(". ") == 0 and first.answer.endswith(".")
    assert "\n" not in first.rests and first.rests.startswith("n = ")
    assert 'class="rests"' in before
    parts = ("<h2>", "Study against lab", "How it was made")
    assert [after.index(part) for part in parts] == sorted(after.index(part) for part in parts)


def test_where_windows_are_drawn_the_table_has_their_means(tmp_path: Path) -> None:
    """A figure is looked at; a number is read from a table."""
    for cc in ("cubic", "bbr"):
        synthetic.write_run(tmp_path, synthetic.cell(cc, 4), seconds=8)
    for word, filled in (("by-loss", True), ("cells", False)):
        study = replace(synthetic.STUDY, matrix_draws=(("main", (word,)),))
        report(tmp_path, tmp_path / word, study)

        with (tmp_path / word / "tables/made-up-main-goodput.csv").open() as file:
            assert {bool(row["window_pkts"]) for row in csv.DictReader(file)} == {filled}


def test_other_data_give_other_answers(tmp_path: Path) -> None:
    for cc, goodput in (("cubic", 1430.0), ("bbr", 1200.0)):
        for repetition in (1, 2):
            asked = synthetic.cell(cc, 16, repetition=repetition)
            synthetic.write_run(tmp_path, asked, goodput_mbit=goodput)
            sweep = {**asked, "matrix": "buffer", "factors": {"cc": cc, "buffer": "1bdp"}}
            synthetic.write_run(tmp_path, sweep, goodput_mbit=goodput)
    text = report(tmp_path, tmp_path / "out").text
    for part in ("1 of 4 of the thesis's numbers agree", "(16 streams, gost+ws, BBR) to 1,430"):
        assert part in text.replace("\u00a0", " ")


def test_a_busy_cpu_beside_a_full_bottleneck_has_not_decided(tmp_path: Path) -> None:
    for cc in ("cubic", "bbr"):
        synthetic.write_run(tmp_path, synthetic.cell(cc, 16), goodput_mbit=1880.0, idle=0.01)
    text = report(tmp_path, tmp_path / "out").text
    assert "CPU-bound" not in text


def test_one_run_per_cell_is_said_and_has_no_interval(singles: Path, tmp_path: Path) -> None:
    page = report(singles, tmp_path, PLAIN)
    assert "n = 1: one run per cell" in page.text
    assert "Interval (coverage)" not in page.text


def test_every_kind_of_folder_is_on_the_page(kinds: Path, tmp_path: Path) -> None:
    page = report(kinds, tmp_path, PLAIN)
    names = [path.name for path in (kinds / "made-up").iterdir()]
    for words in (*names, "run.json: it is empty", "10 run folders, 4 of them in the summaries"):
        assert words in page.text


@pytest.mark.rendered
def test_a_process_that_saves_figures_and_is_killed_ends_the_report_in_a_line(
    singles: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    monkeypatch.setattr("gostlab.analysis.report.report.save_figure", killed)
    with pytest.raises(OSError, match="report again"):
        report(singles, tmp_path, PLAIN)


@pytest.mark.parametrize("experiments", [[], ["nothing"]])
def test_no_results_give_a_page_that_says_so(tmp_path: Path, experiments: list[str]) -> None:
    page = page_of(tmp_path, tmp_path / "out", *map(load_study, experiments))
    assert "Run ./lab run" in page.text or "Run one, for example ./lab run" in page.text


def test_only_unfinished_runs_give_a_page_that_says_so(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.cell("bbr", 1), outcome=None)
    page = report(tmp_path, tmp_path / "out", PLAIN)
    assert "No finished, valid run yet" in page.text and "no status.json" in page.text


def test_an_unknown_experiment_gets_a_general_figure(tmp_path: Path) -> None:
    for loss in (0.0, 0.001, 0.01):
        asked = {"experiment": "mine", "matrix": "loss", "cc": "westwood"}
        run = synthetic.description(**asked, factors={"loss": loss})
        rate = 100 - 1000 * loss
        synthetic.write_run(tmp_path, run, goodput_mbit=rate, name=f"loss-{loss}")
    page = report(tmp_path, tmp_path / "out", load_study("mine", tmp_path))
    assert (tmp_path / "out/figures/mine-loss-cells.svg").exists()
    said = page.text.replace("\u00a0", " ")
    assert "Goodput: from 90 Mbit/s (1 % loss) to 100 Mbit/s (0 % loss) over 3 cells" in said


def test_hostile_words_stay_words(tmp_path: Path) -> None:
    spoilt = dict.fromkeys(("matrix", "cc", "tunnel", "profile"), HOSTILE)
    run = synthetic.description(**spoilt, factors={HOSTILE: HOSTILE, "streams": 1})
    named = {**run, "matrix": "m", "cc": "c", "tunnel": "t"}
    folder = synthetic.write_run(tmp_path, named, name='x"><img src=x onerror=y>')
    numbers = dict.fromkeys(("host_cpus", "cpu_share_permille", "packet_cost_ns"), HOSTILE)
    (folder / "run.json").write_text(json.dumps(run | numbers))
    (folder / "log.txt").write_bytes(b"\xff\xfe</pre><script>")
    synthetic.write_run(
        tmp_path,
        {**named, "repetition": 2},
        outcome="failed",
        error="</details><script>1",
        name="failed",
        log="</pre><script>",
    )
    study = Study("made-up", HOSTILE, HOSTILE, HOSTILE)
    out = tmp_path / "out"
    page = report(tmp_path, out, study)
    scripts = [attributes for tag, attributes in page.tags if tag == "script"]
    # the data and the page's own two, which stand last
    assert scripts == [{"type": "text/plain", "id": "runs-data"}, {}, {}]
    assert not [tag for tag, attributes in page.tags if "onerror" in attributes]
    assert 'alert("x")' in page.text and "{{ 7*7 }}" in page.text
    assert all(path.resolve().is_relative_to(out.resolve()) for path in out.rglob("*"))
    assert "<script>" not in (out / "tables/made-up.md").read_text(encoding="utf-8")


def test_runs_of_other_settings_are_not_pooled(tmp_path: Path) -> None:
    for repetition in (1, 2):
        synthetic.write_run(
            tmp_path, synthetic.cell("bbr", 16, repetition=repetition), goodput_mbit=1000.0
        )
    synthetic.write_run(tmp_path, synthetic.cell("bbr", 16, duration_s=5.0), goodput_mbit=10.0)
    first, second = to_matrices(load_results(tmp_path, "made-up").runs)
    assert (first.variant, second.variant) == ("duration 30 s", "duration 5 s")
    assert [len(matrix.runs) for matrix in (first, second)] == [2, 1]
    assert "duration 5 s" in report(tmp_path, tmp_path / "out", PLAIN).text


def test_the_study_s_values_stand_beside_a_sweep_on_the_same_path_only(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.cell("bbr", 16), goodput_mbit=1000.0)
    for profile in ("la-hamina", "elsewhere"):
        asked = {"matrix": f"at-{profile}", "profile": profile, "cc": "bbr", "streams": 16}
        run = synthetic.description(**asked, factors={"cc": "bbr"})
        synthetic.write_run(tmp_path, run, goodput_mbit=915.0, name=profile)
    report(tmp_path, tmp_path / "out")
    tables = {path.stem: path.read_text() for path in (tmp_path / "out/tables").iterdir()}
    assert ",1830," in tables["made-up-at-la-hamina-goodput"]
    assert "1830" not in tables["made-up-at-elsewhere-goodput"]


def test_the_real_clock_joins_the_sweep_even_with_offloads_and_another_length(
    tmp_path: Path,
) -> None:
    for cost in (0.0, 20.0):
        asked = {"matrix": "cpu", "streams": 16, "syscall_cost_us": cost, "duration_s": 8.0}
        run = synthetic.description(**asked, factors={"syscall_cost": f"{cost:g}us"})
        synthetic.write_run(tmp_path, run, goodput_mbit=1000 - 45 * cost, idle=0.5 - cost / 40)
    asked = {"matrix": "real-clock", "streams": 16, "clock": "real", "syscall_cost_us": 0.0}
    run = synthetic.description(**asked, offloads=True, factors={"cc": "cubic"})
    synthetic.write_run(tmp_path, run, goodput_mbit=777.0, idle=0.02)
    text = report(tmp_path, tmp_path / "out").text
    for part in ("real clock, offloads on", "Runs of 8 s and 30 s"):
        assert part in text


def test_a_buffer_sweep_takes_in_the_same_cell_of_another_matrix(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.cell("cubic", 16), goodput_mbit=1430.0)
    asked = {"matrix": "buffer", "streams": 16, "buffer_pkts": synthetic.BDP_PKTS // 10}
    run = synthetic.description(**asked, factors={"cc": "cubic", "buffer": "0.1bdp"})
    synthetic.write_run(tmp_path, run, goodput_mbit=900.0)
    said = report(tmp_path, tmp_path / "out").text
    assert "1,430" in said.partition("Goodput by the bottleneck's buffer")[2]


def test_long_and_like_names_make_different_files(tmp_path: Path) -> None:
    names = ("a" * 300, "a" * 299 + "b", "m/1", "m 1", "../up", "M/1")
    for number, matrix in enumerate(names):
        run = synthetic.description(matrix=matrix, factors={"cc": "cubic"})
        synthetic.write_run(tmp_path, run, name=f"run-{number}")
    study = replace(synthetic.STUDY, matrix_draws=tuple((name, ("cells",)) for name in names))
    report(tmp_path, tmp_path / "out", study)
    assert len(list((tmp_path / "out/figures").glob("*-cells.svg"))) == 6


def test_cells_made_by_two_programs_are_pointed_out(tmp_path: Path) -> None:
    for repetition, sha in ((1, "aa"), (2, "bb")):
        tunnel = {"kind": "gost", "version": "gost v3", "path": "/x", "sha256": sha * 32}
        asked = synthetic.cell("bbr", 16, repetition=repetition)
        synthetic.write_run(tmp_path, asked, env={"tunnel": tunnel})
    assert "Not all of one making" in report(tmp_path, tmp_path / "out", PLAIN).text


def test_a_report_made_again_is_the_same_and_leaves_nothing_old(
    kinds: Path, singles: Path, tmp_path: Path
) -> None:
    report(singles, tmp_path, PLAIN)
    first = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    (tmp_path / "mine.txt").write_text("a user's own file")
    report(singles, tmp_path, PLAIN)
    assert {path: path.read_bytes() for path in first} == first
    report(kinds, tmp_path, Study("other", "Other"))
    assert not list((tmp_path / "figures").iterdir()) and (tmp_path / "mine.txt").exists()


def test_two_experiments_on_one_page_have_a_way_to_each(kinds: Path, tmp_path: Path) -> None:
    page = page_of(kinds, tmp_path, PLAIN, Study("none", "An empty one"))
    ways = [a["href"] for tag, a in page.tags if tag == "a" and a.get("class") != "spot"]
    assert ways == ["#e1", "#e2"]


def test_levels_are_compared_as_people_mean_them() -> None:
    assert (
        levels_equal(16.0, 16.0) and levels_equal(16.0, "16") and levels_equal("gost+ws", "gost+ws")
    )
    assert not levels_equal(1.0, 16.0) and not levels_equal(None, 0.0)


def test_the_command_line_writes_the_report(
    kinds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["report", "--results", str(kinds), "--out", str(tmp_path)]) == 0
    assert Path(capsys.readouterr().out.strip()) == tmp_path / "report.html"
    assert (tmp_path / "report.html").exists()


def test_what_was_warned_of_stands_with_the_matrix(tmp_path: Path) -> None:
    for repetition in (1, 2, 3):
        asked = synthetic.cell("cubic", 16, repetition=repetition)
        verdict = "invalid" if repetition == 3 else "ok"
        folder = synthetic.write_run(tmp_path, asked, goodput_mbit=100, verdict=verdict)
        fidelity = json.loads((folder / "fidelity.json").read_text())
        guard = {"name": "guard_windows", "verdict": "ok", "asked": 1, "got": 2, "unit": "B"}
        guard["reason"] = f"the window of {repetition} is small"
        fidelity["checks"].append(guard)
        (folder / "fidelity.json").write_text(json.dumps(fidelity))
    (part,) = to_chapter(Study("made-up", "x"), load_results(tmp_path, "made-up")).parts
    assert "Warned of in 2 of 2 runs: the window of 1 is small." in part.note


def test_runs_of_an_older_lab_are_shown_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthetic.write_run(tmp_path, synthetic.cell("bbr", 16))
    current = report(tmp_path, tmp_path / "current", PLAIN)
    assert "Of an older lab" not in current.text
    monkeypatch.setattr("gostlab.results.EPOCHS", (*EPOCHS, "the clock ticks twice as often"))
    monkeypatch.setattr("gostlab.analysis.report.findings.EPOCH", EPOCH + 1)

    page = report(tmp_path, tmp_path / "later", PLAIN)

    assert "Of an older lab" in page.text and "the clock ticks twice as often" in page.text


def shown_paths(results: Path, *keys: str) -> list[tuple[str, ...]]:
    table = path_table(load_results(results, "made-up"), "paths")
    rows = [
        dict(zip((c.key for c in table.columns), row, strict=True))
        for row in table.formatted_rows()
    ]
    return [tuple(row[key] for key in keys) for row in rows]


def test_the_report_has_both_directions_of_every_path(tmp_path: Path) -> None:
    for p in (0.0, 0.02):
        asked = synthetic.cell("bbr", 16)
        lossy = {**asked["path"]["reverse"], "loss": {"model": "random", "p": p}}
        asked["path"] = {**asked["path"], "reverse": lossy}
        synthetic.write_run(tmp_path, asked, name=f"lost-{p}")
    shown = shown_paths(tmp_path, "forward_loss_p", "reverse_loss_p", "runs")
    assert shown == [("0%", "0%", "1"), ("0%", "2%", "1")]
    assert "reverse: loss" in report(tmp_path, tmp_path / "out", PLAIN).text


def test_the_report_has_the_path_of_every_link_that_has_its_own(tmp_path: Path) -> None:
    asked = synthetic.description()
    slow = {**asked["path"]["forward"], "rate_bps": 10_000_000, "delay_ms": 5.0}
    asked |= {"hops": 2, "links": {"hop2": {"forward": slow, "reverse": slow}}}
    synthetic.write_run(tmp_path, asked)
    shown = shown_paths(tmp_path, "link", "forward_rate_mbit", "forward_delay_ms")
    assert shown == [("–", "1,967", "84"), ("hop2", "10", "5")]
    assert "A link that is named" in report(tmp_path, tmp_path / "out", PLAIN).text


def test_a_table_says_which_flows_a_goodput_is_of(tmp_path: Path) -> None:
    udp = {"kind": "udp", "cc": None, "rate_bps": 10**6, "start_s": 0.0, "duration_s": 10.0}
    loads = {"a": [{}], "b": [{}, udp], "c": [{}, {"direction": "download"}], "d": [udp]}
    said = {}
    for name, flows in loads.items():
        asked = synthetic.several(*flows)
        run = synthetic.loaded(synthetic.write_run(tmp_path, asked, name=name))
        said[name] = goodput_scope_note([Cell("made-up", "m", "", (), (run,))])
    assert said["a"] == said["d"] == ""
    assert "UDP's is not in it" in said["b"] and "both directions" not in said["b"]
    assert "both directions" in said["c"] and "UDP" not in said["c"]


def test_flows_may_have_the_names_of_metrics(tmp_path: Path) -> None:
    run = synthetic.several({"cc": "bbr"}, {"cc": "cubic"})
    for flow, name in zip(run["flows"], ("up", "total"), strict=True):
        flow["name"] = name
    folder = synthetic.write_run(tmp_path / "results", run, goodput_mbit=95, name="named")
    synthetic.write_over_time(folder, run, {"up": 30.0, "total": 65.0}, sample_s=0.5)

    write_report(tmp_path / "results", [synthetic.STUDY], tmp_path / "report")

    [file] = (tmp_path / "report" / "tables").glob("*-flows.csv")
    [row] = csv.DictReader(file.read_text().splitlines())
    assert float(row["up_mbit"]) > 0 and float(row["goodput:total"]) > 0
    assert float(row["total_mbit"]) == pytest.approx(95, rel=0.1)
