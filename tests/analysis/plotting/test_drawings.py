# SPDX-License-Identifier: MIT
"""The registry of drawings: one file each, none half there, and none that loses a cell."""

import itertools
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from matplotlib.figure import Figure
from synthetic import drawn, words_on

from gostlab.analysis import plots
from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.study import Study
from gostlab.analysis.plotting import plot_registry
from gostlab.analysis.plotting.plot_registry import (
    MAX_FIGURES,
    ReportFigure,
    find_drawing,
    plot_names,
)
from gostlab.analysis.plotting.style import lay_out
from gostlab.analysis.report.findings import to_chapter
from gostlab.analysis.report.report import write_report
from gostlab.analysis.stats.cells import to_matrices
from gostlab.registry import plot_names as declared
from gostlab.spec.expand import expand
from gostlab.spec.experiment import Published, load_experiment
from gostlab.spec.yaml_source import BadInput

# Whole pages and every drawing of made-up sweeps: `make test` has them, `make fast` does not.
pytestmark = pytest.mark.slow

WORDS = sorted(declared.drawing_files())
ROOT = Path(__file__).resolve().parents[3]

PIES = """
from gostlab.analysis.plotting.plot_registry import Drawing, ReportFigure
from gostlab.analysis.plotting.style import new_figure, in_report_style

@in_report_style
def plot_pies(table):
    figure, axes = new_figure(3)
    axes[0, 0].pie(table["goodput"])
    return figure

DRAWING = Drawing(
    "pies",
    caption="Pies, of all things.",
    draw=lambda sheet: [ReportFigure(plot_pies(sheet.rows))],
)
"""
EXPERIMENT = """
name: mine
title: Mine
matrices:
  - {name: m, draw: [WORD], factors: {cc: [cubic, bbr]}}
"""


# The matrix of that experiment, and a study's number of every cell of it.
OF_M = {"experiment": "mine", "matrix": "m"}
EVERYWHERE = Published("m", {}, 10.0, source="made up")


def with_drawing(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, source: str) -> None:
    """Add a folder with a drawing's file to those that are looked into."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(declared, "DRAWING_FOLDERS", (*declared.DRAWING_FOLDERS, folder))
    monkeypatch.setattr(plots, "__path__", [*plots.__path__, str(folder)])
    monkeypatch.delitem(sys.modules, f"{plots.__name__}.{name}", raising=False)


def experiment_that_draws(folder: Path, word: str) -> Path:
    """An experiment's file whose matrix is drawn by a word."""
    path = folder / "mine.yaml"
    path.write_text(EXPERIMENT.replace("WORD", word), encoding="utf-8")
    return path


@pytest.mark.rendered
def test_a_new_drawing_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_drawing(monkeypatch, tmp_path / "drawings", "pies", PIES)
    experiment = load_experiment(str(experiment_that_draws(tmp_path, "pies")))
    assert experiment.matrices[0].draw == ("pies",)
    for cc in ("cubic", "bbr"):
        synthetic.write_at(tmp_path / "results", {"cc": cc}, asked=OF_M)
    study = Study("mine", "Mine", matrix_draws=(("m", ("pies",)),))
    html = write_report(tmp_path / "results", [study], tmp_path / "out").read_text("utf-8")
    assert "Pies, of all things." in html
    assert (tmp_path / "out/figures/mine-m-pies.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def plot():\n    pass\n", 'must have DRAWING = Drawing("pies"'),
        (PIES.replace('"pies"', '"cakes"'), 'must have DRAWING = Drawing("pies"'),
        (PIES.replace('    caption="Pies, of all things.",\n', ""), "argument: 'caption'"),
        ("DRAWING = (\n", "pies.py:1: SyntaxError"),
    ],
)
def test_a_half_registered_drawing_fails_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, words: str
) -> None:
    with_drawing(monkeypatch, tmp_path / "drawings", "pies", source)
    with pytest.raises(BadInput, match=r"mine.yaml:5: .*draw.*pies") as raised:
        load_experiment(str(experiment_that_draws(tmp_path, "pies")))
    assert words in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(BadInput):
        find_drawing("pies")


def test_a_drawing_whose_file_raises_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_drawing(monkeypatch, tmp_path / "drawings", "pies", "import nothing_such\n" + PIES)
    with pytest.raises(BadInput, match=r"pies\.py:1: ModuleNotFoundError: .*nothing_such"):
        find_drawing("pies")


def test_an_unknown_word_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no such drawing .*did you mean series"):
        load_experiment(str(experiment_that_draws(tmp_path, "serie")))


def test_a_word_that_no_drawing_has_makes_no_report(tmp_path: Path) -> None:
    synthetic.write_run(tmp_path, synthetic.cell("cubic", 1))
    study = Study("made-up", "x", matrix_draws=(("main", ("pies",)),))
    with pytest.raises(BadInput, match="no drawing pies: draw is one of bars, "):
        write_report(tmp_path, [study], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_drawn_is_no_part_of_a_run() -> None:
    experiment = load_experiment("thesis-tunnel")
    (run, *_) = expand(experiment, quick=True)
    assert "draw" not in str(run.to_json()) and not hasattr(run, "draw")


# -- what is drawn of a matrix whose file does not say


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ({"cc": "cubic", "streams": 4}, ("goodput", "ratio", "retransmissions", "series")),
        ({"cc": "cubic", "syscall_cost": "5us"}, ("cpu",)),
        ({"cc": "cubic", "buffer": "1bdp"}, ("buffer", "series")),
        ({"cc": "cubic", "loss": "1%"}, ("cells", "series")),
        ({}, ("cells", "series")),
    ],
)
def test_without_draw_the_factors_choose_and_not_the_matrix_s_name(
    tmp_path: Path, factors: Mapping[str, Any], words: tuple[str, ...]
) -> None:
    for name in ("cpu-clock-buffer", "plain"):
        run = synthetic.description(matrix=name, cc="cubic", factors=dict(factors))
        synthetic.write_run(tmp_path, run, name=name)
    matrices = to_matrices(load_results(tmp_path, "made-up").runs)
    assert [plot_names(matrix) for matrix in matrices] == [words, words]


@pytest.mark.parametrize(
    ("word", "needs"),
    [
        ("ping", "ping flow"),
        ("lag", "ping"),
        ("fetches", "short flow"),
        ("knee", "buffers"),
        ("cc-state", "shows its state"),
        ("rivals", "exactly two flows"),
        ("dips", "sampled its sockets"),
        ("latency", "sampled its sockets"),
        ("heatmap", "two factors that vary"),
        ("shares", "two flows that compete"),
    ],
)
def test_what_a_drawing_needs_and_does_not_find_is_said(
    tmp_path: Path, word: str, needs: str
) -> None:
    """Runs of one flow with no factor but the congestion control, and no samples."""
    for cc in ("cubic", "bbr"):
        folder = synthetic.write_at(tmp_path, {"cc": cc}, asked={"buffers": "system"})
        for series in folder.glob("*.jsonl"):
            series.unlink()
    study = Study("made-up", "x", matrix_draws=(("main", (word,)),))

    (part,) = to_chapter(study, load_results(tmp_path, "made-up")).parts

    assert f"No figure {word}: it needs" in part.note and needs in part.note
    assert not part.pictures


# -- no drawing loses a cell


CCS = ("cubic", "bbr", "reno")
# Each drawing's own axis; the other factors of the made-up matrix are no drawing's.
AXES: Mapping[str, tuple[str, Sequence[Any]]] = {
    "cpu": ("syscall_cost", ("0us", "20us")),
    "buffer": ("buffer", (100, 1000)),
    "by-loss": ("loss", (0.001, 0.01)),
    "by-rtt": ("rtt", (10.0, 50.0)),
    "map": ("profile", ("paris", "tokyo")),
}
STREAMS = ("streams", (1, 4))
OVER_TIME = ("series", "cwnd", "teeth", "shares", "latency", "dips")


def described(word: str, axis: str, level: Any, cc: str, others: Mapping[str, Any]) -> dict:
    """run.json of one cell."""
    changes: dict[str, Any] = {
        "syscall_cost": {"syscall_cost_us": float(str(level).removesuffix("us") or 0)}
        if axis == "syscall_cost"
        else {},
        "buffer": {"buffer_pkts": level},
        "loss": {"loss": {"model": "random", "p": level}},
        "rtt": {"rtt_ms": level},
        "profile": {"profile": level},
        "streams": {"streams": level},
    }[axis]
    factors = {"cc": cc, axis: level, **others}
    asked = {**OF_M, "cc": cc, "factors": factors, "duration_s": 20.0, **changes}
    asked["direction"] = others["direction"]
    if word == "shares":
        return synthetic.several({"cc": cc}, {"cc": cc}, **{**asked, "streams": 1})
    return synthetic.description(**asked)


def cells_of(word: str) -> Iterator[tuple[int, dict]]:
    """run.json of each combination."""
    axis, levels = AXES.get(word, STREAMS)
    combinations = itertools.product(levels, CCS, ("dry", "wet"), ("upload", "download"))
    for index, (level, cc, weather, direction) in enumerate(combinations):
        yield index, described(word, axis, level, cc, {"weather": weather, "direction": direction})


def numbers_of(index: int) -> tuple[float, int, int, float]:
    """A run's goodput, segments sent again, window, and the first flow's share."""
    return 20 + 3.7 * index, 11 + 7 * index, 23 + 5 * index, 0.2 + 0.013 * index


def write_cells(results: Path, word: str) -> None:
    """A run of each combination."""
    for index, run in cells_of(word):
        goodput, wan, window, share = numbers_of(index)
        folder = synthetic.write_run(
            results, run, goodput_mbit=goodput, wan=wan, name=f"{index:03}"
        )
        if word in OVER_TIME:
            rates = {each["name"]: goodput if word == "dips" else 90.0 for each in run["flows"]}
            if len(rates) > 1:
                rates = {"flow1": 90 * share, "flow2": 90 * (1 - share)}
            windows = dict.fromkeys(rates, window)
            synthetic.write_over_time(folder, run, rates, windows=windows, sample_s=1.0)
            delays_apart(folder, 30.0 + 2 * index)


def shown_by(word: str) -> list[float]:
    """The number of each combination that its figure must show."""
    shown = []
    for index, run in cells_of(word):
        goodput, wan, window, share = numbers_of(index)
        streams = 1 if word == "shares" else run["streams"]
        shown.append(
            {
                "retransmissions": float(wan),
                "ratio": goodput / 10.0,
                "shares": 100 * share,
                "cwnd": float(window * streams),
                "teeth": float(window * streams),
                "series": float(window * streams),
                "latency": 30.0 + 2 * index,
            }.get(word, goodput)
        )
    return shown


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The results that a drawing is made of: those of one axis are alike, but for what is sampled
    and how many flows there are.
    """
    written: dict[object, Path] = {}

    def of(word: str) -> Path:
        alone = word if word in ("shares", "dips") else word in OVER_TIME
        like = (AXES.get(word, STREAMS)[0], alone)
        if like not in written:
            written[like] = tmp_path_factory.mktemp("cells")
            write_cells(written[like], word)
        return written[like]

    return of


def delays_apart(folder: Path, srtt_ms: float) -> None:
    """Give every sample of a run the same round trip, another than other runs'."""
    path = folder / "sockets.jsonl"
    rows = [json.loads(line) | {"srtt_ms": srtt_ms} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def numbers_in(figure: Figure) -> Iterator[float]:
    """Everything that the figure's lines and bars stand at."""
    for ax in figure.axes:
        for line in ax.lines:
            yield from np.asarray(line.get_xdata(), dtype=float).ravel()
            yield from np.asarray(line.get_ydata(), dtype=float).ravel()
        # A map's fields have their numbers in them.
        for text in ax.texts:
            with suppress(ValueError):
                yield float(text.get_text().replace(",", ""))
        for patch in ax.patches:
            yield patch.get_height() if hasattr(patch, "get_height") else np.nan


def texts_of(figure: Figure) -> str:
    """Everything that is written on a figure, whatever its lines."""
    return " ".join(" ".join(words_on(figure)).split())


def pictures_of(word: str, results: Path) -> list[ReportFigure]:
    """What a drawing makes of the only matrix in some results."""
    return drawn(results, word, "mine").pictures


@pytest.mark.parametrize("word", WORDS)
def test_no_drawing_drops_or_merges_a_cell_without_saying_so(
    word: str, cells: Callable[[str], Path]
) -> None:
    shown = shown_by(word)
    made = drawn(cells(word), word, "mine", published=(EVERYWHERE,) if word == "ratio" else ())
    pictures = made.pictures
    if not pictures:  # of one tcp flow some drawings make nothing, and say what they need
        assert find_drawing(word).needs in made.note
        return
    lay_out(pictures[0].figure)
    there = np.array([number for each in pictures for number in numbers_in(each.figure)])
    found = sum(bool(np.isclose(there, value, rtol=5e-3).any()) for value in shown)
    said = re.findall(r"(\d+) of (\d+) cells are shown", texts_of(pictures[0].figure))
    if found < len(shown):
        assert said == [(str(found), str(len(shown)))], f"{found} of {len(shown)} are drawn"
        assert all("cells are shown" in texts_of(each.figure) for each in pictures)
    else:
        assert not said


def test_too_many_levels_for_figures_are_counted_on_each(tmp_path: Path) -> None:
    for index in range(MAX_FIGURES + 3):
        levels = {"cc": "cubic", "streams": 4, "weather": f"w{index:02}"}
        synthetic.write_at(tmp_path, levels, asked=OF_M)
    pictures = pictures_of("goodput", tmp_path)
    assert len(pictures) == MAX_FIGURES
    words = f"{MAX_FIGURES} of {MAX_FIGURES + 3} cells are shown"
    assert all(words in texts_of(picture.figure) for picture in pictures)
    assert len({picture.name for picture in pictures}) == MAX_FIGURES


def test_close_cells_do_not_stand_on_the_figure_s_edge(tmp_path: Path) -> None:
    for streams, goodput in ((1, 139.0), (2, 141.0), (4, 142.0)):
        for number in range(6):
            levels, mbit = {"cc": "cubic", "streams": streams}, goodput + 0.1 * number
            synthetic.write_at(tmp_path, levels, number + 1, OF_M, goodput_mbit=mbit)
    (picture,) = pictures_of("cells", tmp_path)
    (ax,) = picture.figure.axes
    reached = max(float(x) for line in ax.lines for x in line.get_xdata())
    assert reached == pytest.approx(142.5, abs=0.1)
    assert reached < 0.97 * ax.get_xlim()[1]


@pytest.mark.parametrize("word", ["by-loss", "by-rtt"])
def test_points_stand_at_what_was_asked_also_where_they_overlap(word: str, tmp_path: Path) -> None:
    axis, levels = AXES[word]
    for level, cc in itertools.product(levels, CCS):
        run = described(word, axis, level, cc, {"direction": "upload"})
        synthetic.write_run(tmp_path, run, goodput_mbit=50.0, name=f"{level}-{cc}")
    (picture,) = pictures_of(word, tmp_path)
    lines = [line for ax in picture.figure.axes for line in ax.lines]
    points = [line for line in lines if str(line.get_label()).startswith("lab ")]
    assert {float(line.get_xdata()[0]) for line in points} == set(levels)
    looks = {(line.get_marker(), line.get_markersize()) for line in points}
    assert len(looks) == len(CCS)


# -- tables


def test_every_congestion_control_is_compared_not_just_two(tmp_path: Path) -> None:
    for cc, goodput in (("cubic", 100.0), ("bbr", 120.0), ("reno", 80.0), ("vegas", 50.0)):
        synthetic.write_run(tmp_path, synthetic.cell(cc, 4), goodput_mbit=goodput)
    (part,) = to_chapter(synthetic.STUDY, load_results(tmp_path, "made-up")).parts
    compared = [table.name for table in part.tables if "comparison" in table.name]
    assert len(compared) == 3 and len(set(compared)) == 3


# -- panels of different scales


def test_rows_of_windows_share_their_scale_or_say_that_they_do_not(tmp_path: Path) -> None:
    for name, windows in (("near", (100, 130)), ("far", (10, 1000))):
        for condition, window in zip(("a", "b"), windows, strict=True):
            asked = {**OF_M, "tunnel": "direct", "duration_s": 10.0}
            levels = {"cc": "cubic", "condition": condition}
            folder = synthetic.write_at(tmp_path / name, levels, asked=asked)
            run = json.loads((folder / "run.json").read_text())
            synthetic.write_over_time(folder, run, {"flow1": 10.0}, windows={"flow1": window})
    (near,), (far,) = (pictures_of("cwnd", tmp_path / name) for name in ("near", "far"))
    assert len({ax.get_ylim() for ax in near.figure.axes}) == 1
    assert "scale of its own" not in texts_of(near.figure)
    assert len({ax.get_ylim() for ax in far.figure.axes}) == 2
    assert "Each row has a scale of its own." in texts_of(far.figure)


def test_figures_of_several_levels_say_that_their_scales_differ(tmp_path: Path) -> None:
    for streams, weather in itertools.product((1, 4), ("dry", "wet")):
        synthetic.write_at(tmp_path, {"streams": streams, "weather": weather}, asked=OF_M)
    pictures = pictures_of("goodput", tmp_path)
    assert [picture.name for picture in pictures] == [
        f"mine-goodput-{name}"
        for name in map(plot_registry.file_name_part, ("weather dry", "weather wet"))
    ]
    assert all(plot_registry.OWN_SCALE in texts_of(picture.figure) for picture in pictures)
