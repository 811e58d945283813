# SPDX-License-Identifier: MIT
"""Write the page of results: for each experiment an answer, a picture and its basis.

docs/results.md · docs/results/*.png

Only cells with enough runs are included (tools.results_pages.generated_tables.MIN). A section
is unchanged if the results have no such run of its experiment's first matrix.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap

from PIL import Image

from gostlab.analysis.load.runs import ExperimentFolders
from gostlab.analysis.load.study import applies_to_run, load_study
from gostlab.analysis.plotting.style import save_figure
from gostlab.analysis.report.findings import Chapter, to_chapter
from gostlab.analysis.report.report import page_template
from gostlab.analysis.stats import published_targets
from gostlab.analysis.stats.cells import MatrixResults, to_matrices
from gostlab.analysis.stats.table_formats import escape_markdown, format_range
from gostlab.atomic_write import write_whole
from tools.results_pages.generated_tables import (
    MIN_RUNS,
    commands_of,
    load_fullest,
    read_generated,
    sections_in,
    update_text,
    write_generated,
)

HERE = Path(__file__).parent
COMMAND = "make results"
SINGLE_PAGES = ("l4s", "which-tunnel")
TRANSLATED_PAGES = ("which-tunnel.zh",)  # with the same runs
COLOURS = 64  # colours of a picture: a third of the size without visible change
COLUMNS = 100
MAX_NAMED = 2  # matrices listed in a command; more are counted


def write_summary(results: Path, names: Sequence[str], out_md: Path) -> Path:
    """Write the page of results and its pictures, and return the page.

    Pictures are in a folder of the page's name. names: the experiments to update if they have
    enough runs. Raises OSError, BadInput.
    """
    folder = out_md.with_suffix("")
    _, before = sections_in(read_generated(out_md, COMMAND), "results")
    sections = dict(before)
    for name in names:
        chapter = chapter_of(results, name)
        if chapter is None:
            continue
        if name in SINGLE_PAGES:
            write_matrix_pictures(chapter, out_md.with_name(f"{name}.md"), folder)
        first, _ = chapter.study.matrix_titles[0]
        if name in before and all(part.matrix != first for part in chapter.parts):
            continue
        if picture := chapter.main_figure:
            write_whole(folder / f"{name}.png", fewer_colours(save_figure(picture.figure, "png")))
        sections[name] = section_of(chapter, folder.name)
    page = page_template("summary.md.j2", HERE).render(
        command=COMMAND, least=MIN_RUNS, sections=[sections[name] for name in sorted(sections)]
    )
    return write_generated(out_md, COMMAND, page)


def write_matrix_pictures(chapter: Chapter, page: Path, folder: Path) -> None:
    """Write the first picture of each matrix that an experiment's page includes. Raises OSError."""
    page_text = page.read_text(encoding="utf-8") if page.is_file() else ""
    for part in chapter.parts:
        picture = folder / f"{chapter.study.name}-{part.matrix}.png"
        if part.pictures and f"]({folder.name}/{picture.name})" in page_text:
            write_whole(picture, fewer_colours(save_figure(part.pictures[0].figure, "png")))


def update_pages(folder: Path) -> None:
    """Rewrite the text of single experiments' pages and their translations. Raises OSError."""
    for name in (*SINGLE_PAGES, *TRANSLATED_PAGES):
        text = page_template(f"{name}.md.j2", HERE).render(command=COMMAND)
        update_text(folder / f"{name}.md", text.rstrip("\n") + "\n")


def fewer_colours(png: bytes) -> bytes:
    """Reduce a picture to a palette, because it is committed to git."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS).save(out, "png", optimize=True)
    return out.getvalue()


def chapter_of(results: Path, name: str) -> Chapter | None:
    """Return an experiment's chapter of the cells with enough runs, or None."""
    study = load_study(name)
    enough = tuple(
        run
        for matrix in load_fullest(results, name).values()
        for cell in matrix.cells
        if len(cell.counted) >= MIN_RUNS
        for run in cell.counted
    )
    cells = {(run.matrix, run.factors): run for run in enough}.values()
    published = tuple(
        published_entry
        for published_entry in study.published
        if any(applies_to_run(published_entry, run) for run in cells)
    )
    judged = replace(study, published=published)
    return to_chapter(judged, ExperimentFolders(name, enough, ())) if enough else None


def section_of(chapter: Chapter, folder: str) -> str:
    study, picture = chapter.study, chapter.main_figure
    matrices = to_matrices(chapter.results.runs, study)
    return str(
        page_template("summary-section.md.j2", HERE).render(
            study=study,
            headline=headline_of(chapter),
            # the first clause of the caption
            caption=re.split(r"[.:;,] | \(", picture.caption)[0].rstrip(".") if picture else "",
            folder=folder,
            md=escape_markdown,
            foot=foot_of(chapter, matrices),
        )
    ).rstrip()


def headline_of(chapter: Chapter) -> str:
    """Return the first headline; the footer counts the published values."""
    headlines = (part.headline for part in chapter.parts if part.headline)
    return next((headline.text for headline in headlines), chapter.first.answer)


def foot_of(chapter: Chapter, matrices: Sequence[MatrixResults]) -> str:
    """Return the basis of a section: runs, verdicts, published values, command, version."""
    sizes = [len(cell.counted) for matrix in matrices for cell in matrix.cells]
    runs = [run for run in chapter.results.runs if run.counts]
    degraded = sum(run.verdict == "degraded" for run in runs)
    judged = [row for row in chapter.targets if row.n >= MIN_RUNS]
    agree = sum(row.verdict == published_targets.AGREES for row in judged)
    parts = [
        f"{len(runs)} runs, n = {format_range(min(sizes), max(sizes))}",
        f"{degraded} degraded" if degraded else "",
        f"{agree} of {len(judged)} published numbers agree" if judged else "",
        f"spread: {chapter.first.spread.replace(' to ', '–')}" if chapter.first.spread else "",
    ]
    labs = sorted({run.environment.lab.split()[0] for run in runs if run.environment})
    first_command, *more = commands_of(chapter.study.name, matrices, MAX_NAMED)
    rests = wrap(f"{', '.join(filter(None, parts))}.", COLUMNS)
    return "\n".join([*rests, f"{first_command} ({', '.join(labs) or 'unknown'})", *more])
