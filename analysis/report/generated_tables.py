"""Tables of the handwritten pages that runs write: what stands between two marks.

    <!-- runs: tunnels/all rows=tunnel -->
    …
    <!-- end of runs -->

`EXPERIMENT/MATRIX` says whose cells are shown. `rows=` names the factors down the side (default:
all that vary but `cc`), `figure=` the figures of merit (default: goodput_mbit), `only=rtt:20ms` the
cells with that level of a factor. `targets` in their place shows each published number beside the
lab's (several matrices: `validation/cacm,quick-bbr`), and `since=FILE` what an earlier table had
(measurements/, as CSV); `moved` keeps only the rows that differ from it. `says` in place of all
that shows what the matrix's drawings say. A cell with fewer than LEAST runs has no number there. A
table whose experiment has no such run in the results stays as it is.
"""

import csv
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from gostlab.analysis.load.json_safe import Scalar
from gostlab.analysis.load.published import Study, load_study, questions
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.run_json import question, read_run_json
from gostlab.analysis.load.runs import load_results
from gostlab.analysis.plotting.plot import Sweep, drawing_of, words_for
from gostlab.analysis.plotting.sentences import made_by_line
from gostlab.analysis.stats import published_targets
from gostlab.analysis.stats.cells import Cell, MatrixResults, to_matrices
from gostlab.analysis.stats.metrics import BY_KEY, merit_of
from gostlab.analysis.stats.statistics import Summary
from gostlab.analysis.stats.text_table import (
    MISSING,
    NBSP,
    Column,
    Table,
    cc_name,
    count,
    markdown,
    span_words,
    texts,
)
from gostlab.results import write_whole
from gostlab.results.metrics import are_identical
from gostlab.spec.labels import level_words
from gostlab.spec.yaml_source import BadInput

BEGIN = re.compile(r"<!-- runs: (?P<asked>[^>]+?) -->")
END = "<!-- end of runs -->"
BLOCK = re.compile(
    rf"(?ms)^(?P<indent>[ \t]*)(?P<begin>{BEGIN.pattern})[ \t]*\n"
    rf".*?(?:^[ \t]*(?P<end>{re.escape(END)})[ \t]*$|\Z)"
)
# Runs of a cell, below which nothing is claimed.
MIN = 5
# A median has moved if it is further than this from the earlier one, which lies outside of least to
# most; `./lab compare` takes the same.
MOVED = 0.05
WIDTH = 100
TOO_FEW = "too few runs"
NO_CHANGED_ROWS = "None of those with runs enough."
DEGRADED = "†"
ALONE, WITH_VALUE = ("targets", "moved", "says"), ("rows", "figure", "only", "since")

Show = Callable[[float], str]
WithoutRuns = Callable[[str, Sequence[str]], str]  # an experiment and its matrices, in words
Load = Callable[[str], Mapping[str, MatrixResults]]  # an experiment's matrices, by name


@dataclass(frozen=True)
class TableQuery:
    """The words of a mark, read."""

    place: str  # for messages: file and line
    experiment: str
    matrices: tuple[str, ...]
    rows: tuple[str, ...] | None = None  # None: all factors but cc
    figures: tuple[str, ...] = ("goodput_mbit",)
    only: tuple[str, str] | None = None  # a factor and its level
    targets: bool = False
    says: bool = False
    moved: bool = False  # of the targets only those whose median or verdict is another
    since: Path | None = None


def read_mark(words: str, place: str, folder: Path) -> TableQuery:
    """A mark's words. folder: what `since` is relative to. Raises BadInput."""
    first, *others = words.split()
    experiment, slash, matrices = first.partition("/")
    if not slash or not matrices:
        raise BadInput(f"{place}: {first}: not of the form EXPERIMENT/MATRIX")
    given: dict[str, str] = {}
    for each in others:
        name, equals, value = each.partition("=")
        if name not in (WITH_VALUE if equals else ALONE):
            raise BadInput(f"{place}: {each}: not {', '.join((*ALONE, *WITH_VALUE))}")
        given[name] = value
    figures = tuple(given.get("figure", "goodput_mbit").split(","))
    for figure in figures:
        if figure.partition(":")[0] not in BY_KEY:
            raise BadInput(f"{place}: figure={figure}: no figure of merit ({', '.join(BY_KEY)})")
    factor, colon, level = given.get("only", "").partition(":")
    if "only" in given and not colon:
        raise BadInput(f"{place}: only={factor}: not of the form only=FACTOR:LEVEL")
    return TableQuery(
        place,
        experiment,
        tuple(matrices.split(",")),
        tuple(given["rows"].split(",")) if "rows" in given else None,
        figures,
        (factor, level) if colon else None,
        "targets" in given,
        "says" in given,
        "moved" in given,
        folder / given["since"] if "since" in given else None,
    )


def renew(page: Path, template: str) -> None:
    """Write a page's words anew; between its marks stands what stood there. Raises OSError."""
    before = page.read_text(encoding="utf-8") if page.exists() else ""
    kept = {each["asked"]: each[0] for each in BLOCK.finditer(before)}
    write_whole(page, BLOCK.sub(lambda each: kept.get(each["asked"], each[0]), template))


def write_marked(pages: Iterable[Path], results: Path, root: Path) -> list[Path]:
    """Fill the marked tables of some pages from a results folder; the pages that changed.

    root: the checkout. Raises BadInput, OSError; then no page is changed.
    """
    load = cache(partial(load_fullest, results))  # many tables are of one experiment
    filled = {page: fill(page, load, root) for page in pages}
    changed = [page for page, text in filled.items() if text != page.read_text(encoding="utf-8")]
    for page in changed:
        write_whole(page, filled[page])
    return changed


def made_earlier(page: Path, command: str) -> str:
    """A page's text; empty if there is none, or something else than a command wrote it."""
    try:
        words = page.read_text(encoding="utf-8")
    except (OSError, UnicodeError):
        return ""
    return words if command in words[:400] else ""


def write_made(page: Path, command: str, text: str) -> Path:
    """Write the page of a command; the page. Of the pictures in the folder of its name those go
    that it showed and shows no more. Raises OSError.
    """
    folder = page.with_suffix("")
    old, shown = (pictures_in(words, folder.name) for words in (made_earlier(page, command), text))
    write_whole(page, (text.rstrip("\n") + "\n").encode("utf-8", "replace"))
    for name in old - shown:
        (folder / name).unlink(missing_ok=True)
    return page


def sections_in(words: str, kind: str) -> tuple[str, dict[str, str]]:
    """What stands before a page's sections, and each by what its anchor names behind the kind."""
    head, *rest = re.split(rf'(?m)^(?=<a id="{kind}-[A-Za-z0-9-]+"></a>\n)', words)
    return head, {text.split('"')[1].removeprefix(f"{kind}-"): text.rstrip() for text in rest}


def pictures_in(words: str, folder: str) -> set[str]:
    """The names of the pictures of a folder that some Markdown shows."""
    return set(re.findall(rf"\]\({re.escape(folder)}/([A-Za-z0-9._+-]+\.png)\)", words))


def load_fullest(results: Path, experiment: str) -> Mapping[str, MatrixResults]:
    """Of each matrix of an experiment the variant with most runs, of those that its file asks."""
    if not (results / experiment).is_dir():
        return {}  # what the file would ask need not be known
    forms = (questions(experiment, quick=quick) for quick in (False, True))
    asked = frozenset().union(*(each for each in forms if each))
    found = load_results(results, experiment, asked)
    matrices: dict[str, MatrixResults] = {}
    for matrix in to_matrices(found.runs, load_study(experiment)):  # the fullest comes first
        matrices.setdefault(matrix.name, matrix)
    return matrices


def fill(page: Path, load: Load, root: Path, none: WithoutRuns | None = None) -> str:
    """A page's text with its tables filled. Raises BadInput, OSError.

    none: what stands in the place of a table without runs (default: what stood there)
    """
    text = page.read_text(encoding="utf-8")

    def filled(block: re.Match[str]) -> str:
        line = 1 + text.count("\n", 0, block.start())
        place = f"{page}:{line}"
        if not block["end"]:
            raise BadInput(f"{place}: the table has no end: write {END} after it")
        asked = read_mark(block["asked"], place, root)
        table = table_of(asked, load)
        if table is None and none is not None:
            table = ["", *textwrap.wrap(none(asked.experiment, asked.matrices), WIDTH), ""]
        if table is None:
            return block[0]
        lines = (block["begin"], *table, END)
        return "\n".join(f"{block['indent']}{each}".rstrip() for each in lines)

    return BLOCK.sub(filled, text)


def table_of(asked: TableQuery, load: Load) -> list[str] | None:
    """The lines of a table; None if no run in the results is one of its. Raises BadInput."""
    study = load_study(asked.experiment)
    known = [name for name, _ in study.matrix_titles]
    for name in asked.matrices:
        if name not in known:
            raise BadInput(f"{asked.place}: {asked.experiment} has no matrix {name}")
    found = load(asked.experiment)
    shown = [with_level(found[name], asked) for name in asked.matrices if name in found]
    if not any(len(cell.counted) >= MIN for each in shown for cell in each.cells):
        return None
    if asked.says:
        return sentences_of(study, shown)
    if asked.targets:
        table = targets_table(asked, published_targets.target_rows(study, shown))
    else:
        (matrix,) = shown
        table = cells_table(matrix, asked.rows, asked.figures, asked.place)
    foot = foot_of(asked, shown, table.note)
    return ["", *(table.lines() if table.rows else [NO_CHANGED_ROWS]), "", *foot, ""]


def sentences_of(study: Study, shown: Sequence[MatrixResults]) -> list[str]:
    """What the drawings of some matrices say of their cells with runs enough, a list's lines."""
    told = [""]
    for matrix in shown:
        enough = tuple(cell for cell in matrix.cells if len(cell.counted) >= MIN)
        sweep = Sweep(replace(matrix, cells=enough), shown, study)
        for drawing in map(drawing_of, words_for(matrix)):
            rows = drawing.rows(sweep.table(enough, borrows=drawing.borrows))
            for answer in drawing.says(sweep, rows):
                for sentence in answer.sentences:
                    told += textwrap.wrap(f"- {markdown(sentence)}", WIDTH, subsequent_indent="  ")
    return [*told, ""]


# -- cells


def with_level(matrix: MatrixResults, asked: TableQuery) -> MatrixResults:
    """A matrix's cells that a table asks for."""
    if asked.only is None:
        return matrix
    name, level = asked.only
    of_level = (cell for cell in matrix.cells if str(dict(cell.factors).get(name)) == level)
    return replace(matrix, cells=tuple(of_level))


def cells_table(
    matrix: MatrixResults, rows: Sequence[str] | None, figures: Sequence[str], place: str = ""
) -> Table:
    """A matrix's cells, some factors down and the others across. Raises BadInput."""
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
        row = table.setdefault(words_of(cell, down) or matrix.name, {})
        for figure in figures:
            named = [words_of(cell, across)] if across else []
            if len(figures) > 1 or not across:
                named.append(figure_words(figure))
            key = f"{words_of(cell, across)} {figure}"
            headings[key] = ", ".join(named)
            if key in row:  # what tells two cells apart is in neither: each has a row of its own
                row = table.setdefault(cell.label, {})
            row[key] = cell_words(cell, figure)
    heads = dict.fromkeys(name if rows else name.partition(".")[0] for name in down)
    columns = (
        *texts(row=", ".join(head.replace("_", " ") for head in heads) or "matrix"),
        *(Column(key, heading) for key, heading in headings.items()),
    )
    told = tuple({"row": name, **of_row} for name, of_row in table.items())
    return Table("", "", "", columns, told)


def words_of(cell: Cell, factors: Sequence[str]) -> str:
    levels = dict(cell.factors)
    said = (level_words(name, levels[name], cc_name) for name in factors if name in levels)
    return ", ".join(said).replace(NBSP, " ")


def figure_words(figure: str) -> str:
    """A figure's name; of a flow, behind the flow's."""
    words, flow = merit_of(figure).words, figure.partition(":")[2]
    return f"{flow}: {words}" if flow else words


def cell_words(cell: Cell, figure: str) -> str:
    """What a cell's runs say together; MISSING of fewer than LEAST."""
    merit, flow = merit_of(figure), figure.partition(":")[2]
    found = cell.summary(f"{merit.key}:{flow}" if flow else merit.key)
    if found is None or found.n < MIN:
        return MISSING
    mark = DEGRADED if cell.verdict == "degraded" else ""
    return spread(found, merit.show) + mark


def spread(found: Summary, show: Show) -> str:
    """A median with least and most: 180 (170–195); of several states how many runs are in each."""
    if found.states:
        return ", ".join(f"{show(each.value)} ×{each.runs}" for each in found.states)
    median = show(found.median)
    if are_identical(found.values):
        return f"{median} (identical)"
    low, high = show(min(found.values)), show(max(found.values))
    return f"{median} ({low}–{high})"


# -- targets


def targets_table(asked: TableQuery, rows: Sequence[published_targets.Target]) -> Table:
    """Each published number of some matrices beside the lab's, and beside an earlier table's."""
    before = earlier(asked.since) if asked.since else {}
    told = []
    for row in rows:
        if row.matrix not in asked.matrices:
            continue
        counts = row.got is not None and row.n >= MIN
        old, said = before.get((row.matrix, plain_words(row.cell), row.figure), (None, ""))
        told.append(
            {
                "matrix": row.matrix,
                "cell": plain_words(row.cell),
                "figure": row.figure,
                "asked": plain_words(row.asked),
                "got": spread(row.got, published_targets.lasting)
                if counts and row.got
                else MISSING,
                "n": row.n,
                "verdict": row.verdict
                if counts
                else TOO_FEW
                if row.n
                else published_targets.NO_RUN,
                "said": said,
                "before": published_targets.lasting(old) if old is not None else "",
                "moved": moved_words(old, row.got) if counts and row.got else "",
            }
        )
    judged = [row for row in told if row["verdict"] in published_targets.JUDGED]
    agree = sum(row["verdict"] == published_targets.AGREES for row in judged)
    note = f"{agree} of {len(judged)} agree"
    if asked.moved:
        told = [row for row in told if changed(row)]
    figures = {str(row["figure"]) for row in told}
    several = len(figures) != 1
    of_one = "" if several else f"{''.join(figures)}, "
    columns = [
        *(texts(matrix="matrix") if len(asked.matrices) > 1 else ()),
        *texts(cell="cell"),
        *(texts(figure="figure") if several else ()),
        Column("asked", "published, or band"),
        Column("got", f"lab: {of_one}median (least–most)"),
        Column("n", "n", count),
        *texts(verdict="verdict"),
    ]
    if before:
        columns += [Column("before", "in 0.2"), *texts(moved="moved")]
    return Table("", "", note, tuple(columns), tuple(told))


def changed(row: Mapping[str, Any]) -> bool:
    """Whether a target's median has moved, or its verdict is another."""
    judged = {row["said"], row["verdict"]} <= {*published_targets.JUDGED}
    return bool(row["moved"]) or (judged and row["said"] != row["verdict"])


def plain_words(text: str) -> str:
    """Words without no-break spaces, as a CSV has them."""
    return text.replace(NBSP, " ")


def earlier(file: Path) -> dict[tuple[str, str, str], tuple[float, str]]:
    """An earlier table's medians and verdicts by matrix, cell, figure. Raises OSError, BadInput."""
    found = {}
    with file.open(encoding="utf-8", newline="") as rows:
        for row in csv.DictReader(rows):
            try:
                key = (row["matrix"], row["cell"], row["figure"])
                found[key] = float(row["median"]), row["verdict"]
            except (KeyError, ValueError) as error:
                raise BadInput(f"{file}: no column or number {error}") from error
    return found


def moved_words(before: float | None, now: Summary) -> str:
    """By how much a median has moved, where it has."""
    if before is None or before == 0:
        return ""
    within = min(now.values) <= before <= max(now.values)
    share = now.median / before - 1
    return "" if within or abs(share) <= MOVED else f"{100 * share:+.0f} %"


# -- what it rests on


def foot_of(asked: TableQuery, shown: Sequence[MatrixResults], note: str = "") -> list[str]:
    """How many runs a table rests on, which command makes them, and what made these."""
    cells = [cell for matrix in shown for cell in matrix.cells]
    enough = [len(cell.counted) for cell in cells if len(cell.counted) >= MIN]
    few = len(cells) - len(enough)
    counted = [run for cell in cells for run in cell.counted]
    degraded = sum(run.verdict == "degraded" for run in counted)
    figures = ", ".join(dict.fromkeys(figure_words(each) for each in asked.figures))
    said = [note if asked.targets else f"Medians, least to most in brackets: {figures}"]
    said.append(f"n = {span_words(min(enough), max(enough))}" if enough else "")
    said.append(f"{len(counted)} runs count" + (f", {degraded} degraded" if degraded else ""))
    said.append(f"{DEGRADED}: degraded" if degraded and not asked.targets else "")
    if few:
        said.append(
            f"{few} cell{' has' if few == 1 else 's have'} fewer than {MIN} runs, and no number"
        )
    words = "; ".join(filter(None, said))
    run = [each for each in shown if any(len(cell.counted) >= MIN for cell in each.cells)]
    commands = "; ".join(commands_of(asked.experiment, run))
    foot = f"{words}. {commands}. Made by: {made_by_line(counted)}."
    return textwrap.wrap(foot, WIDTH, break_long_words=False, break_on_hyphens=False)


def commands_of(
    experiment: str, shown: Sequence[MatrixResults], most_named: int | None = None
) -> list[str]:
    """The commands that make matrices' runs, each once; of more than most_named, how many."""
    forms: dict[tuple[bool, int], list[str]] = {}
    quickly = questions(experiment, quick=True) or frozenset()
    fully = questions(experiment) or frozenset()
    for matrix in shown:
        run: RunFolder = next(run for run in matrix.runs)
        asks = question(read_run_json(run.folder))
        sizes = [len(cell.runs) for cell in matrix.cells]
        key = (asks in quickly and asks not in fully, max(sizes))
        forms.setdefault(key, []).append(matrix.name)
    said = []
    for (quick, size), names in forms.items():
        named = most_named is None or len(names) <= most_named
        words = "".join(f" --matrix {name}" for name in names) if named else ""
        form = " --quick" if quick else ""
        counted = "" if named else f" ({len(names)} of its matrices)"
        said.append(f"`./lab run {experiment}{form}{words} --repeat {size}`{counted}")
    return said
