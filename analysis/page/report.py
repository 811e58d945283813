"""The report: one page that needs nothing beside it, and the same figures and tables as files.

    report/report.html · figures/*.svg *.png · tables/*.csv *.md

All of it can be deleted and made again from the result folders.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from matplotlib.figure import Figure

from analysis.draw import answers, curves, figures, timelines
from analysis.draw.answers import Answer
from analysis.judge import targets
from analysis.judge.cells import (
    Cell,
    Matrix,
    buffer_cells,
    cpu_cells,
    file_name,
    to_matrices,
    to_table,
)
from analysis.judge.table import Table, markdown, rate
from analysis.page import tables
from analysis.read.folder import Run
from analysis.read.runs import Results, load_results, to_csv, to_frame
from analysis.read.study import Study, claims_of, load_study

TEMPLATE_FOLDER = Path(__file__).resolve().parent
# Names of what the last report wrote, so that the next one takes away what it no longer writes, and
# nothing else.
MANIFEST = ".written.json"
# Each run's own commands and checks are on the page up to here; beyond, only those that need a
# look.
MOST_RUNS_ON_PAGE = 400
# More runs over time than this on a page and nobody looks at any.
MOST_SERIES = 16

CAPTIONS = {
    "goodput": "Goodput (what iperf3's receiver got) by the number of parallel streams.",
    "ratio": "The lab's median goodput over the thesis's value; on the line they agree.",
    "retransmissions": (
        "Segments sent again. In a tunnel iperf3's Retr counts the loopback connection between"
        " iperf3 and the tunnel's near end, not the WAN. Zero has a place on this axis."
    ),
    "cpu": (
        "Goodput and the idle share, in the median second, of the one CPU that all hosts share. On"
        " the virtual clock a system call costs what the axis says and nothing else costs time; on"
        " the real clock the machine's own CPU carries everything."
    ),
    "buffer": "goodput and what the WAN leg sent again, by the size of the bottleneck's queue.",
    "by-loss": (
        "by packet loss. Broken lines are models, diamonds and shaded bands what was published, the"
        " thin line a full link."
    ),
    "by-rtt": "Goodput by round-trip time; diamonds are the study's.",
    "shares": (
        "Each flow's share of what all flows carry together, Jain's index above: 1 is equal, 1/n"
        " one flow alone. The first quarter of the time with all flows active is left out."
    ),
    "bars": "Goodput by condition; diamonds are the study's.",
    "map": "Goodput to and from each site, nearest first; diamonds are the study's.",
    "cwnd": (
        "Congestion window and slow-start threshold (the socket's own ssthresh) of one run per"
        " cell, at every ACK where they are recorded, else as sampled."
    ),
    "series": "Sampled from the kernel: this is one run, its samples are no independent readings.",
}


@dataclass(frozen=True)
class Drawing:
    """A figure on the page."""

    name: str  # a file's name
    caption: str
    figure: Figure


@dataclass
class Part:
    """A section of an experiment: one matrix, its figures and tables."""

    title: str
    note: str = ""
    matrix: str = ""
    answers: list[Answer] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    series: list[Drawing] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


@dataclass(frozen=True)
class Chapter:
    """One experiment."""

    study: Study
    results: Results
    answers: tuple[Answer, ...]
    parts: tuple[Part, ...]
    left_out: Table | None
    environment: Table
    mixed: tuple[str, ...]
    targets: tuple[targets.Target, ...] = ()
    target_table: Table | None = None

    @property
    def counted(self) -> int:
        """How many runs everything rests on."""
        return sum(run.counts for run in self.results.runs)


def write_report(results: Path, experiments: Sequence[str], out: Path) -> Path:
    """Write the report of some experiments' results to a folder; the path of its page. Raises
    OSError.
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
        for part in chapter.parts:
            for drawing in (*part.drawings, *part.series):
                svg = figures.save(drawing.figure, "svg")
                drawn[drawing.name] = svg
                written.bytes(f"figures/{drawing.name}.svg", svg)
                written.bytes(f"figures/{drawing.name}.png", figures.save(drawing.figure, "png"))
        printed = [table for table in (chapter.target_table,) if table is not None]
        printed += [table for part in chapter.parts for table in part.tables]
        printed += [table for table in (chapter.left_out, chapter.environment) if table is not None]
        for table in printed:
            written.bytes(f"tables/{table.name}.csv", table.to_csv().encode("utf-8", "replace"))
        written.bytes(
            f"tables/{file_name(chapter.study.name)}.md",
            "\n".join(
                [
                    f"## {markdown(chapter.study.title)}\n",
                    *(t.to_markdown() for t in printed),
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


# -- what goes into it


def to_chapter(study: Study, results: Results) -> Chapter:
    """Everything that an experiment's results say."""
    order = [name for name, _ in study.matrix_titles]
    matrices = to_matrices(results.runs, study)
    matrices.sort(key=lambda each: order.index(each.name) if each.name in order else len(order))
    parts = [to_part(matrix, matrices, study, made_by_line(matrix.runs)) for matrix in matrices]
    headings = [answer.heading for part in parts for answer in part.answers]
    said = [
        Answer(
            answer.heading + (f" ({part.title})" if headings.count(answer.heading) > 1 else ""),
            answer.sentences,
        )
        for part in parts
        for answer in part.answers
    ]
    said += answers.retransmission_answers(results.runs)
    name = file_name(study.name)
    judged = targets.target_rows(study, matrices)
    return Chapter(
        study=study,
        results=results,
        answers=tuple(said),
        parts=tuple(parts),
        left_out=tables.left_out_table(
            results, f"{name}-left-out", "Failed, unsupported, invalid, unfinished"
        ),
        environment=tables.environment_table(
            results, f"{name}-environment", "What produced each number"
        ),
        mixed=tuple(mixed_cells(matrices)),
        targets=judged,
        target_table=(
            targets.to_table(judged, f"{name}-targets", "Study against lab") if judged else None
        ),
    )


def to_part(matrix: Matrix, matrices: Sequence[Matrix], study: Study, footer: str) -> Part:
    """One matrix's figures, tables and sentences."""
    title = study.matrix_title(matrix.name) + (f" ({matrix.variant})" if matrix.variant else "")
    part = Part(
        title,
        note=f"{study.matrix_note(matrix.name)} {states_note(matrix)}{traps_note(matrix)}".strip(),
        matrix=matrix.name,
    )
    name = f"{file_name(study.name)}-{matrix.key}"
    table = to_table(matrix.cells, study, references_of(matrices))
    build = drawn_part if matrix.draw else BUILDERS[matrix.kind]
    build(part, matrix, matrices, study, table, name, footer)
    if (table["n"] > 0).any():
        part.tables.append(
            tables.retransmission_table(
                table, matrix.cells, f"{name}-retransmissions", "Retransmissions per leg"
            )
        )
        if matrix.kind != "cpu" and not matrix.draw:
            part.series += series_drawings(matrix, name)
    return part


def references_of(matrices: Sequence[Matrix]) -> dict[str, Run]:
    """A run of each matrix, for what was asked of it."""
    return {matrix.name: matrix.runs[0] for matrix in matrices}


def streams_part(
    part: Part,
    matrix: Matrix,
    matrices: Sequence[Matrix],
    study: Study,
    table: pd.DataFrame,
    name: str,
    footer: str,
) -> None:
    """Goodput by streams, ratio to the thesis, retransmissions."""
    part.answers += answers.streams_answers(matrix, table)
    part.tables.append(tables.goodput_table(table, matrix.cells, f"{name}-goodput", "Goodput"))
    if not (table["n"] > 0).any():
        return
    part.drawings.append(
        Drawing(
            f"{name}-goodput",
            f"{CAPTIONS['goodput']} {tables.n_note(table)}",
            figures.plot_goodput(table, footer),
        )
    )
    if table["ratio"].notna().any():
        part.drawings.append(
            Drawing(f"{name}-ratio", CAPTIONS["ratio"], figures.plot_ratio(table, footer))
        )
    part.drawings.append(
        Drawing(
            f"{name}-retransmissions",
            CAPTIONS["retransmissions"],
            figures.plot_retransmissions(table, footer),
        )
    )
    part.tables += comparison(matrix, table, name)


def comparison(matrix: Matrix, table: pd.DataFrame, name: str) -> list[Table]:
    """The table of two congestion controls side by side, if there are two."""
    pair = answers.two_ccs(table)
    if pair is None:
        return []
    compared = tables.comparison_table(
        matrix,
        table,
        f"{name}-comparison",
        "Run against run of the same seed",
        base=pair[0],
        versus=pair[1],
    )
    return [compared] if compared.rows else []


def cpu_part(
    part: Part,
    matrix: Matrix,
    matrices: Sequence[Matrix],
    study: Study,
    table: pd.DataFrame,
    name: str,
    footer: str,
) -> None:
    """Goodput and idle share by the cost of a system call, and on the real clock."""
    if any(
        other.kind == "cpu"
        and len(other.cells) > len(matrix.cells)
        and set(matrix.cells) <= set(cpu_cells(other, matrices))
        for other in matrices
    ):
        part.note = (part.note + " These cells stand in the figure of the larger sweep.").strip()
        part.tables.append(
            tables.cpu_table(table, f"{name}-cpu", "Goodput by what a system call costs")
        )
        return
    joined = to_table(cpu_cells(matrix, matrices), study, references_of(matrices))
    lengths = sorted(joined["duration_s"].unique())
    aside = (
        f" Runs of {' and '.join(f'{length:g} s' for length in lengths)} stand side by side here."
        if len(lengths) > 1
        else ""
    )
    part.answers += answers.cpu_answers(joined)
    part.tables.append(
        tables.cpu_table(joined, f"{name}-cpu", "Goodput by what a system call costs")
    )
    if (joined["n"] > 0).any():
        part.drawings.append(
            Drawing(
                f"{name}-cpu",
                f"{CAPTIONS['cpu']} {tables.n_note(joined)}{aside}",
                figures.plot_cpu(joined[joined["n"] > 0], footer),
            )
        )


def buffer_part(
    part: Part,
    matrix: Matrix,
    matrices: Sequence[Matrix],
    study: Study,
    table: pd.DataFrame,
    name: str,
    footer: str,
) -> None:
    """Goodput and WAN retransmissions by the bottleneck's buffer; a figure per number of
    streams.
    """
    table = to_table(buffer_cells(matrix, matrices), study, references_of(matrices))
    part.answers += answers.buffer_answers(table)
    part.tables.append(
        tables.buffer_table(table, f"{name}-buffer", "Goodput by the bottleneck's buffer")
    )
    valid = table[(table["n"] > 0) & table["buffer_bdp"].notna()]
    for count in sorted(valid["streams"].unique()) if len(valid) else []:
        rows = valid[valid["streams"] == count]
        suffix = f"-{count:g}" if valid["streams"].nunique() > 1 else ""
        caption = f"{answers.streams(count)}: {CAPTIONS['buffer']} {tables.n_note(rows)}"
        part.drawings.append(
            Drawing(f"{name}-buffer{suffix}", caption, figures.plot_buffer(rows, footer))
        )


def other_part(
    part: Part,
    matrix: Matrix,
    matrices: Sequence[Matrix],
    study: Study,
    table: pd.DataFrame,
    name: str,
    footer: str,
) -> None:
    """Any other matrix: its cells one under the other."""
    part.answers += answers.other_answers(matrix, table, part.title)
    part.tables.append(tables.goodput_table(table, matrix.cells, f"{name}-goodput", "Goodput"))
    part.tables += comparison(matrix, table, name)
    if (table["n"] > 0).any():
        caption = "Goodput of each cell. " + tables.n_note(table)
        if len(table) > figures.MOST_ROWS:
            caption += f" The first {figures.MOST_ROWS} of {len(table)} cells; the table has all."
        part.drawings.append(Drawing(f"{name}-cells", caption, figures.plot_cells(table, footer)))


# -- what an experiment's file asks to be drawn


def drawn_part(
    part: Part,
    matrix: Matrix,
    matrices: Sequence[Matrix],
    study: Study,
    table: pd.DataFrame,
    name: str,
    footer: str,
) -> None:
    """The figures that a matrix's `draw` names, in its order, and what they say."""
    wide = curves.beside(table, matrix.cells, study)
    valid = wide[wide["n"] > 0].reset_index(drop=True)
    part.tables.append(
        tables.goodput_table(wide, matrix.cells, f"{name}-goodput", "Goodput", "study")
    )
    if any(len(cell.flows) > 1 for cell in matrix.cells):
        part.tables.append(tables.flows_table(table, matrix.cells, f"{name}-flows", "Flow by flow"))
    part.answers += answers.drawn_answers(matrix, wide, part.title)
    if valid.empty:
        return
    li_2018 = study.seed.lower().startswith("li")
    for word in dict.fromkeys(matrix.draw):
        if word == "series":
            part.series += flow_drawings(matrix, name)
        elif word == "cwnd":
            runs = [run for cell in matrix.cells for run in cell.counted[:1]]
            part.drawings.append(
                Drawing(f"{name}-cwnd", CAPTIONS["cwnd"], timelines.plot_cwnd_grid(runs, footer))
            )
        elif word == "by-loss":
            part.drawings += by_loss_drawings(matrix, study, valid, name, footer, li_2018)
        elif word in CURVES:
            if word == "map" and (first := sites_together(matrix, matrices)[0]) is not matrix:
                part.note = (
                    f"{part.note} These cells stand in the figure of"
                    f" “{study.matrix_title(first.name)}”.".strip()
                )
                continue
            # Conditions without a valid run keep their place among the bars.
            shown = (
                wide
                if word == "bars"
                else whole_map(matrix, matrices, study)
                if word == "map"
                else valid
            )
            more = {"li_2018": li_2018} if word == "by-rtt" else {}
            if (plotted := CURVES[word](shown, footer, **more)) is not None:
                part.drawings.append(
                    Drawing(f"{name}-{word}", f"{CAPTIONS[word]} {tables.n_note(shown)}", plotted)
                )


def shares_curve(table: pd.DataFrame, footer: str) -> Figure | None:
    """The shares of flows; None where only one flow competes."""
    return curves.plot_shares(table, footer) if curves.flows_of(table) else None


CURVES: dict[str, Callable[..., Figure | None]] = {
    "by-rtt": curves.plot_by_rtt,
    "shares": shares_curve,
    "bars": curves.plot_bars,
    "map": curves.plot_map,
}


def sites_together(matrix: Matrix, matrices: Sequence[Matrix]) -> list[Matrix]:
    """The matrices whose map is one: all of the same star, ways and streams apart, each in its
    fullest variant.
    """
    alike = [
        other
        for other in matrices
        if "map" in other.draw and other.cells[0].like.sites == matrix.cells[0].like.sites
    ]
    found = {other.name: other for other in alike[::-1]}
    first = list(dict.fromkeys(other.name for other in alike))
    return [found[name] for name in first] if found.get(matrix.name) is matrix else [matrix]


def whole_map(matrix: Matrix, matrices: Sequence[Matrix], study: Study) -> pd.DataFrame:
    """The valid cells of a map, of all matrices that share it."""
    cells = [cell for each in sites_together(matrix, matrices) for cell in each.cells]
    wide = curves.beside(to_table(cells, study, references_of(matrices)), cells, study)
    return wide[wide["n"] > 0].reset_index(drop=True)


def by_loss_drawings(
    matrix: Matrix, study: Study, table: pd.DataFrame, name: str, footer: str, li_2018: bool
) -> list[Drawing]:
    """Goodput by loss, or the mean window where that is what the study publishes of the matrix;
    both where it has both.
    """
    published = {
        asked.figure
        for each in study.published
        if each.matrix == matrix.name
        for asked in claims_of(each)
    }
    windows = "window_pkts" in published and table["window_pkts"].notna().any()
    chosen = (["goodput"] if published != {"window_pkts"} or not windows else []) + (
        ["window_pkts"] if windows else []
    )
    heads = {"goodput": "Goodput", "window_pkts": "Mean congestion window"}
    return [
        Drawing(
            f"{name}-by-loss" + ("-window" if figure == "window_pkts" else ""),
            f"{heads[figure]} {CAPTIONS['by-loss']} {tables.n_note(table)}",
            curves.plot_by_loss(table, footer, figure=figure, li_2018=li_2018),
        )
        for figure in chosen
    ]


def flow_drawings(matrix: Matrix, name: str) -> list[Drawing]:
    """A run of each cell over time, all of its flows in it; of many cells the first."""
    drawings = []
    for cell in [cell for cell in matrix.cells if typical_run(cell) is not None][:MOST_SERIES]:
        run = typical_run(cell)
        assert run is not None
        words = ", ".join(word for word in (cell.label, cell.variant) if word)
        drawings.append(
            Drawing(
                f"{name}-series-{file_name(words)}",
                f"{words}: {run.name} over time. {CAPTIONS['series']}",
                timelines.plot_flows(run, made_by_line([run])),
            )
        )
    return drawings


def typical_run(cell: Cell) -> Run | None:
    """The run of a cell with series whose goodput is the median, or next above it."""
    runs = [run for run in cell.counted if (run.folder / "sockets.jsonl").exists()]
    return (
        sorted(runs, key=lambda run: (run.goodput_mbit or 0.0, run.repetition))[len(runs) // 2]
        if runs
        else None
    )


BUILDERS: dict[str, Callable[..., None]] = {
    "streams": streams_part,
    "cpu": cpu_part,
    "buffer": buffer_part,
    "other": other_part,
}


def series_drawings(matrix: Matrix, name: str) -> list[Drawing]:
    """One run per congestion control over time, all of the cell that is most worth a look: a
    tunnel's at 16 streams where there is one, else the middle cell's.
    """
    with_series = [
        cell
        for cell in matrix.cells
        if any((run.folder / "sockets.jsonl").exists() for run in cell.counted)
    ]
    if not with_series:
        return []
    chosen = min(
        with_series,
        key=lambda cell: (
            abs(cell.like.streams - 16),
            cell.like.tunnel == "direct",
            abs((cell.like.buffer_bdp or 1.0) - 1.0),
        ),
    )
    others = [pair for pair in chosen.factors if pair[0] != "cc"]
    alike = [
        cell for cell in with_series if [pair for pair in cell.factors if pair[0] != "cc"] == others
    ]
    drawings = []
    for cell in alike[:3]:
        run = next(run for run in cell.counted if (run.folder / "sockets.jsonl").exists())
        drawings.append(
            Drawing(
                f"{name}-series-{file_name(run.cc)}",
                f"{run.name} over time. {CAPTIONS['series']}",
                figures.plot_time_series(run, made_by_line([run])),
            )
        )
    return drawings


def made_by_line(runs: Sequence[Run]) -> str:
    """What made some runs' numbers, in a line."""
    found = [run.environment for run in runs if run.environment is not None and run.counts]
    if not found:
        return ""

    def named(head: str, values: set[str]) -> str:
        return f"{head}{' / '.join(sorted(values))}"

    synthetic = "FIXTURE, NOT MEASURED · " if any(each.synthetic for each in found) else ""
    tunnels = {each.tunnel for each in found if each.tunnel_kind != "none"}
    parts = [
        named("tunnel: ", tunnels) if tunnels else "no tunnel",
        named("Linux ", {f"{each.kernel} (HZ {each.hz})" for each in found}),
        named(
            "",
            {
                f"{each.clock} clock"
                + (
                    f", {each.syscall_cost_us:g} µs per system call"
                    if each.clock == "virtual"
                    and each.syscall_cost_us is not None
                    and len({one.syscall_cost_us for one in found}) == 1
                    else ""
                )
                for each in found
            },
        ),
        named("lab ", {each.lab for each in found}),
    ]
    return synthetic + " · ".join(parts)


def states_note(matrix: Matrix) -> str:
    """How many of a matrix's runs are what."""
    counts: dict[str, int] = {}
    for run in matrix.runs:
        state = tables.state_of(run) if not run.counts else (run.verdict or "ok")
        counts[state] = counts.get(state, 0) + 1
    lengths = sorted({run.duration_s for run in matrix.runs})
    found = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return (
        f"{len(matrix.runs)} runs of {' or '.join(f'{length:g} s' for length in lengths)}: {found}."
    )


def traps_note(matrix: Matrix) -> str:
    """What the lab warned of before a matrix's runs started: of each kind one run's words, and how
    many runs have it.
    """
    counted = [run for run in matrix.runs if run.counts]
    warned: dict[str, list[str]] = {}
    for check in (
        check
        for run in counted
        for check in run.checks
        if check.name.startswith("guard_") and check.reason
    ):
        warned.setdefault(check.name, []).append(check.reason)
    return "".join(
        f" Warned of, in {len(reasons)} of {len(counted)} runs: {reasons[0]}."
        for reasons in warned.values()
    )


def mixed_cells(matrices: Sequence[Matrix]) -> list[str]:
    """Cells whose runs were not all made by the same kernel and programs: their spread is not
    chance alone.
    """
    said = []
    for matrix in matrices:
        for cell in matrix.cells:
            made = {
                (each.kernel, each.hz, each.tunnel_sha256, each.iperf3)
                for run in cell.counted
                if (each := run.environment) is not None
            }
            if len(made) > 1:
                said.append(
                    f"{matrix.name}: {cell.label}: {len(made)} different kernels or programs among"
                    f" its {len(cell.counted)} runs"
                )
    return said


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
    return template.render(
        chapters=chapters,
        anchors=[f"e{index}" for index, _ in enumerate(chapters, 1)],
        image=lambda name: data_uri(drawn[name]),
        rows=run_rows,
        why=tables.why,
        rate=rate,
        state_of=tables.state_of,
        synthetic=any(chapter.results.synthetic for chapter in chapters),
    )


def data_uri(svg: bytes) -> str:
    """An image inside the page. As an image and not as mark-up: the ids of two SVGs cannot
    clash.
    """
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


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


def main(argv: Sequence[str] | None = None) -> int:
    """`python3 -m analysis`: the report of what is there."""
    parser = argparse.ArgumentParser(
        prog="python3 -m analysis",
        description="Write tables, figures and report.html from result folders.",
        epilog="example: python3 -m analysis thesis-tunnel",
    )
    parser.add_argument("experiment", nargs="*", help="which (default: every one with results)")
    parser.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        help="where the runs are (default: results)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="where to write (default: RESULTS/report; --studies: docs/studies.md)",
    )
    parser.add_argument(
        "--studies",
        action="store_true",
        help="write the page of studies instead: Markdown with its pictures",
    )
    arguments = parser.parse_args(argv)
    out = arguments.out or arguments.results / "report"
    wanted = arguments.experiment
    if not wanted and arguments.results.is_dir():
        wanted = sorted(
            path.name
            for path in arguments.results.iterdir()
            if path.is_dir() and not path.name.startswith(".") and path.resolve() != out.resolve()
        )
    try:
        if arguments.studies:
            from analysis.page.studies import write_studies_page

            print(
                write_studies_page(
                    arguments.results, wanted, arguments.out or Path("docs/studies.md")
                )
            )
        else:
            print(write_report(arguments.results, wanted, out))
    except OSError as error:
        print(f"{error.filename or out}: {error.strerror or error}", file=sys.stderr)
        return 2
    return 0
