"""The page of results: of each experiment the answer in a sentence, one picture, what it rests on.

    docs/results.md · docs/results/*.png

Only cells with enough runs are on it (gostlab.analysis.report.generated_tables.MIN). A section
stays as it is where the results have no such run of its experiment's first matrix.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap

from PIL import Image

from gostlab.analysis.load.published import is_about, load_study
from gostlab.analysis.load.runs import ExperimentFolders
from gostlab.analysis.plotting.style import save
from gostlab.analysis.report.experiment import Chapter, to_chapter
from gostlab.analysis.report.generated_tables import (
    MIN,
    commands_of,
    load_fullest,
    made_earlier,
    renew,
    sections_in,
    write_made,
)
from gostlab.analysis.report.report import page_template
from gostlab.analysis.stats import published_targets
from gostlab.analysis.stats.cells import MatrixResults, to_matrices
from gostlab.analysis.stats.text_table import markdown, span_words
from gostlab.results import write_whole

COMMAND = "./lab report --docs"
OWN_PAGES = ("l4s", "which-tunnel")
COLOURS = 64  # of a picture: a third of the bytes, and nobody sees it
COLUMNS = 100
# In an answer: (n = 5), or one of several things in brackets.
OF_SIZE = re.compile(r"\s\(n\s=\s[^;()]+\)|;\sn\s=\s[^;()]+(?=[;)])|(?<=\()n\s=\s[^;()]+;\s")
MAX_NAMED = 2  # matrices of a command; of more it says how many


def write_summary(results: Path, names: Sequence[str], out_md: Path) -> Path:
    """Write the page of results and its pictures (in a folder of the page's name); the page.

    names: the experiments to make anew, where they have runs enough. Raises OSError, BadInput.
    """
    folder = out_md.with_suffix("")
    _, before = sections_in(made_earlier(out_md, COMMAND), "results")
    sections = dict(before)
    for name in names:
        chapter = chapter_of(results, name)
        if chapter is None:
            continue
        if name in OWN_PAGES:
            write_others(chapter, out_md.with_name(f"{name}.md"), folder)
        first, _ = chapter.study.matrix_titles[0]
        if name in before and all(part.matrix != first for part in chapter.parts):
            continue
        if picture := chapter.shown:
            write_whole(folder / f"{name}.png", fewer_colours(save(picture.figure, "png")))
        sections[name] = section_of(chapter, folder.name)
    page = page_template("summary.md.j2").render(
        command=COMMAND, least=MIN, sections=[sections[name] for name in sorted(sections)]
    )
    return write_made(out_md, COMMAND, page)


def write_others(chapter: Chapter, page: Path, folder: Path) -> None:
    """Write the first picture of each matrix that an experiment's page shows. Raises OSError."""
    shown = page.read_text(encoding="utf-8") if page.is_file() else ""
    for part in chapter.parts:
        picture = folder / f"{chapter.study.name}-{part.matrix}.png"
        if part.pictures and f"]({folder.name}/{picture.name})" in shown:
            write_whole(picture, fewer_colours(save(part.pictures[0].figure, "png")))


def renew_pages(place: Path) -> None:
    """Write the words of the pages that are of one experiment. Raises OSError."""
    for name in OWN_PAGES:
        words = page_template(f"{name}.md.j2").render(command=COMMAND)
        renew(place / f"{name}.md", words.rstrip("\n") + "\n")


def fewer_colours(png: bytes) -> bytes:
    """A picture with a palette: these lie in git."""
    out = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS).save(out, "png", optimize=True)
    return out.getvalue()


def chapter_of(results: Path, name: str) -> Chapter | None:
    """An experiment's chapter of the cells with runs enough; None if there is no such cell."""
    study = load_study(name)
    enough = tuple(
        run
        for matrix in load_fullest(results, name).values()
        for cell in matrix.cells
        if len(cell.counted) >= MIN
        for run in cell.counted
    )
    cells = {(run.matrix, run.factors): run for run in enough}.values()
    published = tuple(each for each in study.published if any(is_about(each, run) for run in cells))
    judged = replace(study, published=published)
    return to_chapter(judged, ExperimentFolders(name, enough, ())) if enough else None


def section_of(chapter: Chapter, folder: str) -> str:
    study, picture = chapter.study, chapter.shown
    matrices = to_matrices(chapter.results.runs, study)
    return str(
        page_template("summary-section.md.j2").render(
            study=study,
            sentences=answer_of(chapter),
            # its first clause
            caption=re.split(r"[.:;,] | \(", picture.caption)[0].rstrip(".") if picture else "",
            folder=folder,
            md=markdown,
            foot=foot_of(chapter, matrices),
        )
    ).rstrip()


def answer_of(chapter: Chapter) -> Sequence[str]:
    """What the runs say, in a sentence; below it runs and published numbers are counted."""
    sentences = chapter.first.sentences
    counts = f" of the {chapter.study.called}'s "
    [said] = [each for each in sentences if counts not in each][:1] or sentences[:1]
    return [OF_SIZE.sub("", said)]


def foot_of(chapter: Chapter, matrices: Sequence[MatrixResults]) -> str:
    """What a section rests on: runs, verdicts, published numbers, the command, the lab."""
    sizes = [len(cell.counted) for matrix in matrices for cell in matrix.cells]
    runs = [run for run in chapter.results.runs if run.counts]
    degraded = sum(run.verdict == "degraded" for run in runs)
    judged = [row for row in chapter.targets if row.n >= MIN]
    agree = sum(row.verdict == published_targets.AGREES for row in judged)
    said = [
        f"{len(runs)} runs, n = {span_words(min(sizes), max(sizes))}",
        f"{degraded} degraded" if degraded else "",
        f"{agree} of {len(judged)} published numbers agree" if judged else "",
        f"spread: {chapter.first.spread.replace(' to ', '–')}" if chapter.first.spread else "",
    ]
    labs = sorted({run.environment.lab.split()[0] for run in runs if run.environment})
    shown, *more = commands_of(chapter.study.name, matrices, MAX_NAMED)
    rests = wrap(f"{', '.join(filter(None, said))}.", COLUMNS)
    return "\n".join([*rests, f"{shown} ({', '.join(labs) or 'unknown'})", *more])
