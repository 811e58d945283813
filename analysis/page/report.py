"""The report: one page that needs nothing beside it, and the same figures and tables as files.

    report/report.html · figures/*.svg *.png · tables/*.csv *.md

All of it can be deleted and made again from the result folders.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2

from analysis.draw.style import save
from analysis.judge.cells import file_name, spoken_order
from analysis.judge.table import cc_name, markdown, rate
from analysis.page import interactive, tables
from analysis.page.chapter import Chapter, to_chapter
from analysis.read.runs import load_results, to_csv, to_frame
from analysis.read.study import Study, load_study
from gostlab.ask.words import cell_words

TEMPLATE_FOLDER = Path(__file__).resolve().parent
# Names of what the last report wrote, so that the next one takes away what it no longer writes, and
# nothing else.
MANIFEST = ".written.json"
# Each run's own commands and checks are on the page up to here; beyond, only those that need a
# look.
MOST_RUNS_ON_PAGE = 400


def write_report(results: Path, experiments: Sequence[str], out: Path) -> Path:
    """Write the report of some experiments' results to a folder; the path of its page. Raises
    OSError and DrawingError.
    """
    return write_studies(results, [load_study(name, results) for name in experiments], out)


def write_studies(results: Path, studies: Sequence[Study], out: Path) -> Path:
    """The same, of experiments already read."""
    chapters = [to_chapter(study, load_results(results, study.name)) for study in studies]
    written = Writer(out)
    drawn = {}
    for chapter in chapters:
        written.bytes(
            f"tables/{file_name(chapter.study.name)}-runs.csv",
            to_csv(to_frame(chapter.results.runs)).encode("utf-8", "replace"),
        )
        for picture in chapter.pictures:
            svg = save(picture.figure, "svg")
            drawn[picture.name] = svg
            written.bytes(f"figures/{picture.name}.svg", svg)
            written.bytes(f"figures/{picture.name}.png", save(picture.figure, "png"))
        for table in chapter.tables:
            written.bytes(f"tables/{table.name}.csv", table.to_csv().encode("utf-8", "replace"))
        written.bytes(
            f"tables/{file_name(chapter.study.name)}.md",
            "\n".join(
                [
                    f"## {markdown(chapter.study.title)}\n",
                    *(table.to_markdown() for table in chapter.tables),
                ]
            ).encode("utf-8", "replace"),
        )
    page = written.bytes("report.html", render(chapters, drawn).encode("utf-8", "replace"))
    written.forget_old()
    return page


class Writer:
    """The report's folder: what is written into it, and what the last report wrote and this one did
    not.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._written: list[str] = []

    def bytes(self, name: str, content: bytes) -> Path:
        """Write a file, whole or not at all."""
        path = self._out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_bytes(content)
        part.replace(path)
        self._written.append(name)
        return path

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


def render(chapters: Sequence[Chapter], drawn: dict[str, bytes]) -> str:
    """The page's HTML."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    template = environment.get_template("report.html.j2")
    anchors = [f"e{index}" for index, _ in enumerate(chapters, 1)]
    runs = {
        anchor: [row["run"] for row in run_rows(chapter)]
        for anchor, chapter in zip(anchors, chapters, strict=True)
    }
    return template.render(
        chapters=chapters,
        anchors=anchors,
        runs_data=interactive.page_json(runs) if any(runs.values()) else "",
        scripts=interactive.scripts(),
        policy=interactive.policy(interactive.scripts()),
        chart_style=interactive.chart_style(),
        image=lambda name: data_uri(drawn[name]),
        rows=run_rows,
        why=tables.why,
        rate=rate,
        state_of=tables.state_of,
        cell_words=lambda run: cell_words(spoken_order(run.factors), cc_name),
        synthetic=any(chapter.results.synthetic for chapter in chapters),
    )


def data_uri(svg: bytes) -> str:
    """An image inside the page. As an image and not as mark-up: the ids of two SVGs cannot
    clash.
    """
    return "data:image/svg+xml;base64," + base64.b64encode(shortened(svg)).decode("ascii")


def shortened(svg: bytes) -> bytes:
    """The same picture with outlines to a hundredth of a point, which is a third of its bytes."""

    def outline(found: re.Match[bytes]) -> bytes:
        return LONG_DECIMALS.sub(rb"\1", found[0])

    return OUTLINE.sub(outline, svg)


OUTLINE = re.compile(rb' (?:d|x|y)="[^"]*"')
LONG_DECIMALS = re.compile(rb"(\d\.\d\d)\d+(?!\d|e)")


def run_rows(chapter: Chapter) -> list[dict[str, Any]]:
    """The page's list of runs: those that need a look first, then the good ones."""
    letters = {
        run.folder: letter
        for letter, (_, runs) in tables.environments(chapter.results).items()
        for run in runs
    }
    rows = [
        {
            "run": run,
            "state": tables.state_of(run) if not run.counts else (run.verdict or "ok"),
            "letter": letters.get(run.folder, ""),
        }
        for run in chapter.results.runs
    ]
    rows.sort(key=lambda row: (row["state"] == "ok", row["state"] == "degraded"))
    return rows[:MOST_RUNS_ON_PAGE]
