"""The page of results: of each experiment the question, the answer, one picture and one table.

    docs/results.md · docs/results/*.png

Only cells with enough runs are on it (analysis.page.marked.LEAST). Sections of experiments that
have no such runs in the results stay as they are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.draw.registry import Picture
from analysis.draw.style import save
from analysis.judge import targets
from analysis.judge.cells import MatrixResults, to_matrices
from analysis.judge.table import Column, Table, count, markdown, span_words, texts
from analysis.page.chapter import Chapter, to_chapter
from analysis.page.marked import LEAST, Asked, cells_table, foot_of, load_fullest
from analysis.page.report import page_template, write_whole
from analysis.read.runs import Results
from analysis.read.study import is_about, load_study

COMMAND = "./lab report --docs"
# A table of more cells is for the report; the page counts its matrices.
MOST_CELLS = 12
MOST_SENTENCES = 2


@dataclass(frozen=True)
class Section:
    """An experiment on the page."""

    text: str
    pictures: frozenset[str]


def write_summary(results: Path, names: Sequence[str], out_md: Path) -> Path:
    """Write the page of results and its pictures (in a folder of the page's name); the page.

    names: the experiments to make anew, where they have runs enough. Raises OSError, DrawingError.
    """
    folder = out_md.with_suffix("")
    before = kept_sections(out_md)
    sections = dict(before)
    for name in names:
        chapter = chapter_of(results, name)
        if chapter is None:
            continue
        picture = picture_of(chapter)
        if picture is not None:
            write_whole(folder / f"{name}.png", save(picture.figure, "png"))
        sections[name] = Section(
            section_of(chapter, folder.name), frozenset([name] if picture else [])
        )
    page = page_template("summary.md.j2").render(
        command=COMMAND, least=LEAST, sections=[sections[name].text for name in sorted(sections)]
    )
    write_whole(out_md, (page.rstrip("\n") + "\n").encode("utf-8"))
    shown = {name for each in sections.values() for name in each.pictures}
    for name in {name for each in before.values() for name in each.pictures} - shown:
        (folder / f"{name}.png").unlink(missing_ok=True)
    return out_md


def kept_sections(page: Path) -> dict[str, Section]:
    """The sections of the page as it is, by experiment; none of a page that something else
    wrote.
    """
    try:
        words = page.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return {}
    if COMMAND not in words[:400]:
        return {}
    _, *rest = re.split(r'(?m)^<a id="results-([A-Za-z0-9-]+)"></a>\n', words)
    return {
        name: Section(
            f'<a id="results-{name}"></a>\n{text.rstrip()}',
            frozenset(re.findall(r"\]\([^)/]+/([A-Za-z0-9._+-]+)\.png\)", text)),
        )
        for name, text in zip(rest[::2], rest[1::2], strict=True)
    }


def chapter_of(results: Path, name: str) -> Chapter | None:
    """An experiment's chapter of the cells with runs enough; None if there is no such cell."""
    study = load_study(name)
    enough = tuple(
        run
        for matrix in load_fullest(results, name).values()
        for cell in matrix.cells
        if len(cell.counted) >= LEAST
        for run in cell.counted
    )
    cells = {(run.matrix, run.factors): run for run in enough}.values()
    published = tuple(each for each in study.published if any(is_about(each, run) for run in cells))
    judged = replace(study, published=published)
    return to_chapter(judged, Results(name, enough, ())) if enough else None


def picture_of(chapter: Chapter) -> Picture | None:
    """The lab over the study, where that can be drawn; else what the answer is about."""
    return chapter.against or chapter.first.picture


def section_of(chapter: Chapter, folder: str) -> str:
    """A section's Markdown."""
    study = chapter.study
    matrices = to_matrices(chapter.results.runs, study)
    shown, table = table_of(chapter, matrices)
    return str(
        page_template("summary-section.md.j2").render(
            study=study,
            sentences=chapter.first.sentences[:MOST_SENTENCES],
            picture=picture_of(chapter),
            folder=folder,
            md=markdown,
            table="\n".join(table.to_markdown().strip().splitlines()[2:]),
            foot="\n".join(foot_of(asked_for(chapter, shown), shown)),
        )
    ).rstrip()


def asked_for(chapter: Chapter, shown: Sequence[MatrixResults]) -> Asked:
    """What the section's table would be asked for by a mark."""
    names = tuple(matrix.name for matrix in shown)
    judged = bool(chapter.targets)
    return Asked("", chapter.study.name, names, figures=figures_of(shown[0]), targets=judged)


def table_of(
    chapter: Chapter, matrices: Sequence[MatrixResults]
) -> tuple[Sequence[MatrixResults], Table]:
    """What a section shows: how many published numbers agree, matrix by matrix; or the cells of the
    first matrix, its first ones where there are many.
    """
    if chapter.targets:
        judged = {matrix.name for matrix in matrices}
        rows = [row for row in chapter.targets if row.matrix in judged and row.n >= LEAST]
        return matrices, agreeing(matrices, rows)
    first = matrices[0]
    shown = replace(first, cells=first.cells[:MOST_CELLS])
    return [first], cells_table(shown, None, figures_of(first))


def figures_of(matrix: MatrixResults) -> tuple[str, ...]:
    """The goodput; of flows that compete, each one's."""
    flows = [flow.name for flow in matrix.cells[0].example.flows if flow.competes]
    return tuple(f"goodput_mbit:{name}" for name in flows) if len(flows) > 1 else ("goodput_mbit",)


def agreeing(matrices: Sequence[MatrixResults], rows: Sequence[targets.Target]) -> Table:
    """How many published numbers of each matrix the lab's medians agree with."""
    told = []
    for matrix in matrices:
        own = [row for row in rows if row.matrix == matrix.name]
        if not own:
            continue
        agree = Counter(row.verdict for row in own)[targets.AGREES]
        sizes = sorted(row.n for row in own)
        told.append(
            {
                "matrix": matrix.name,
                "numbers": len(own),
                "agree": agree,
                "n": span_words(sizes[0], sizes[-1]),
            }
        )
    columns = (
        *texts(matrix="matrix"),
        Column("numbers", "published numbers", count),
        Column("agree", "agree", count),
        Column("n", "n"),
    )
    return Table("", "", "", columns, tuple(told))
