"""The page of studies: what each study asked and did, what the lab did, its figures, and where the
two agree or not.

    site/pages/studies.md · site/pages/studies/*.png

Markdown that a forge shows as it is. All of it is made from result folders and experiment files,
and can be made again.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gostlab.analysis.load.published import Study, questions
from gostlab.analysis.load.run_json import question, read_run_json
from gostlab.analysis.load.runs import ExperimentFolders, load_results
from gostlab.analysis.plotting.sentences import made_by_line
from gostlab.analysis.plotting.style import save
from gostlab.analysis.report import tables
from gostlab.analysis.report.experiment import Chapter, to_chapter
from gostlab.analysis.report.generated_tables import made_earlier, sections_in, write_made
from gostlab.analysis.report.report import page_template
from gostlab.analysis.stats import published_targets
from gostlab.analysis.stats.cells import runs_per_cell, to_matrices
from gostlab.analysis.stats.text_table import NBSP, markdown, several, span_words
from gostlab.results import write_whole

COMMAND = "./lab report --site"
# A list of runs longer than this is for the report.
MAX_LISTED = 20


def write_studies_page(
    results: Path, studies: Sequence[Study], out_md: Path, *, keep: bool = False
) -> Path:
    """Write the page of some experiments and its pictures (in a folder of the page's name); the
    page. Raises OSError and BadInput.

    keep: the other studies' sections of the page that is there stay as they are

    Only runs of an experiment's full form count here, as its file stands now; of a matrix of which
    less than half has been run, those of its quick form, and the page says so. What one's own
    --set left in the results is another question. The pictures that the last page showed and this
    one does not are deleted, and no other file.
    """
    folder = out_md.with_suffix("")
    kept = kept_of(out_md, [study.name for study in studies]) if keep else {}
    forms = [form_of(results / study.name, study.name) for study in studies]
    chapters = [
        to_chapter(study, load_results(results, study.name, form.asking))
        for study, form in zip(studies, forms, strict=True)
    ]
    parts = dict(kept)
    for chapter, form in zip(chapters, forms, strict=True):
        for picture in chapter.pictures:
            write_whole(folder / f"{picture.name}.png", save(picture.figure, "png"))
        row = overview_row(chapter, form.quick)
        parts[chapter.study.name] = StudySection(row, section(chapter, folder.name, form.quick))
    names = sorted(parts) if kept else parts  # by name, if something stays
    shown = [parts[name] for name in names]
    page = page_template("studies.md.j2").render(command=COMMAND, parts=shown)
    return write_made(out_md, COMMAND, page)


@dataclass(frozen=True)
class StudySection:
    """A study's part of the page."""

    row: str  # of the table that sums all up
    text: str


def kept_of(page: Path, but: Collection[str]) -> dict[str, StudySection]:
    """The studies of a page that was made earlier, but for some, by name."""
    head, sections = sections_in(made_earlier(page, COMMAND), "study")
    rows = {
        found[1]: found[0]
        for found in re.finditer(r"(?m)^\| \[.*?\]\(#study-([A-Za-z0-9-]+)\) \|.*$", head)
    }
    return {
        name: StudySection(rows[name], text)
        for name, text in sections.items()
        if name in rows and name not in but
    }


@dataclass(frozen=True)
class StudyForm:
    """Which of an experiment's runs the page is made of."""

    asking: frozenset[str] | None = None  # what they ask; None: anything, as there is no file
    quick: tuple[str, ...] = ()  # the matrices whose runs are their quick form's


def form_of(folder: Path, name: str) -> StudyForm:
    """Of every matrix its full form, or its quick form where that has been run and less than half
    of the other; a matrix that only the quick form has, where that holds of the whole. folder: the
    experiment's results.
    """
    full, quick = questions(name), questions(name, quick=True)
    if full is None or quick is None:
        return StudyForm()
    paths = folder.iterdir() if folder.is_dir() else ()
    answered = {question(read_run_json(path)) for path in paths if path.is_dir()}
    asking: set[str] = set()
    short = []
    for matrix in sorted({matrix_of(each) for each in full | quick}):
        longer, shorter = (
            {each for each in form if matrix_of(each) == matrix} for form in (full, quick)
        )
        whole = longer or full
        # Either machine's answer is one: half of the questions are all.
        if shorter & answered and 4 * len(whole & answered) < len(whole):
            short.append(matrix)
            longer = shorter
        asking |= longer
    return StudyForm(frozenset(asking), tuple(short))


def matrix_of(question: str) -> str:
    return str(json.loads(question)["matrix"])


# -- the page


def overview_row(chapter: Chapter, quick: Sequence[str]) -> str:
    """A study's row of the table: how much has run, how much agrees. quick: the matrices whose runs
    are their quick form's.
    """
    verdicts = Counter(row.verdict for row in chapter.targets)
    agree, disagree = verdicts[published_targets.AGREES], verdicts[published_targets.DISAGREES]
    form = ", quick form" if quick else ""
    numbers = (len(chapter.targets), agree, disagree, len(chapter.targets) - agree - disagree)
    return (
        f"| [{markdown(chapter.study.title)}](#{anchor(chapter)}) | {chapter.counted}{form} |"
        f" {' | '.join(map(str, numbers))} |"
    )


def anchor(chapter: Chapter) -> str:
    """The section's own anchor: a forge's for its heading would depend on the forge."""
    return "study-" + re.sub(r"[^A-Za-z0-9-]+", "-", chapter.study.name)


def section(chapter: Chapter, folder: str, quick: Sequence[str]) -> str:
    study, table = chapter.study, chapter.target_table
    longer = {matrix for matrix, _ in study.matrix_titles} - set(quick)
    source = [study.seed, f"sections {study.sections}" if study.sections else ""]
    if table is not None:  # the reasons stand above it, each once
        table = replace(table, columns=tuple(each for each in table.columns if each.key != "why"))
    return page_template("study.md.j2").render(
        chapter=chapter,
        study=study,
        folder=folder,
        anchor=anchor(chapter),
        md=markdown,
        quick=quick and f"Of {', '.join(quick) if longer else 'this study'}",
        source=", ".join(filter(None, source)),
        summary=summary_of(chapter),
        made_by=made_by_line(chapter.results.runs),
        lab=lab_words(chapter) if chapter.counted else "",
        aside=set_aside(chapter.results),
        most=MAX_LISTED,
        table=table,
    )


def summary_of(chapter: Chapter) -> str:
    """What is folded away."""
    matrices = len(chapter.parts)
    pictures = sum(len(part.pictures) for part in chapter.parts)
    said = [
        several(matrices, "matrix", "matrices") if matrices else "",
        several(pictures, "figure") if pictures else "",
        "every published number" if chapter.target_table is not None else "",
    ]
    return ", ".join(filter(None, said)) or "nothing"


def lab_words(chapter: Chapter) -> str:
    """What the lab did: where, on which clock and paths, how often, how long."""
    counted = [run for run in chapter.results.runs if run.counts]
    made = {run.environment for run in counted if run.environment is not None}
    machines = sorted({f"{each.machine}, {each.clock} clock" for each in made})
    profiles = sorted({run.profile for run in counted})
    more = f" and {len(profiles) - 6} more" if len(profiles) > 6 else ""
    sizes = runs_per_cell(to_matrices(counted))
    wall = [run.wall_s for run in counted if run.wall_s is not None]
    took = f", {duration(sum(wall))} of work on the machine" if wall else ""
    return (
        f"{' and '.join(machines) or 'unknown machine'};"
        f" profile{'' if len(profiles) == 1 else 's'} {', '.join(profiles[:6])}{more};"
        f" {len(counted)} runs, n = {span_words(sizes[0], sizes[-1])} per cell;"
        f" {duration(sum(run.load_s for run in counted))} of load{took}."
    )


def duration(seconds: float) -> str:
    """A time for people: 45 s, 12 min, 3.5 h."""
    if seconds < 120:
        return f"{seconds:.0f}{NBSP}s"
    if seconds < 7200:
        return f"{seconds / 60:.0f}{NBSP}min"
    return f"{seconds / 3600:.1f}{NBSP}h"


def set_aside(results: ExperimentFolders) -> dict[str, Any]:
    """Which runs are degraded or do not count, why, and how many."""
    degraded = [run for run in results.runs if run.counts and run.verdict == "degraded"]
    out = [run for run in results.runs if not run.counts]
    listed = [(run.name, "degraded", tables.why(run)) for run in degraded]
    listed += [(run.name, tables.state_of(run), tables.why(run)) for run in out]
    listed += [(each.name, "unreadable", each.error) for each in results.broken]
    return {
        "all": len(results.runs) + len(results.broken),
        "degraded": len(degraded),
        "out": len(listed) - len(degraded),
        "listed": listed,
    }
