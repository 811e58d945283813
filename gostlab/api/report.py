# SPDX-License-Identifier: MIT
"""Write results as files and pages, and compare them."""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gostlab.spec.experiment import load_experiment
from gostlab.spec.yaml_source import BadInput, is_path

if TYPE_CHECKING:
    from gostlab.analysis.stats import compare_results

REPORT = "report"  # name of the report's folder in a results folder


def select_experiments(folder: Path, experiments: Sequence[str]) -> list[str]:
    """Return the names of the experiments to report: the given ones, or all with results.

    An experiment is given by its name or its file's path. Raises BadInput if one has no results.
    """
    entries = folder.iterdir() if folder.is_dir() else ()
    available = sorted(entry.name for entry in entries if entry.is_dir() and entry.name != REPORT)
    wanted = []
    for argument in experiments:
        name = (
            load_experiment(argument).name
            if is_path(argument) and argument not in available
            else argument
        )
        if name not in available:
            raise BadInput(
                f"{folder}: no results of {name} there (found: {', '.join(available) or 'none'}):"
                f" ./lab run {argument}"
            )
        wanted.append(name)
    if not (wanted or available):
        raise BadInput(f"{folder}: no results there: ./lab run thesis-tunnel --quick")
    return wanted or available


def report(
    folder: str | Path,
    experiments: Sequence[str] = (),
    out: Path | None = None,
    say: Callable[[str], object] = str,
) -> Path:
    """Write tables, plots and one page of some experiments' results, and return the page.

    They are not made again if nothing changed since the last time: neither a file of theirs, nor
    the results, the lab, its plugins or other packages.

    `say` is called with lines on how far a published study agrees with the results.

    experiments: by name or by their file's path. Names, questions and plots come from the copy of
    the experiment's file in its results, and from no other. out: the folder to write (default:
    `report` in the results folder). Raises BadInput, OSError.
    """
    from gostlab.analysis.report import report_folder

    results_folder = Path(folder)
    target = out or results_folder / REPORT
    wanted = select_experiments(results_folder, experiments)
    inputs = report_folder.digest_inputs(results_folder, wanted)
    lines = report_folder.lines_of_current(target, inputs)
    if lines is not None:
        for line in lines:
            say(line)
        return target / report_folder.PAGE
    from gostlab.analysis.load import study as studies
    from gostlab.analysis.report import report as pages

    loaded = [studies.load_study(name, results_folder) for name in wanted]
    return pages.write_report(results_folder, loaded, target, say, inputs)


def find_runs_by_name(folder: Path, run: str) -> list[Path]:
    """Return the folders of the runs of a name in the results: NAME, or EXPERIMENT/NAME."""
    if "/" in run.strip("/"):
        return [path for path in (folder / run,) if (path / "run.json").is_file()]
    return sorted(file.parent for file in folder.glob(f"*/{glob.escape(run)}/run.json"))


def write_run_page(folder: Path, run: Path, out: Path | None = None) -> Path:
    """Write a page of one run with every sample, and every ACK if recorded, and return the page.

    run: its folder, or its name in the results of any experiment, or EXPERIMENT/name. out: the file
    (….html), or the folder for RUN.html (default: `report` in the results folder). Raises BadInput,
    OSError.
    """
    from gostlab.analysis.report import report as pages

    known = [run] if run.is_dir() else find_runs_by_name(folder, str(run))
    if len(known) != 1:
        among = " and ".join(map(str, known[:3]))
        raise BadInput(
            f"{run}: several runs of that name: give its folder ({among})"
            if known
            else f"{run}: no run's folder, and no run of that name in {folder}"
        )
    target = out or folder / REPORT
    page = target if target.suffix == ".html" else target / f"{known[0].resolve().name}.html"
    return pages.write_run(known[0], page)


def compare(
    before: str | Path, after: str | Path, threshold: float = 0.05
) -> compare_results.ResultChanges:
    """Compare two experiments' results folders (results/NAME each) and return the changes.

    Its `rows` are the metrics of every cell that both have, each with a verdict: better, worse,
    unsure or same; `pandas.DataFrame(found.rows)` is a table of them. `lost` are the cells of which
    no run counts any more.

    threshold: a metric that changes by less than this share is the same. Raises BadInput, OSError.
    """
    from gostlab.analysis.load import runs as answers
    from gostlab.analysis.stats import cells, compare_results

    if not 0 < threshold < 10:
        raise BadInput(f"--threshold {100 * threshold:g}%: not within 0% and 1000%")

    matrices = []
    for folder in map(Path, (before, after)):
        if not folder.is_dir():
            raise BadInput(f"{folder}: no such folder (an experiment's results: results/NAME)")
        resolved = folder.resolve()
        loaded = answers.load_results(resolved.parent, resolved.name)
        if not any(run.counts for run in loaded.runs):
            raise BadInput(f"{folder}: no run there counts (an experiment's results: results/NAME)")
        matrices.append(cells.to_matrices(loaded.runs))
    compared = compare_results.compare_runs(matrices[0], matrices[1], threshold)
    if not compared.rows and not compared.lost:
        raise BadInput(f"{before}, {after}: no cell of one is in the other: nothing to compare")
    return compared
