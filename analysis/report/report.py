# SPDX-License-Identifier: MIT
"""The report: one page that needs nothing beside it, and the same figures and tables as files.

    report/report.html · figures/*.svg *.pdf *.png · tables/*.csv *.md

All of it can be deleted and made again from the result folders.
"""

from __future__ import annotations

import base64
import gc
import io
import os
import re
import shlex
import signal
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from markupsafe import Markup
from PIL import Image

from gostlab.analysis.load import shipped_baselines
from gostlab.analysis.load.run_folder import RunFolder, UnidentifiedRun, load_run
from gostlab.analysis.load.runs import load_results, to_csv, to_frame
from gostlab.analysis.load.study import Study
from gostlab.analysis.plotting import pdf_fonts
from gostlab.analysis.plotting.image_map import CellRegion, cell_regions
from gostlab.analysis.plotting.plot_registry import ReportFigure
from gostlab.analysis.plotting.style import narrow_style, save_figure
from gostlab.analysis.plotting.time_sequence_graph import plot_largest_connection
from gostlab.analysis.report import page_data, tables
from gostlab.analysis.report.dark_mode import add_dark_mode
from gostlab.analysis.report.findings import Chapter, to_chapter
from gostlab.analysis.report.report_folder import PAGE, ReportFolder
from gostlab.analysis.stats.cells import Cell, cell_key, display_order, file_name_part, to_matrices
from gostlab.analysis.stats.provenance import made_by_line
from gostlab.analysis.stats.published_targets import agreement_sentence, baseline_rows
from gostlab.analysis.stats.table_formats import (
    cc_name,
    escape_markdown,
    format_for_terminal,
    format_rate,
    pluralize,
)
from gostlab.atomic_write import write_whole
from gostlab.errors import BadInput
from gostlab.spec.labels import cell_label
from gostlab.text_safety import replace_controls

if TYPE_CHECKING:
    import jinja2

TEMPLATE_FOLDER = Path(__file__).resolve().parent
# Maximum runs on a page, divided among its experiments; runs with problems are listed first.
MAX_RUNS_ON_PAGE = 300
MIN_RUNS_OF_EACH = 15
# Maximum size of a page's figures; the largest SVGs beyond it are replaced by bitmaps.
MAX_FIGURE_BYTES = 2_400_000
COLOURS = 48  # colours of a bitmap: lines and letters in a dozen colours, and their edges


def write_report(
    results: Path,
    studies: Sequence[Study],
    out: Path,
    say: Callable[[str], object] = str,
    inputs: str | None = None,
) -> Path:
    """Write the report of some experiments to a folder and return its page.

    `say` is called with each study's agreement with the lab. inputs: what digest_inputs returned
    before the studies were read. Raises OSError, BadInput.
    """
    chapters = [
        to_chapter(study, load_results(results, study.name), with_narrow=True) for study in studies
    ]
    lines: list[str] = []
    for chapter in chapters:
        if sentence := agreement_sentence(chapter.targets, chapter.study.called):
            lines.append(sentence)
        if len(chapters) == 1 and chapter.first.rates:
            lines.append(format_for_terminal(chapter.first.rates))
    for line in lines:
        say(line)
    written = ReportFolder(out, inputs)
    drawn: dict[str, SavedFigure] = {}
    pictures_shown = [picture for chapter in chapters for picture in chapter.pictures]
    pictures = {picture.name: picture for picture in pictures_shown}
    narrow = {
        narrow_name(picture.name): picture.narrow for picture in pictures_shown if picture.narrow
    }
    with figures_saved(list(pictures.values()), list(narrow.values())) as saved:
        listings = run_listings(chapters)
        runs_data = encode_listings(listings)
        for chapter in chapters:
            write_tables(written, chapter)
        for name, files in zip([*pictures, *narrow], saved, strict=True):
            drawn[name] = files
            if name in pictures:
                written.write_bytes(f"figures/{name}.svg", files.svg)
                written.write_bytes(f"figures/{name}.pdf", files.pdf)
                written.write_bytes(f"figures/{name}.png", files.png)
    spots = {name: files.spots for name, files in drawn.items()}
    html = render(chapters, listings, runs_data, figure_uris(drawn), spots)
    page = written.write_text(PAGE, html)
    written.finish(lines)
    return page


def write_tables(written: ReportFolder, chapter: Chapter) -> None:
    """Write the tables of a chapter. Raises OSError."""
    name = file_name_part(chapter.study.name)
    written.write_text(f"tables/{name}-runs.csv", to_csv(to_frame(chapter.results.runs)))
    made_by = made_by_line(chapter.results.runs)
    matrices = to_matrices(chapter.results.runs, chapter.study)
    if measured := baseline_rows(chapter.targets, matrices, made_by):
        written.write_text(f"tables/{name}-measured.csv", shipped_baselines.to_csv(measured))
    for table in chapter.tables:
        written.write_text(f"tables/{table.name}.csv", table.to_csv())
    title = f"## {escape_markdown(chapter.study.title)}\n"
    shown_tables = [title, *(table.to_markdown() for table in chapter.tables)]
    written.write_text(f"tables/{name}.md", "\n".join(shown_tables))


# -- figures as files


FILE_FORMATS: Sequence[str] = ("svg", "png", "pdf")
PAGE_FORMATS: Sequence[str] = ("svg",)


@dataclass(frozen=True)
class SavedFigure:
    """Hold a figure in the formats that it is saved in; the others are empty."""

    svg: bytes
    png: bytes
    pdf: bytes
    spots: list[CellRegion]  # positions of its cells


# Figures to draw and save; forked processes inherit them, which avoids pickling.
FIGURES: list[ReportFigure] = []


def init_drawing_process(figures: Sequence[ReportFigure]) -> None:
    """Initialise a drawing process; it ends with its parent."""
    FIGURES[:] = figures
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def draw_and_save(number: int, formats: Sequence[str]) -> SavedFigure:
    """Draw a figure of FIGURES, and save it in some formats.

    A large figure is saved as a PNG, too, which the page may need in its place (figure_uris).
    """
    figure = FIGURES[number].figure
    saved = {kind: save_figure(figure, kind) for kind in formats}
    # A page whose figures are all below this mean is small enough.
    if "png" not in saved and len(saved["svg"]) > MAX_FIGURE_BYTES / len(FIGURES):
        saved["png"] = save_figure(figure, "png")
    return SavedFigure(
        saved["svg"], saved.get("png", b""), saved.get("pdf", b""), cell_regions(figure)
    )


@contextmanager
def figures_saved(
    wide: Sequence[ReportFigure], narrow: Sequence[ReportFigure] = ()
) -> Iterator[Iterator[SavedFigure]]:
    """Draw and save figures on all CPUs during the block, which gets them in their order.

    wide: figures that become files. narrow: figures for a phone, which only the page shows; they
    come last. Raises OSError.
    """
    import matplotlib.backends.backend_pdf
    import matplotlib.backends.backend_svg  # noqa: F401  # once, and not in each process

    pdf_fonts.register()
    gc.freeze()  # a drawing process need not search all that this one has read for garbage
    fork = get_context("fork")
    figures = [*wide, *narrow]
    formats = [FILE_FORMATS] * len(wide) + [PAGE_FORMATS] * len(narrow)
    cpus = min(
        len(os.sched_getaffinity(0)), max(1, len(figures))
    )  # all workers are forked immediately
    try:
        with ProcessPoolExecutor(cpus, fork, init_drawing_process, (figures,)) as pool:
            try:
                yield pool.map(draw_and_save, range(len(figures)), formats)
            finally:
                pool.shutdown(cancel_futures=True)
    except BrokenProcessPool as error:
        raise ChildProcessError("a process that draws figures was ended: report again") from error
    finally:
        gc.unfreeze()


# -- the page


def narrow_name(name: str) -> str:
    """Return the name of a figure's form for a phone."""
    return f"{name}-narrow"


def run_listings(chapters: Sequence[Chapter]) -> dict[str, list[RunRow]]:
    """Return the lists of runs on the page, by the anchors of their chapters."""
    max_rows = max(MIN_RUNS_OF_EACH, MAX_RUNS_ON_PAGE // max(1, len(chapters)))
    return {f"e{index}": run_rows(chapter, max_rows) for index, chapter in enumerate(chapters, 1)}


def encode_listings(listings: Mapping[str, Sequence[RunRow]]) -> str:
    """Encode the runs of the lists for the page's scripts; "" without any."""
    runs = {anchor: [row["run"] for row in listed] for anchor, listed in listings.items()}
    return page_data.encode_runs(runs) if any(runs.values()) else ""


def render(
    chapters: Sequence[Chapter],
    listings: Mapping[str, Sequence[RunRow]],
    runs_data: str,
    images: Mapping[str, str],
    spots: Mapping[str, Sequence[CellRegion]],
) -> str:
    """Render the page's HTML.

    listings, runs_data: see run_listings and encode_listings. images, spots: data URIs and
    positions of cells, by name of the figure.
    """
    anchors = list(listings)
    linked = {row["key"] for listed in listings.values() for row in listed}
    tooltips = {
        cell.key: cell_tooltip(cell)
        for chapter in chapters
        for matrix in to_matrices(chapter.results.runs)
        for cell in matrix.cells
    }
    return page_template("report.html.j2").render(
        **template_globals(runs_data),
        chapters=chapters,
        anchors=anchors,
        # a data URI has neither quotation marks nor &, so it cannot end an attribute
        image=lambda name: Markup(images[name]),
        narrow=lambda name: narrow_name(name) if narrow_name(name) in images else "",
        spots=lambda name: figure_links(spots[name], tooltips, linked),
        rows=lambda chapter: listings[anchors[chapters.index(chapter)]],
        folders=lambda chapter: len(chapter.results.runs) + len(chapter.results.broken),
        synthetic=any(chapter.results.synthetic for chapter in chapters),
    )


def write_run(folder: Path, out: Path) -> Path:
    """Write the page of one run with every sample.

    Raises BadInput if the folder is no run, OSError.
    """
    run = load_run(folder)
    if isinstance(run, UnidentifiedRun):
        raise BadInput(f"{folder}: not a run's folder: {run.error}")
    page = page_template("run.html.j2").render(
        **template_globals(page_data.encode_whole_run("run", run)),
        anchor="run",
        row=row_of_run(run),
        pictures=time_sequence_uris(run, out.with_name(f"{out.stem}-time-sequence.svg")),
    )
    return write_whole(out, page.encode("utf-8", "replace"))


def time_sequence_uris(run: RunFolder, file: Path) -> dict[str, str]:
    """Save the time–sequence graph of a run, and return its forms as data URIs, by their class.

    {} without a capture or ACKs. Raises OSError.
    """
    figure = plot_largest_connection(run) if run.state == "ok" else None
    if figure is None:
        return {}
    svg = save_figure(figure, "svg")
    write_whole(file, svg)
    with narrow_style():
        narrow = save_figure(plot_largest_connection(run) or figure, "svg")
    return {"wide": svg_uri(svg), "narrow": svg_uri(narrow)}


@cache
def page_template(name: str, folder: Path = TEMPLATE_FOLDER) -> jinja2.Template:
    """Return a compiled template; values in HTML templates are escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=".html" in name,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name)


def template_globals(runs_data: str) -> dict[str, object]:
    return {
        "runs_data": runs_data,
        "scripts": page_data.page_scripts(),
        "policy": page_data.content_security_policy(page_data.page_scripts()),
        "style": page_data.style_sheets(),
        "why": tables.problem_reason,
        "rate": format_rate,
        "several": pluralize,
        "quoted": lambda path: shlex.quote(replace_controls(str(path))),
        "cell_label": lambda run: cell_label(display_order(run.factors), cc_name),
    }


# -- figures on it


def cell_tooltip(cell: Cell) -> str:
    goodput = cell.summary("goodput")
    parts = [
        cell.label,
        cell.variant,
        "" if goodput is None else f"{format_rate(goodput.median)} Mbit/s",
    ]
    return ", ".join([*filter(None, parts), f"n = {len(cell.counted)}", cell.verdict])


class FigureLink(TypedDict):
    """A link over a part of a figure, to the runs of its cells."""

    cells: list[str]
    text: str
    style: str


def figure_links(
    spots: Iterable[CellRegion], tooltips: Mapping[str, str], linked: Collection[str]
) -> list[FigureLink]:
    """Return the links over a figure, for the cells with a run on the page."""
    links: list[FigureLink] = []
    for spot in spots:
        at = (spot.left + spot.width / 2, spot.top + spot.height / 2, spot.width, spot.height)
        style = "left:{:.2%};top:{:.2%};width:{:.2%};height:{:.2%}".format(*at)
        if keys := [key for key in spot.keys if key in linked]:
            cells_text = "; ".join(tooltips.get(key, "") for key in keys)
            links.append({"cells": keys, "text": f"Runs of {cells_text}", "style": style})
    return links


def figure_uris(drawn: Mapping[str, SavedFigure]) -> dict[str, str]:
    """Return the data URI of each figure.

    The largest figures that have a PNG become bitmaps of few colours until the total size fits the
    page.
    """
    uris = {name: svg_uri(files.svg) for name, files in drawn.items()}
    total = sum(map(len, uris.values()))
    for name in sorted(uris, key=lambda name: -len(uris[name])):
        if total <= MAX_FIGURE_BYTES:
            break
        bitmap = bitmap_uri(drawn[name].png) if drawn[name].png else uris[name]
        if len(bitmap) < len(uris[name]):
            total -= len(uris[name]) - len(bitmap)
            uris[name] = bitmap
    return uris


def svg_uri(svg: bytes) -> str:
    """Return an SVG as a data URI that follows the page's dark mode.

    As an image and not as markup: ids of two images cannot clash, and scripts in it do not run.
    """
    text = add_dark_mode(minify_svg(svg))
    if b"'" not in text:  # quotes of an attribute, which need no escaping
        text = text.replace(b'"', b"'")
    escaped = ESCAPED_IN_URI.sub(lambda match: b"%%%02X" % match[0][0], text)
    return "data:image/svg+xml," + escaped.decode("ascii")


def bitmap_uri(png: bytes) -> str:
    """Return a PNG as a data URI: reduced colours, packed as lossless WebP."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    few = picture.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    out = io.BytesIO()
    few.convert("RGB").save(out, "WEBP", lossless=True, quality=80)
    return "data:image/webp;base64," + base64.b64encode(out.getvalue()).decode("ascii")


def minify_svg(svg: bytes) -> bytes:
    """Reduce an SVG to two thirds of its size without visible change.

    Outlines are rounded to 0.01 pt; comments, unused ids and white space are removed.
    """

    rounded = OUTLINE.sub(lambda match: LONG_DECIMALS.sub(rb"\1", match[0]), svg)
    text = UNSEEN.sub(b"", rounded)
    used = set(REFERENCE.findall(text))
    text = ID.sub(lambda match: match[0] if match[1] in used else b"", text)
    return BETWEEN.sub(b"><", WHITE.sub(b" ", text)).strip()


OUTLINE = re.compile(rb' (?:d|x|y)="[^"]*"')
LONG_DECIMALS = re.compile(rb"(\d\.\d\d)\d+(?!\d|e)")
UNSEEN = re.compile(rb"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
REFERENCE = re.compile(rb'(?:href="#|url\(#)([^")]+)')
ID = re.compile(rb' id="([^"]*)"')
WHITE = re.compile(rb"\s+")
BETWEEN = re.compile(rb"> <")
# Bytes that are escaped in a URI in an attribute. urllib's quote checks every byte: a tenth of a
# second per figure.
ESCAPED_IN_URI = re.compile(rb"[^ '=:/;,()<>?!+\-_.~@*$\[\]{}|^\\`0-9A-Za-z]")


# -- the list of runs


class RunRow(TypedDict):
    """A row of the list of runs."""

    run: RunFolder
    state: str
    letter: str  # environment of the run
    key: str  # cell of the run
    first: NotRequired[bool]  # the first row of its cell


def run_rows(chapter: Chapter, max_rows: int) -> list[RunRow]:
    """Return the rows of the list of runs, at most so many, runs with problems first."""
    letters = {
        run.folder: letter
        for letter, (_, runs) in tables.environments_by_letter(chapter.results).items()
        for run in runs
    }
    rows = [row_of_run(run, letters.get(run.folder, "")) for run in chapter.results.runs]
    rows.sort(key=lambda row: (row["state"] == "ok", row["state"] == "degraded"))
    # without scripts, links lead to a cell's first run
    first = {row["key"]: row for row in reversed(rows[:max_rows])}
    return [{**row, "first": row is first[row["key"]]} for row in rows[:max_rows]]


def row_of_run(run: RunFolder, letter: str = "") -> RunRow:
    return {"run": run, "state": tables.state_of(run), "letter": letter, "key": cell_key(run)}
