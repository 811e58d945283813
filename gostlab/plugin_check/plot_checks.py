# SPDX-License-Identifier: MIT
"""Check a plot: that it draws runs or says what it needs, and the same each time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab import api
from gostlab.plugin_check.check_runs import PluginBench, PluginFault, check_description, require

if TYPE_CHECKING:
    from gostlab.analysis.plotting.plot_registry import PlotResult

MATRIX: dict[str, Any] = {"cc": ["cubic", "bbr"], "loss": ["0%", "1%"], "streams": [1, 2]}
PATH: dict[str, Any] = {"rate": "5mbit", "rtt": "20ms", "duration": "1s", "sample": "100ms"}
REPETITIONS = 2
OVER = ("loss", "cc")  # the factors of a plot that takes two


def drawn(bench: PluginBench) -> PlotResult:
    """Draw a small sweep. Raises PluginFault for what the plot raises."""
    experiment = api.Experiment.of(repeat=REPETITIONS, machine="sandbox", **PATH, **MATRIX)
    shared = bench.folder / "sweep"
    experiment.run(shared, jobs=1).wait()
    return section_of(bench, shared, experiment.name)


def section_of(bench: PluginBench, results: Path, name: str) -> PlotResult:
    from gostlab.analysis.load.runs import load_results
    from gostlab.analysis.load.study import Study
    from gostlab.analysis.plotting.plot_registry import MatrixInput, draw_matrix
    from gostlab.analysis.stats.cells import to_matrices

    matrices = to_matrices(load_results(results, name).runs)
    drawing = bench.declared.over(bench.declared, *OVER) if bench.declared.over else bench.declared
    try:
        result = draw_matrix(drawing, MatrixInput(matrices[0], matrices, Study(name, name)), name)
        for picture in result.pictures:
            _ = picture.figure  # this draws it
        return result
    except Exception as error:
        raise PluginFault(f"it raises {type(error).__name__}: {error}") from error


def declares(bench: PluginBench) -> None:
    drawing = bench.declared
    check_description(bench, drawing.word, drawing.word * 2)
    caption = drawing.caption
    require(len(caption) > 20 and caption.endswith("."), f"no sentence as caption: {caption!r}")
    from gostlab.registry.plot_names import metrics_by_name

    unknown = set(drawing.metrics) - metrics_by_name().keys()
    require(not unknown, f"metrics: {', '.join(sorted(unknown))}: not known")


def starts(bench: PluginBench) -> None:
    section = drawn(bench)
    needs = f"No figure {bench.name}: it needs"
    require(
        bool(section.pictures) or needs in section.note,
        f"it draws nothing, and does not say what it needs: {section.note!r}",
    )


def carries(bench: PluginBench) -> None:
    from gostlab.analysis.plotting.style import save_figure

    for picture in drawn(bench).pictures:
        require(len(save_figure(picture.figure, "png")) > 1000, "an empty picture")


def ends(bench: PluginBench) -> None:
    """Require that no figure stays open: pyplot would hold it for ever."""
    from matplotlib import pyplot

    before = len(pyplot.get_fignums())
    drawn(bench)
    require(len(pyplot.get_fignums()) == before, "it leaves a figure open (style.new_figure)")


def refuses(bench: PluginBench) -> None:
    """Draw runs of which nothing is known but their descriptions."""
    import shutil

    experiment = api.Experiment.of(repeat=1, machine="sandbox", **PATH, cc=["cubic"])
    folder = bench.folder / "bare"
    experiment.run(folder, jobs=1).wait()
    for series in folder.rglob("*.jsonl"):
        series.unlink()
    section_of(bench, folder, experiment.name)
    shutil.rmtree(folder)


def repeats(bench: PluginBench) -> None:
    from gostlab.analysis.plotting.style import save_figure

    first, second = (
        [save_figure(picture.figure, "svg") for picture in drawn(bench).pictures] for _ in range(2)
    )
    require(first == second, "two pictures of the same runs differ")
