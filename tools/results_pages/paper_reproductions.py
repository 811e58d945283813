# SPDX-License-Identifier: MIT
"""Write the page of studies: question, method, the lab's runs, figures and agreement.

site/pages/studies.md · site/pages/studies/*.png

The page is Markdown that a forge displays. It is generated from result folders and experiment
files, and can be generated again.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gostlab.analysis.load.run_json import question_key, read_run_json
from gostlab.analysis.load.runs import ExperimentFolders, load_results
from gostlab.analysis.load.study import Study, question_keys
from gostlab.analysis.plotting.style import save_figure
from gostlab.analysis.report import tables
from gostlab.analysis.report.findings import Chapter, to_chapter
from gostlab.analysis.report.report import page_template
from gostlab.analysis.stats import published_targets
from gostlab.analysis.stats.cells import runs_per_cell, to_matrices
from gostlab.analysis.stats.provenance import made_by_line
from gostlab.analysis.stats.table_formats import NBSP, escape_markdown, format_range, pluralize
from gostlab.atomic_write import write_whole
from tools.results_pages.generated_tables import read_generated, sections_in, write_generated

HERE = Path(__file__).parent
COMMAND = "make results"
# Longer lists of runs appear in the report only.
MAX_LISTED = 20


def write_studies_page(
    results: Path, studies: Sequence[Study], out_md: Path, *, keep: bool = False
) -> Path:
    """Write the page of some experiments with its pictures, and return the page.

    Pictures are in a folder of the page's name. keep: keep the sections of other studies. Raises
    OSError and BadInput.

    Only runs of the full form of an experiment's current file count; for a matrix with less than
    half of them, runs of its quick form, which the page states. Results of --set are excluded.
    Pictures that the page no longer includes are deleted, and no other file.
    """
    folder = out_md.with_suffix("")
    kept_sections = kept_sections_of(out_md, [study.name for study in studies]) if keep else {}
    forms = [form_of(results / study.name, study.name) for study in studies]
    chapters = [
        to_chapter(study, load_results(results, study.name, form.asking))
        for study, form in zip(studies, forms, strict=True)
    ]
    parts = dict(kept_sections)
    for chapter, form in zip(chapters, forms, strict=True):
        for picture in chapter.pictures:
            write_whole(folder / f"{picture.name}.png", save_figure(picture.figure, "png"))
        row = overview_row(chapter, form.quick)
        parts[chapter.study.name] = StudySection(row, section(chapter, folder.name, form.quick))
    names = sorted(parts) if kept_sections else parts  # by name, if something stays
    sections = [parts[name] for name in names]
    page = page_template("studies.md.j2", HERE).render(command=COMMAND, parts=sections)
    return write_generated(out_md, COMMAND, page)


@dataclass(frozen=True)
class StudySection:
    """The section of one study."""

    row: str  # row of the overview table
    text: str


def kept_sections_of(page: Path, excluded: Collection[str]) -> dict[str, StudySection]:
    """Return the sections of an existing page, except for some studies, by name."""
    head, sections = sections_in(read_generated(page, COMMAND), "study")
    rows = {
        match[1]: match[0]
        for match in re.finditer(r"(?m)^\| \[.*?\]\(#study-([A-Za-z0-9-]+)\) \|.*$", head)
    }
    return {
        name: StudySection(rows[name], text)
        for name, text in sections.items()
        if name in rows and name not in excluded
    }


@dataclass(frozen=True)
class StudyForm:
    """The selection of an experiment's runs for the page."""

    asking: frozenset[str] | None = None  # questions of the runs; None: any, without a file
    quick: tuple[str, ...] = ()  # matrices with runs of the quick form


def form_of(folder: Path, name: str) -> StudyForm:
    """Select the full form of each matrix, or its quick form.

    The quick form is used if it has runs and less than half of the full form has been run; for a
    matrix that only the quick form has, that holds for the whole. folder: the experiment's results.
    """
    full, quick = question_keys(name), question_keys(name, quick=True)
    if full is None or quick is None:
        return StudyForm()
    paths = folder.iterdir() if folder.is_dir() else ()
    answered = {question_key(read_run_json(path)) for path in paths if path.is_dir()}
    asking: set[str] = set()
    quick_matrices = []
    for matrix in sorted({matrix_name(form_question) for form_question in full | quick}):
        longer, shorter = (
            {form_question for form_question in form if matrix_name(form_question) == matrix}
            for form in (full, quick)
        )
        expected = longer or full
        # One of the two machines suffices: half of the questions are all.
        if shorter & answered and 4 * len(expected & answered) < len(expected):
            quick_matrices.append(matrix)
            longer = shorter
        asking |= longer
    return StudyForm(frozenset(asking), tuple(quick_matrices))


def matrix_name(question: str) -> str:
    return str(json.loads(question)["matrix"])


# -- the page


def overview_row(chapter: Chapter, quick: Sequence[str]) -> str:
    """Return a study's row of the overview: runs, published values, agreement.

    quick: the matrices with runs of the quick form.
    """
    verdicts = Counter(row.verdict for row in chapter.targets)
    agree, disagree = verdicts[published_targets.AGREES], verdicts[published_targets.DISAGREES]
    form = ", quick form" if quick else ""
    numbers = (len(chapter.targets), agree, disagree, len(chapter.targets) - agree - disagree)
    return (
        f"| [{escape_markdown(chapter.study.title)}](#{anchor(chapter)})"
        f" | {chapter.counted}{form} |"
        f" {' | '.join(map(str, numbers))} |"
    )


def anchor(chapter: Chapter) -> str:
    """Return the section's explicit anchor, which does not depend on the forge."""
    return "study-" + re.sub(r"[^A-Za-z0-9-]+", "-", chapter.study.name)


def section(chapter: Chapter, folder: str, quick: Sequence[str]) -> str:
    study, table = chapter.study, chapter.target_table
    longer = {matrix for matrix, _ in study.matrix_titles} - set(quick)
    source = [study.seed, f"sections {study.sections}" if study.sections else ""]
    if table is not None:  # the reasons are listed above the table
        table = replace(
            table, columns=tuple(column for column in table.columns if column.key != "why")
        )
    return page_template("study.md.j2", HERE).render(
        chapter=chapter,
        study=study,
        folder=folder,
        anchor=anchor(chapter),
        md=escape_markdown,
        quick=quick and f"Of {', '.join(quick) if longer else 'this study'}",
        source=", ".join(filter(None, source)),
        summary=summary_of(chapter),
        made_by=made_by_line(chapter.results.runs),
        lab=describe_runs(chapter) if chapter.counted else "",
        aside=set_aside(chapter.results),
        most=MAX_LISTED,
        table=table,
    )


def summary_of(chapter: Chapter) -> str:
    """Return the heading of the folded details."""
    matrices = len(chapter.parts)
    pictures = sum(len(part.pictures) for part in chapter.parts)
    parts = [
        pluralize(matrices, "matrix", "matrices") if matrices else "",
        pluralize(pictures, "figure") if pictures else "",
        "every published number" if chapter.target_table is not None else "",
    ]
    return ", ".join(filter(None, parts)) or "nothing"


def describe_runs(chapter: Chapter) -> str:
    """Describe the lab's runs: machine, clock, paths, number and duration."""
    counted = [run for run in chapter.results.runs if run.counts]
    environments = {run.environment for run in counted if run.environment is not None}
    machines = sorted(
        {f"{environment.machine}, {environment.clock} clock" for environment in environments}
    )
    profiles = sorted({run.profile for run in counted})
    more = f" and {len(profiles) - 6} more" if len(profiles) > 6 else ""
    sizes = runs_per_cell(to_matrices(counted))
    wall = [run.wall_s for run in counted if run.wall_s is not None]
    wall_text = f", {duration(sum(wall))} of work on the machine" if wall else ""
    return (
        f"{' and '.join(machines) or 'unknown machine'};"
        f" profile{'' if len(profiles) == 1 else 's'} {', '.join(profiles[:6])}{more};"
        f" {len(counted)} runs, n = {format_range(sizes[0], sizes[-1])} per cell;"
        f" {duration(sum(run.load_s for run in counted))} of load{wall_text}."
    )


def duration(seconds: float) -> str:
    """Format a duration: 45 s, 12 min, 3.5 h."""
    if seconds < 120:
        return f"{seconds:.0f}{NBSP}s"
    if seconds < 7200:
        return f"{seconds / 60:.0f}{NBSP}min"
    return f"{seconds / 3600:.1f}{NBSP}h"


def set_aside(results: ExperimentFolders) -> dict[str, object]:
    """List the degraded and the uncounted runs with reasons, and count them."""
    degraded = [run for run in results.runs if run.counts and run.verdict == "degraded"]
    out = [run for run in results.runs if not run.counts]
    listed = [(run.name, "degraded", tables.problem_reason(run)) for run in degraded]
    listed += [(run.name, tables.state_of(run), tables.problem_reason(run)) for run in out]
    listed += [(broken_run.name, "unreadable", broken_run.error) for broken_run in results.broken]
    return {
        "all": len(results.runs) + len(results.broken),
        "degraded": len(degraded),
        "out": len(listed) - len(degraded),
        "listed": listed,
    }
