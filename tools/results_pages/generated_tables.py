# SPDX-License-Identifier: MIT
"""Fill tables of handwritten pages from runs, between two marks.

<!-- runs: tunnels/all rows=tunnel -->
…
<!-- end of runs -->

`EXPERIMENT/MATRIX` selects the cells. `rows=` names the factors of the rows (default: all that vary
except `cc`), `figure=` the metrics (default: goodput_mbit), `only=rtt:20ms` the cells with that
level of a factor. `targets` instead compares each published value with the lab's (several matrices:
`validation/cacm,quick-bbr`); `since=FILE` adds the values of an earlier table (measurements/, as
CSV), and `moved` selects the rows that differ from it. `tables` instead includes the tables of
the matrix's plots. A cell with fewer than MIN runs has no number. A table without such runs in the
results is unchanged.
"""

import csv
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.run_json import question_key, read_run_json
from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.study import Study, load_study, question_keys
from gostlab.analysis.load.untrusted_json import Scalar
from gostlab.analysis.plotting.plot_registry import MatrixInput, find_drawing, plot_names
from gostlab.analysis.stats import published_targets
from gostlab.analysis.stats.cells import Cell, MatrixResults, to_matrices
from gostlab.analysis.stats.metrics import BY_KEY, metric_of
from gostlab.analysis.stats.provenance import made_by_line
from gostlab.analysis.stats.statistics import Summary
from gostlab.analysis.stats.table_formats import (
    MISSING,
    NBSP,
    Column,
    Table,
    TableRow,
    cc_name,
    format_count,
    format_range,
    text_columns,
)
from gostlab.atomic_write import write_whole
from gostlab.results.metrics import are_identical
from gostlab.spec.labels import level_label
from gostlab.spec.yaml_source import BadInput

BEGIN = re.compile(r"<!-- runs: (?P<asked>[^>]+?) -->")
END = "<!-- end of runs -->"
BLOCK = re.compile(
    rf"(?ms)^(?P<indent>[ \t]*)(?P<begin>{BEGIN.pattern})[ \t]*\n"
    rf".*?(?:^[ \t]*(?P<end>{re.escape(END)})[ \t]*$|\Z)"
)
# Minimum runs of a cell for any claim.
MIN_RUNS = 5
# A median has moved if it differs by more than this share and the earlier median lies outside of
# the range of the runs; `./lab compare` has the same threshold.
MOVED = 0.05
WIDTH = 100
TOO_FEW = "too few runs"
NO_CHANGED_ROWS = "None of those with runs enough."
DEGRADED = "†"
FLAGS, OPTIONS = (("targets", "moved", "tables"), ("rows", "figure", "only", "since"))

Show = Callable[[float], str]
WithoutRuns = Callable[[str, Sequence[str]], str]  # (experiment, matrices) -> text
Load = Callable[[str], Mapping[str, MatrixResults]]  # experiment -> its matrices by name


@dataclass(frozen=True)
class TableQuery:
    """The parsed arguments of a mark."""

    position: str  # file and line for messages
    experiment: str
    matrices: tuple[str, ...]
    rows: tuple[str, ...] | None = None  # None: all factors except cc
    figures: tuple[str, ...] = ("goodput_mbit",)
    only: tuple[str, str] | None = None  # (factor, level)
    targets: bool = False
    tables: bool = False
    moved: bool = False  # only targets whose median or verdict has changed
    since: Path | None = None


def read_mark(text: str, location: str, folder: Path) -> TableQuery:
    """Parse the arguments of a mark. folder: base of `since`. Raises BadInput."""
    first, *others = text.split()
    experiment, slash, matrices = first.partition("/")
    if not slash or not matrices:
        raise BadInput(f"{location}: {first}: not of the form EXPERIMENT/MATRIX")
    given: dict[str, str] = {}
    for option in others:
        name, equals, value = option.partition("=")
        if name not in (OPTIONS if equals else FLAGS):
            raise BadInput(f"{location}: {option}: not {', '.join((*FLAGS, *OPTIONS))}")
        given[name] = value
    figures = tuple(given.get("figure", "goodput_mbit").split(","))
    for figure in figures:
        if figure.partition(":")[0] not in BY_KEY:
            raise BadInput(f"{location}: figure={figure}: no figure of merit ({', '.join(BY_KEY)})")
    factor, colon, level = given.get("only", "").partition(":")
    if "only" in given and not colon:
        raise BadInput(f"{location}: only={factor}: not of the form only=FACTOR:LEVEL")
    return TableQuery(
        location,
        experiment,
        tuple(matrices.split(",")),
        tuple(given["rows"].split(",")) if "rows" in given else None,
        figures,
        (factor, level) if colon else None,
        "targets" in given,
        "tables" in given,
        "moved" in given,
        folder / given["since"] if "since" in given else None,
    )


def update_text(page: Path, template: str) -> None:
    """Rewrite a page's text from its template, keeping the text between marks. Raises OSError."""
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    filled = {match["asked"]: match[0] for match in BLOCK.finditer(before)}
    write_whole(page, BLOCK.sub(lambda match: filled.get(match["asked"], match[0]), template))


def write_marked(pages: Iterable[Path], results: Path, root: Path) -> list[Path]:
    """Fill the marked tables of some pages and return the pages that changed.

    root: the checkout. Raises BadInput, OSError; then no page is changed.
    """
    load = cache(partial(load_fullest, results))  # many tables belong to one experiment
    filled = {page: fill(page, load, root) for page in pages}
    has_changed = [
        page for page, text in filled.items() if text != page.read_text(encoding="utf-8")
    ]
    for page in has_changed:
        write_whole(page, filled[page])
    return has_changed


def read_generated(page: Path, command: str) -> str:
    """Return a page's text; "" if the command did not write it."""
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""
    return text if command in text[:400] else ""


def write_generated(page: Path, command: str, text: str) -> Path:
    """Write the page of a command and return it.

    Pictures in the folder of its name that it no longer includes are deleted. Raises OSError.
    """
    folder = page.with_suffix("")
    old, current = (
        pictures_in(page_text, folder.name) for page_text in (read_generated(page, command), text)
    )
    write_whole(page, (text.rstrip("\n") + "\n").encode("utf-8", "replace"))
    for name in old - current:
        (folder / name).unlink(missing_ok=True)
    return page


def sections_in(words: str, kind: str) -> tuple[str, dict[str, str]]:
    """Return the text before a page's sections, and the sections by name."""
    head, *rest = re.split(rf'(?m)^(?=<a id="{kind}-[A-Za-z0-9-]+"></a>\n)', words)
    return head, {
        section.split('"')[1].removeprefix(f"{kind}-"): section.rstrip() for section in rest
    }


def pictures_in(text: str, folder: str) -> set[str]:
    """Return the names of the pictures of a folder that some Markdown includes."""
    return set(re.findall(rf"\]\({re.escape(folder)}/([A-Za-z0-9._+-]+\.png)\)", text))


def load_fullest(results: Path, experiment: str) -> Mapping[str, MatrixResults]:
    """Return the variant with most runs of each matrix that the experiment's file requests."""
    if not (results / experiment).is_dir():
        return {}  # without results the file need not be read
    forms = (question_keys(experiment, quick=quick) for quick in (False, True))
    requested = frozenset().union(*(form_questions for form_questions in forms if form_questions))
    results_found = load_results(results, experiment, requested)
    matrices: dict[str, MatrixResults] = {}
    for matrix in to_matrices(
        results_found.runs, load_study(experiment)
    ):  # the variant with most runs comes first
        matrices.setdefault(matrix.name, matrix)
    return matrices


def fill(page: Path, load: Load, root: Path, none: WithoutRuns | None = None) -> str:
    """Return a page's text with its tables filled.

    none: text for a table without runs (default: the previous text). Raises BadInput, OSError.
    """
    text = page.read_text(encoding="utf-8")

    def filled(block: re.Match[str]) -> str:
        line = 1 + text.count("\n", 0, block.start())
        location = f"{page}:{line}"
        if not block["end"]:
            raise BadInput(f"{location}: the table has no end: write {END} after it")
        query = read_mark(block["asked"], location, root)
        table = table_of(query, load)
        if table is None and none is not None:
            table = ["", *textwrap.wrap(none(query.experiment, query.matrices), WIDTH), ""]
        if table is None:
            return block[0]
        lines = (block["begin"], *table, END)
        return "\n".join(f"{block['indent']}{row}".rstrip() for row in lines)

    return BLOCK.sub(filled, text)


def table_of(query: TableQuery, load: Load) -> list[str] | None:
    """Return the lines of a table; None without matching runs. Raises BadInput."""
    study = load_study(query.experiment)
    known = [name for name, _ in study.matrix_titles]
    for name in query.matrices:
        if name not in known:
            raise BadInput(f"{query.position}: {query.experiment} has no matrix {name}")
    matrices = load(query.experiment)
    selected = [with_level(matrices[name], query) for name in query.matrices if name in matrices]
    if not any(len(cell.counted) >= MIN_RUNS for drawing in selected for cell in drawing.cells):
        return None
    if query.tables:
        return [*plot_tables(study, selected), *foot_of(query, selected), ""]
    if query.targets:
        table = targets_table(query, published_targets.target_rows(study, selected))
    else:
        (matrix,) = selected
        table = cells_table(matrix, query.rows, query.figures, query.position)
    foot = foot_of(query, selected, table.note)
    return ["", *(table.lines() if table.rows else [NO_CHANGED_ROWS]), "", *foot, ""]


def plot_tables(study: Study, matrices: Sequence[MatrixResults]) -> list[str]:
    """Return the lines of the plots' tables on cells with enough runs."""
    lines = [""]
    for matrix in matrices:
        enough = tuple(cell for cell in matrix.cells if len(cell.counted) >= MIN_RUNS)
        sweep = MatrixInput(replace(matrix, cells=enough), matrices, study)
        for drawing in map(find_drawing, plot_names(matrix)):
            cells = sweep.table(enough, borrows=drawing.borrows)
            for table in drawing.tables(sweep, cells, "") if drawing.tables else ():
                lines += [*table.lines(), ""]
    return lines


# -- cells


def with_level(matrix: MatrixResults, query: TableQuery) -> MatrixResults:
    """Return a matrix with the cells that a table selects."""
    if query.only is None:
        return matrix
    name, level = query.only
    of_level = (cell for cell in matrix.cells if str(dict(cell.factors).get(name)) == level)
    return replace(matrix, cells=tuple(of_level))


def cells_table(
    matrix: MatrixResults, rows: Sequence[str] | None, figures: Sequence[str], place: str = ""
) -> Table:
    """Return a matrix's cells, some factors as rows, the others as columns. Raises BadInput."""
    levels: dict[str, set[Scalar | None]] = {}
    for name in dict.fromkeys(name for cell in matrix.cells for name, _ in cell.factors):
        levels[name] = {dict(cell.factors).get(name) for cell in matrix.cells}
    factors = [name for name in levels if len(levels[name]) > 1] or list(levels)
    down = [name for name in factors if name != "cc"] if rows is None else list(rows)
    if unknown := [name for name in down if name not in levels]:
        raise BadInput(f"{place}: rows={unknown[0]}: {matrix.name} has {', '.join(levels)}")
    across = [name for name in factors if name not in down]
    table: dict[str, dict[str, str]] = {}
    headings: dict[str, str] = {}
    for cell in matrix.cells:
        row = table.setdefault(level_words_of(cell, down) or matrix.name, {})
        for figure in figures:
            named = [level_words_of(cell, across)] if across else []
            if len(figures) > 1 or not across:
                named.append(figure_words(figure))
            key = f"{level_words_of(cell, across)} {figure}"
            headings[key] = ", ".join(named)
            if key in row:  # no row or column distinguishes the cells: add a row for each
                row = table.setdefault(cell.label, {})
            row[key] = cell_label(cell, figure)
    heads = dict.fromkeys(name if rows else name.partition(".")[0] for name in down)
    columns = (
        *text_columns(row=", ".join(head.replace("_", " ") for head in heads) or "matrix"),
        *(Column(key, heading) for key, heading in headings.items()),
    )
    table_rows = tuple({"row": name, **of_row} for name, of_row in table.items())
    return Table("", "", "", columns, table_rows)


def level_words_of(cell: Cell, factors: Sequence[str]) -> str:
    levels = dict(cell.factors)
    labels = (level_label(name, levels[name], cc_name) for name in factors if name in levels)
    return ", ".join(labels).replace(NBSP, " ")


def figure_words(figure: str) -> str:
    """Return the label of a metric, prefixed by its flow."""
    label, flow = metric_of(figure).heading, figure.partition(":")[2]
    return f"{flow}: {label}" if flow else label


def cell_label(cell: Cell, figure: str) -> str:
    """Format the summary of a cell; MISSING for fewer than MIN runs."""
    merit, flow = metric_of(figure), figure.partition(":")[2]
    summary = cell.summary(f"{merit.key}:{flow}" if flow else merit.key)
    if summary is None or summary.n < MIN_RUNS:
        return MISSING
    mark = DEGRADED if cell.verdict == "degraded" else ""
    return spread(summary, merit.show) + mark


def spread(summary: Summary, show: Show) -> str:
    """Format a median with its range: 180 (170–195); of clusters, value and runs of each."""
    if summary.states:
        return ", ".join(f"{show(state.value)} ×{state.runs}" for state in summary.states)
    median = show(summary.median)
    if are_identical(summary.values):
        return f"{median} (identical)"
    low, high = show(min(summary.values)), show(max(summary.values))
    return f"{median} ({low}–{high})"


# -- targets


def targets_table(query: TableQuery, rows: Sequence[published_targets.TargetComparison]) -> Table:
    """Compare the published values of some matrices with the lab's and an earlier table's."""
    before = read_earlier(query.since) if query.since else {}
    table_rows = []
    for row in rows:
        if row.matrix not in query.matrices:
            continue
        counts = row.got is not None and row.n >= MIN_RUNS
        old, old_verdict = before.get((row.matrix, without_nbsp(row.cell), row.figure), (None, ""))
        table_rows.append(
            {
                "matrix": row.matrix,
                "cell": without_nbsp(row.cell),
                "figure": row.figure,
                "asked": without_nbsp(row.expected),
                "got": spread(row.got, published_targets.ratio_text)
                if counts and row.got
                else MISSING,
                "n": row.n,
                "verdict": row.verdict
                if counts
                else TOO_FEW
                if row.n
                else published_targets.NO_RUN,
                "said": old_verdict,
                "before": published_targets.ratio_text(old) if old is not None else "",
                "moved": moved_words(old, row.got) if counts and row.got else "",
            }
        )
    judged = [row for row in table_rows if row["verdict"] in published_targets.JUDGED]
    agree = sum(row["verdict"] == published_targets.AGREES for row in judged)
    note = f"{agree} of {len(judged)} agree"
    if query.moved:
        table_rows = [row for row in table_rows if has_changed(row)]
    figures = {str(row["figure"]) for row in table_rows}
    several = len(figures) != 1
    of_one = "" if several else f"{''.join(figures)}, "
    columns = [
        *(text_columns(matrix="matrix") if len(query.matrices) > 1 else ()),
        *text_columns(cell="cell"),
        *(text_columns(figure="figure") if several else ()),
        Column("asked", "published, or band"),
        Column("got", f"lab: {of_one}median (least–most)"),
        Column("n", "n", format_count),
        *text_columns(verdict="verdict"),
    ]
    if before:
        columns += [Column("before", "in 0.2"), *text_columns(moved="moved")]
    return Table("", "", note, tuple(columns), tuple(table_rows))


def has_changed(row: TableRow) -> bool:
    """Return whether a target's median has moved or its verdict has changed."""
    judged = {row["said"], row["verdict"]} <= {*published_targets.JUDGED}
    return bool(row["moved"]) or (judged and row["said"] != row["verdict"])


def without_nbsp(text: str) -> str:
    """Replace no-break spaces, as in CSV files."""
    return text.replace(NBSP, " ")


def read_earlier(file: Path) -> dict[tuple[str, str, str], tuple[float, str]]:
    """Read earlier medians and verdicts by matrix, cell, metric. Raises OSError, BadInput."""
    medians = {}
    with file.open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            try:
                key = (row["matrix"], row["cell"], row["figure"])
                medians[key] = float(row["median"]), row["verdict"]
            except (KeyError, ValueError) as error:
                raise BadInput(f"{file}: no column or number {error}") from error
    return medians


def moved_words(before: float | None, now: Summary) -> str:
    """Format the change of a median that has moved; "" otherwise."""
    if before is None or before == 0:
        return ""
    within = min(now.values) <= before <= max(now.values)
    share = now.median / before - 1
    return "" if within or abs(share) <= MOVED else f"{100 * share:+.0f} %"


# -- what it rests on


def foot_of(query: TableQuery, matrices: Sequence[MatrixResults], note: str = "") -> list[str]:
    """State the runs that a table rests on, the command and the software."""
    cells = [cell for matrix in matrices for cell in matrix.cells]
    enough = [len(cell.counted) for cell in cells if len(cell.counted) >= MIN_RUNS]
    few = len(cells) - len(enough)
    counted = [run for cell in cells for run in cell.counted]
    degraded = sum(run.verdict == "degraded" for run in counted)
    figures = ", ".join(dict.fromkeys(figure_words(entry) for entry in query.figures))
    medians = "Medians" if query.tables else f"Medians, least to most in brackets: {figures}"
    parts = [note if query.targets else medians]
    parts.append(f"n = {format_range(min(enough), max(enough))}" if enough else "")
    parts.append(f"{len(counted)} runs count" + (f", {degraded} degraded" if degraded else ""))
    parts.append(f"{DEGRADED}: degraded" if degraded and not query.targets else "")
    if few:
        parts.append(
            f"{few} cell{' has' if few == 1 else 's have'} fewer than {MIN_RUNS} runs,"
            " and no number"
        )
    text = "; ".join(filter(None, parts))
    run = [
        entry for entry in matrices if any(len(cell.counted) >= MIN_RUNS for cell in entry.cells)
    ]
    commands = "; ".join(commands_of(query.experiment, run))
    foot = f"{text}. {commands}. Made by: {made_by_line(counted)}."
    return textwrap.wrap(foot, WIDTH, break_long_words=False, break_on_hyphens=False)


def commands_of(
    experiment: str, matrices: Sequence[MatrixResults], most_named: int | None = None
) -> list[str]:
    """Return the commands that produce matrices' runs; more than most_named are counted."""
    forms: dict[tuple[bool, int], list[str]] = {}
    quickly = question_keys(experiment, quick=True) or frozenset()
    fully = question_keys(experiment) or frozenset()
    for matrix in matrices:
        run: RunFolder = next(run for run in matrix.runs)
        asks = question_key(read_run_json(run.folder))
        sizes = [len(cell.runs) for cell in matrix.cells]
        key = (asks in quickly and asks not in fully, max(sizes))
        forms.setdefault(key, []).append(matrix.name)
    commands = []
    for (quick, size), names in forms.items():
        named = most_named is None or len(names) <= most_named
        options = "".join(f" --matrix {name}" for name in names) if named else ""
        form = " --quick" if quick else ""
        counted = "" if named else f" ({len(names)} of its matrices)"
        commands.append(f"`./lab run {experiment}{form}{options} --repeat {size}`{counted}")
    return commands
