"""What results say, as files and pages: reports, the site, the tables of docs/, what changed."""

from __future__ import annotations

import glob
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from gostlab.analysis.load import published as studies
from gostlab.analysis.load import runs as answers
from gostlab.analysis.report import generated_tables
from gostlab.analysis.report import report as pages
from gostlab.analysis.report import site as site_pages
from gostlab.analysis.report import summary as summaries
from gostlab.analysis.stats import cells, compare_results
from gostlab.install.venvs import SITE_TOOLS, find_environment
from gostlab.registry.folders import CODE, IS_PACKAGE
from gostlab.spec.experiment import load_experiment
from gostlab.spec.yaml_source import BadInput, is_path

REPORT = "report"  # the folder beside the experiments' in a results folder


def reported(folder: Path, experiments: Sequence[str]) -> list[str]:
    """The names of the experiments to report: those given, by name or by the path of their file,
    or all that have results. Raises BadInput if one has none.
    """
    places = folder.iterdir() if folder.is_dir() else ()
    found = sorted(each.name for each in places if each.is_dir() and each.name != REPORT)
    wanted = []
    for word in experiments:
        name = load_experiment(word).name if is_path(word) and word not in found else word
        if name not in found:
            raise BadInput(
                f"{folder}: no results of {name} there (found: {', '.join(found) or 'none'}):"
                f" ./lab run {word}"
            )
        wanted.append(name)
    if not (wanted or found):
        raise BadInput(f"{folder}: no results there: ./lab run thesis-tunnel --quick")
    return wanted or found


def report(
    folder: str | Path,
    experiments: Sequence[str] = (),
    out: Path | None = None,
    say: Callable[[str], object] = str,
) -> Path:
    """Write tables, figures and one page of some experiments' results; the page. `say` is told how
    far a study agrees with the lab.

    experiments: by name or by their file's path. What an experiment is called, asks and draws is
    said by the copy of its file that its last run left with the results, and by no other. out: the
    folder to write (default: `report` in the results folder). Raises BadInput, OSError.
    """
    place = Path(folder)
    wanted = reported(place, experiments)
    found = [studies.load_study(name, place) for name in wanted]
    return pages.write_report(place, found, out or place / REPORT, say)


def open_run(folder: Path, run: Path, out: Path | None = None) -> Path:
    """Write a page of one run with every sample, at every ACK where those were recorded; the page.

    run: its folder, or its name in the results of any experiment, or EXPERIMENT/name. out: the file
    (….html), or the folder for RUN.html (default: `report` in the results folder). Raises BadInput,
    OSError.
    """
    known = [each for each in (run, folder / run) if each.is_dir()][:1]
    if not known and run == Path(run.name):
        known = sorted(folder.glob(f"*/{glob.escape(run.name)}/run.json"))
    if len(known) != 1:
        among = " and ".join(str(each.parent) for each in known[:3])
        raise BadInput(
            f"{run}: several runs of that name: give its folder ({among})"
            if known
            else f"{run}: no run's folder, and no run of that name in {folder}"
        )
    found = known[0] if known[0].is_dir() else known[0].parent

    place = out or folder / REPORT
    page = place if place.suffix == ".html" else place / f"{found.resolve().name}.html"
    return pages.write_run(found, page)


def site(folder: Path, experiments: Sequence[str] = (), out: Path | None = None) -> Path:
    """Write the site's pages of what runs say, and build it; its first page.

    experiments: sections of the page of studies to make anew, the others stay (none: of all that
    have results, and of no others). out: the folder (default: site/ of the checkout; of the current
    folder, where the lab is an installed package). Raises BadInput, MissingPart, OSError.
    """
    wanted = reported(folder, experiments)

    python = find_environment(SITE_TOOLS) / "bin" / "python"
    place = out or (Path() if IS_PACKAGE else CODE) / "site"
    sources = site_pages.write_site(folder, wanted, place, keep=bool(experiments))
    words: list[str | Path] = [python, "-m", "sphinx", "-q", "-b", "html", sources, place / "html"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise OSError(f"{sources}: the site cannot be built: {last}")
    return place / "html" / "index.html"


def docs_pages(
    folder: Path, experiments: Sequence[str] = (), out: Path | None = None
) -> list[Path]:
    """Write what runs say into the pages of docs/: the page of results, and the tables between
    marks of the other pages; the pages that were written.

    experiments: sections of the page of results to make anew (none: of all that have results). out:
    the folder with the pages (default: docs/ of the checkout). Raises BadInput, OSError.
    """
    wanted = reported(folder, experiments)

    if IS_PACKAGE:
        raise BadInput("--docs writes the pages of a clone: run ./lab report --docs in one")
    place = out or CODE / "docs"
    results_page = place / "results.md"
    summaries.renew_pages(place)
    pages = sorted(page for page in place.rglob("*.md") if page != results_page)
    changed = generated_tables.write_marked(pages, folder, CODE)
    return [summaries.write_summary(folder, wanted, results_page), *changed]


def compare(
    before: str | Path, after: str | Path, threshold: float = 0.05
) -> compare_results.Changes:
    """What changed between two experiments' results folders (results/NAME each). Its `rows` are the
    figures of every cell that both have, each with a verdict: better, worse, unsure or same;
    `pandas.DataFrame(found.rows)` is a table of them. `lost` are the cells of which no run counts
    any more.

    threshold: a figure that moves by less, as a share, is the same. Raises BadInput, OSError.
    """
    if not 0 < threshold < 10:
        raise BadInput(f"--threshold {100 * threshold:g}%: not within 0% and 1000%")

    found = []
    for folder in map(Path, (before, after)):
        if not folder.is_dir():
            raise BadInput(f"{folder}: no such folder (an experiment's results: results/NAME)")
        place = folder.resolve()
        loaded = answers.load_results(place.parent, place.name)
        if not any(run.counts for run in loaded.runs):
            raise BadInput(f"{folder}: no run there counts (an experiment's results: results/NAME)")
        found.append(cells.to_matrices(loaded.runs))
    compared = compare_results.changes(found[0], found[1], threshold)
    if not compared.rows and not compared.lost:
        raise BadInput(f"{before}, {after}: no cell of one is in the other: nothing to compare")
    return compared
