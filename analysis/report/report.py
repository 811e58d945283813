"""The report: one page that needs nothing beside it, and the same figures and tables as files.

    report/report.html · figures/*.svg *.pdf *.png · tables/*.csv *.md

All of it can be deleted and made again from the result folders.
"""

import base64
import io
import json
import os
import re
import shlex
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from matplotlib.figure import Figure
from PIL import Image

from gostlab.analysis.load import shipped_baselines
from gostlab.analysis.load.json_safe import printable
from gostlab.analysis.load.published import Study
from gostlab.analysis.load.run_folder import RunFolder, UnidentifiedRun, load_run
from gostlab.analysis.load.runs import load_results, to_csv, to_frame
from gostlab.analysis.plotting.image_map import Spot, spots_of
from gostlab.analysis.plotting.narrative import study_sentence
from gostlab.analysis.plotting.sentences import made_by_line
from gostlab.analysis.plotting.style import save
from gostlab.analysis.report import page_data, tables
from gostlab.analysis.report.dark_mode import by_night
from gostlab.analysis.report.experiment import Chapter, to_chapter
from gostlab.analysis.stats.cells import Cell, cell_key, file_name, spoken_order, to_matrices
from gostlab.analysis.stats.published_targets import measured_rows
from gostlab.analysis.stats.text_table import cc_name, lines_of, markdown, rate, several
from gostlab.errors import BadInput
from gostlab.results import write_whole
from gostlab.spec.labels import cell_words

TEMPLATE_FOLDER = Path(__file__).resolve().parent
# Names of what the last report wrote, so that the next one takes away what it no longer writes, and
# nothing else.
MANIFEST = ".written.json"
# Runs on a page, which its experiments share; beyond, only those that need a look.
MAX_RUNS_ON_PAGE = 300
MIN_RUNS_OF_EACH = 15
# So much a page has as vectors; beyond, its heaviest figures are bitmaps.
MAX_FIGURE_BYTES = 2_400_000
COLOURS = 48  # of a bitmap: lines and letters in a dozen colours, and their edges


def write_report(
    results: Path, studies: Sequence[Study], out: Path, say: Callable[[str], object] = str
) -> Path:
    """Write some experiments' report to a folder; its page. `say` is told how far each study agrees
    with the lab. Raises OSError, BadInput.
    """
    chapters = [to_chapter(study, load_results(results, study.name)) for study in studies]
    for chapter in chapters:
        if sentence := study_sentence(chapter.targets, chapter.study.called):
            say(sentence)
        if len(chapters) == 1 and chapter.first.rates:
            say(lines_of(chapter.first.rates))
    written = Writer(out)
    drawn: dict[str, tuple[bytes, bytes]] = {}
    spots: dict[str, list[Spot]] = {}
    pictures = {each.name: each.figure for chapter in chapters for each in chapter.pictures}
    for name, (svg, png, pdf, shown) in zip(pictures, saved(list(pictures.values())), strict=True):
        drawn[name], spots[name] = (svg, png), shown
        written.bytes(f"figures/{name}.svg", svg)
        written.bytes(f"figures/{name}.pdf", pdf)
        written.bytes(f"figures/{name}.png", png)
    for chapter in chapters:
        name = file_name(chapter.study.name)
        written.text(f"tables/{name}-runs.csv", to_csv(to_frame(chapter.results.runs)))
        made_by = made_by_line(chapter.results.runs)
        matrices = to_matrices(chapter.results.runs, chapter.study)
        if several := measured_rows(chapter.targets, matrices, made_by):
            written.text(f"tables/{name}-measured.csv", shipped_baselines.to_csv(several))
        for table in chapter.tables:
            written.text(f"tables/{table.name}.csv", table.to_csv())
        title = f"## {markdown(chapter.study.title)}\n"
        shown_tables = [title, *(table.to_markdown() for table in chapter.tables)]
        written.text(f"tables/{name}.md", "\n".join(shown_tables))
    page = written.text("report.html", render(chapters, embedded(drawn), spots))
    written.forget_old()
    return page


# What a process that saves figures has of them: forked, it needs none through a pipe.
FIGURES: list[Figure] = []


def begin_saving(figures: Sequence[Figure]) -> None:
    """Of such a process: it ends with the one that started it."""
    FIGURES[:] = figures
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def save_as_files(number: int) -> tuple[bytes, bytes, bytes, list[Spot]]:
    """A figure's svg, png and pdf, and which cells it shows where."""
    figure = FIGURES[number]
    files = save(figure, "svg"), save(figure, "png"), save(figure, "pdf")
    return *files, spots_of(figure)


def saved(figures: Sequence[Figure]) -> Iterator[tuple[bytes, bytes, bytes, list[Spot]]]:
    """The same of each, on as many CPUs as there are. Raises OSError."""
    fork = get_context("fork")
    cpus = min(len(os.sched_getaffinity(0)), max(1, len(figures)))  # each is forked at once
    try:
        with ProcessPoolExecutor(cpus, fork, begin_saving, (figures,)) as pool:
            yield from pool.map(save_as_files, range(len(figures)))
    except BrokenProcessPool as error:
        raise ChildProcessError("a process that saves figures was ended: report again") from error


class Writer:
    """The report's folder: what is written, and what only the last report wrote."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._written: list[str] = []

    def bytes(self, name: str, content: bytes) -> Path:
        """Write a file, whole or not at all."""
        self._written.append(name)
        return write_whole(self._out / name, content)

    def text(self, name: str, content: str) -> Path:
        """The same of text; what UTF-8 cannot say is a question mark."""
        return self.bytes(name, content.encode("utf-8", "replace"))

    def forget_old(self) -> None:
        """Delete the last report's files that this one has not written again."""
        manifest = self._out / MANIFEST
        try:
            old = json.loads(manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            old = []
        for name in old if isinstance(old, list) else []:
            path = self._out / str(name)
            if name not in self._written and self._out.resolve() in path.resolve().parents:
                path.unlink(missing_ok=True)
        self.bytes(MANIFEST, json.dumps(sorted(self._written), indent=1).encode())


# -- the page


def render(
    chapters: Sequence[Chapter], images: Mapping[str, str], spots: Mapping[str, Sequence[Spot]]
) -> str:
    """The page's HTML. By the figures' names: data URIs, and which cells they show where."""
    anchors = [f"e{index}" for index, _ in enumerate(chapters, 1)]
    most = max(MIN_RUNS_OF_EACH, MAX_RUNS_ON_PAGE // max(1, len(chapters)))
    listings = [run_rows(chapter, most) for chapter in chapters]
    rows = dict(zip(anchors, listings, strict=True))
    runs = {anchor: [row["run"] for row in listed] for anchor, listed in rows.items()}
    linked = {row["key"] for listed in rows.values() for row in listed}
    words = {
        cell.key: cell_says(cell)
        for chapter in chapters
        for matrix in to_matrices(chapter.results.runs)
        for cell in matrix.cells
    }
    return page_template("report.html.j2").render(
        **common(page_data.page_data(runs) if any(runs.values()) else ""),
        chapters=chapters,
        anchors=anchors,
        # it has no quotation mark and no &: nothing in it ends an attribute
        image=lambda name: Markup(images[name]),
        spots=lambda name: links_of(spots[name], words, linked),
        rows=lambda chapter: rows[anchors[chapters.index(chapter)]],
        folders=lambda chapter: len(chapter.results.runs) + len(chapter.results.broken),
        synthetic=any(chapter.results.synthetic for chapter in chapters),
    )


def write_run(folder: Path, out: Path) -> Path:
    """Write the page of one run with every sample. Raises BadInput for no run's, OSError."""
    run = load_run(folder)
    if isinstance(run, UnidentifiedRun):
        raise BadInput(f"{folder}: not a run's folder: {run.error}")
    page = page_template("run.html.j2").render(
        **common(page_data.whole_run("run", run)), anchor="run", row=row_of_run(run)
    )
    return write_whole(out, page.encode("utf-8", "replace"))


@cache
def page_template(name: str) -> jinja2.Template:
    """A page's template, compiled once for all of its sections; whatever a page of HTML is given is
    text, not mark-up.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE_FOLDER),
        autoescape=".html" in name,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def common(runs_data: str) -> dict[str, Any]:
    return {
        "runs_data": runs_data,
        "scripts": page_data.scripts(),
        "policy": page_data.policy(page_data.scripts()),
        "style": page_data.style(),
        "why": tables.why,
        "rate": rate,
        "several": several,
        "quoted": lambda path: shlex.quote(printable(str(path))),
        "cell_words": lambda run: cell_words(spoken_order(run.factors), cc_name),
    }


# -- figures on it


def cell_says(cell: Cell) -> str:
    """A cell in words, for a pointer's hint."""
    goodput = cell.summary("goodput")
    said = [cell.label, cell.variant, "" if goodput is None else f"{rate(goodput.median)} Mbit/s"]
    return ", ".join([*filter(None, said), f"n = {len(cell.counted)}", cell.verdict])


def links_of(
    spots: Iterable[Spot], words: Mapping[str, str], linked: Collection[str]
) -> list[dict[str, Any]]:
    """The page's links over a figure: of each spot its cells that have a run on the page."""
    found = []
    for spot in spots:
        at = (spot.left + spot.width / 2, spot.top + spot.height / 2, spot.width, spot.height)
        style = "left:{:.2%};top:{:.2%};width:{:.2%};height:{:.2%}".format(*at)
        if keys := [key for key in spot.keys if key in linked]:
            said = "; ".join(words.get(key, "") for key in keys)
            found.append({"cells": keys, "words": f"Runs of {said}", "style": style})
    return found


def embedded(drawn: Mapping[str, tuple[bytes, bytes]]) -> dict[str, str]:
    """Every figure's data URI, of its (SVG, PNG): a vector image; where all of them would be more
    than the page may have, the heaviest are bitmaps of few colours.
    """
    found = {name: svg_uri(svg) for name, (svg, _) in drawn.items()}
    total = sum(map(len, found.values()))
    for name in sorted(found, key=lambda name: -len(found[name])):
        if total <= MAX_FIGURE_BYTES:
            break
        bitmap = bitmap_uri(drawn[name][1])
        if len(bitmap) < len(found[name]):
            total -= len(found[name]) - len(bitmap)
            found[name] = bitmap
    return found


def svg_uri(svg: bytes) -> str:
    """An SVG inside the page, dark where the page is. As an image and not as mark-up: the ids of
    two cannot clash, and no script in it runs.
    """
    text = by_night(shortened(svg))
    if b"'" not in text:  # as it is in an attribute, and thereby shorter
        text = text.replace(b'"', b"'")
    escaped = ESCAPED_IN_URI.sub(lambda found: b"%%%02X" % found[0][0], text)
    return "data:image/svg+xml," + escaped.decode("ascii")


def bitmap_uri(png: bytes) -> str:
    """A PNG as a bitmap inside the page: with as many colours as a figure needs, packed as WebP
    without loss, which all of today's browsers read.
    """
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    few = picture.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    out = io.BytesIO()
    few.convert("RGB").save(out, "WEBP", lossless=True, quality=80)
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode("ascii")


def shortened(svg: bytes) -> bytes:
    """The same picture in two thirds of its bytes: outlines to a hundredth of a point; no comments,
    no ids that nothing refers to, no white space between elements.
    """

    rounded = OUTLINE.sub(lambda found: LONG_DECIMALS.sub(rb"\1", found[0]), svg)
    text = UNSEEN.sub(b"", rounded)
    used = set(REFERENCE.findall(text))
    text = ID.sub(lambda found: found[0] if found[1] in used else b"", text)
    return BETWEEN.sub(b"><", WHITE.sub(b" ", text)).strip()


OUTLINE = re.compile(rb' (?:d|x|y)="[^"]*"')
LONG_DECIMALS = re.compile(rb"(\d\.\d\d)\d+(?!\d|e)")
UNSEEN = re.compile(rb"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
REFERENCE = re.compile(rb'(?:href="#|url\(#)([^")]+)')
ID = re.compile(rb' id="([^"]*)"')
WHITE = re.compile(rb"\s+")
BETWEEN = re.compile(rb"> <")
# What a URI in an attribute may not hold as it is. urllib's quote looks at every byte: a tenth of a
# second per figure.
ESCAPED_IN_URI = re.compile(rb"[^ '=:/;,()<>?!+\-_.~@*$\[\]{}|^\\`0-9A-Za-z]")


# -- the list of runs


def run_rows(chapter: Chapter, most: int) -> list[dict[str, Any]]:
    """The page's list of runs, at most so many: those that need a look first."""
    letters = {
        run.folder: letter
        for letter, (_, runs) in tables.environments(chapter.results).items()
        for run in runs
    }
    rows = [row_of_run(run, letters.get(run.folder, "")) for run in chapter.results.runs]
    rows.sort(key=lambda row: (row["state"] == "ok", row["state"] == "degraded"))
    # links without scripts lead to a cell's first run
    first = {row["key"]: row for row in reversed(rows[:most])}
    return [{**row, "first": row is first[row["key"]]} for row in rows[:most]]


def row_of_run(run: RunFolder, letter: str = "") -> dict[str, Any]:
    return {"run": run, "state": tables.state_of(run), "letter": letter, "key": cell_key(run)}
