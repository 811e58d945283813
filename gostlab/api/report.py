"""Write results as files and pages: reports, the site, the tables of docs/, and comparisons."""

from __future__ import annotations

import glob
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from gostlab.analysis.load import published as studies
from gostlab.analysis.load import runs as answers
from gostlab.analysis.report import generated_tables
from gostlab.analysis.report import report as pages
from gostlab.analysis.report import site as site_pages
from gostlab.analysis.report import summary as summaries
from gostlab.analysis.stats import cells, compare_results
from gostlab.install.locate import MissingPart
from gostlab.registry.folders import CODE, IS_PACKAGE
from gostlab.spec.experiment import load_experiment
from gostlab.spec.yaml_source import BadInput, is_path

REPORT = "report"  # name of the report's folder in a results folder


def reported(folder: Path, experiments: Sequence[str]) -> list[str]:
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

    `say` is called with lines on how far a published study agrees with the results.

    experiments: by name or by their file's path. Names, questions and plots come from the copy of
    the experiment's file in its results, and from no other. out: the folder to write (default:
    `report` in the results folder). Raises BadInput, OSError.
    """
    results_folder = Path(folder)
    wanted = reported(results_folder, experiments)
    loaded = [studies.load_study(name, results_folder) for name in wanted]
    return pages.write_report(results_folder, loaded, out or results_folder / REPORT, say)


def write_run_page(folder: Path, run: Path, out: Path | None = None) -> Path:
    """Write a page of one run with every sample, and every ACK if recorded, and return the page.

    run: its folder, or its name in the results of any experiment, or EXPERIMENT/name. out: the file
    (….html), or the folder for RUN.html (default: `report` in the results folder). Raises BadInput,
    OSError.
    """
    known = [candidate for candidate in (run, folder / run) if candidate.is_dir()][:1]
    if not known and run == Path(run.name):
        known = sorted(folder.glob(f"*/{glob.escape(run.name)}/run.json"))
    if len(known) != 1:
        among = " and ".join(str(candidate.parent) for candidate in known[:3])
        raise BadInput(
            f"{run}: several runs of that name: give its folder ({among})"
            if known
            else f"{run}: no run's folder, and no run of that name in {folder}"
        )
    run_folder = known[0] if known[0].is_dir() else known[0].parent

    target = out or folder / REPORT
    page = target if target.suffix == ".html" else target / f"{run_folder.resolve().name}.html"
    return pages.write_run(run_folder, page)


def site(folder: Path, experiments: Sequence[str] = (), out: Path | None = None) -> Path:
    """Write the site's pages of results, build it, and return its first page.

    experiments: sections of the page of studies to renew, the others stay (none: all that have
    results, and no others). out: the folder (default: site/ of the checkout, or of the current
    folder if gostlab is an installed package). Raises BadInput, MissingPart, OSError.
    """
    wanted = reported(folder, experiments)

    if find_spec("sphinx") is None:
        raise MissingPart("the site's generator is not there: run ./lab setup --with site")
    target = out or (Path() if IS_PACKAGE else CODE) / "site"
    sources = site_pages.write_site(folder, wanted, target, keep=bool(experiments))
    argv: list[str | Path] = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-b",
        "html",
        sources,
        target / "html",
    ]
    process = subprocess.run(argv, capture_output=True, text=True)
    if process.returncode != 0:
        last_line = (process.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise OSError(f"{sources}: the site cannot be built: {last_line}")
    return target / "html" / "index.html"


def docs_pages(
    folder: Path, experiments: Sequence[str] = (), out: Path | None = None
) -> list[Path]:
    """Write results into the pages of docs/, and return the pages that were written.

    These are the page of results, and the tables between marks in other pages.

    experiments: sections of the page of results to renew (none: all that have results). out: the
    folder with the pages (default: docs/ of the checkout). Raises BadInput, OSError.
    """
    wanted = reported(folder, experiments)

    if IS_PACKAGE:
        raise BadInput("--docs writes the pages of a clone: run ./lab report --docs in one")
    target = out or CODE / "docs"
    results_page = target / "results.md"
    summaries.update_pages(target)
    pages = sorted(page for page in target.rglob("*.md") if page != results_page)
    changed = generated_tables.write_marked(pages, folder, CODE)
    return [summaries.write_summary(folder, wanted, results_page), *changed]


def compare(
    before: str | Path, after: str | Path, threshold: float = 0.05
) -> compare_results.Changes:
    """Compare two experiments' results folders (results/NAME each) and return the changes.

    Its `rows` are the metrics of every cell that both have, each with a verdict: better, worse,
    unsure or same; `pandas.DataFrame(found.rows)` is a table of them. `lost` are the cells of which
    no run counts any more.

    threshold: a metric that changes by less than this share is the same. Raises BadInput, OSError.
    """
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
    compared = compare_results.changes(matrices[0], matrices[1], threshold)
    if not compared.rows and not compared.lost:
        raise BadInput(f"{before}, {after}: no cell of one is in the other: nothing to compare")
    return compared
