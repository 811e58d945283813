"""The drawings: what one is, how it is found, and how it becomes figures of a matrix.

A drawing is one file in analysis/plots/, named after its word (by_loss.py is `by-loss`):

    DRAWING = Drawing("by-loss", caption="…", draw=draw, shows=("loss_p", "cc"), says=says)

Nothing else needs to know of it: an experiment's `draw:` accepts the word, the report draws it, and
./lab refuses a file that does not declare it whole before anything runs.

No drawing may drop a cell or merge two silently. A drawing says by `shows` which columns its axes,
colours and facets tell apart; over every factor that is left there is a figure per level, with the
level in its title. Where that makes too many, each says how many cells the drawn ones have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain

import pandas as pd
from matplotlib.figure import Figure

from gostlab.analysis.load.published import Study
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.plotting.factors import facets_of
from gostlab.analysis.stats.cells import Cell, MatrixResults, file_name, to_table
from gostlab.analysis.stats.text_table import Table, n_note
from gostlab.errors import BadInput
from gostlab.registry import plots as declared
from gostlab.registry.folders import DRAWINGS
from gostlab.registry.static_loader import module_of

# More figures than this of one drawing and nobody looks at any.
MAX_FIGURES = 8
OWN_SCALE = "each figure with a scale of its own"


@dataclass(frozen=True)
class PlotFinding:
    """One thing that the runs say, and why it can be said."""

    heading: str
    sentences: tuple[str, ...]
    spread: str = ""  # from the least to the most of the runs that the first sentence rests on


@dataclass(frozen=True)
class ReportFigure:
    """A figure on the page."""

    figure: Figure
    caption: str = ""  # "": the drawing's
    name: str = ""  # of the file; a drawing of several figures says what tells them apart
    medians: bool = True  # what it shows are cells' medians: its caption says of how many runs


@dataclass(frozen=True)
class Sweep:
    """A matrix and what surrounds it: what drawings are made from."""

    matrix: MatrixResults
    matrices: Sequence[MatrixResults]  # all of the experiment's
    study: Study
    footer: str = ""  # what made the numbers

    @property
    def title(self) -> str:
        variant = f" ({self.matrix.variant})" if self.matrix.variant else ""
        return self.study.matrix_title(self.matrix.name) + variant

    @cached_property
    def references(self) -> dict[str, RunFolder]:
        """A run of each matrix, for what was asked of it."""
        return {matrix.name: matrix.runs[0] for matrix in self.matrices}

    def table(self, cells: Sequence[Cell], *, borrows: bool) -> pd.DataFrame:
        """Some cells as a table; `borrows`: with what the study published of another matrix's cells
        on the same path.
        """
        borrowed = self.references if borrows and self.study.published else None
        asked = (borrowed is None, *(cell.key for cell in cells))
        if asked not in self._tables:
            self._tables[asked] = to_table(cells, self.study, borrowed)
        return self._tables[asked].copy()

    @cached_property
    def _tables(self) -> dict[tuple[object, ...], pd.DataFrame]:
        """Those made so far: every drawing of a matrix asks for the same."""
        return {}


@dataclass(frozen=True)
class Sheet:
    """What one figure is made from."""

    sweep: Sweep
    rows: pd.DataFrame
    levels: str = ""  # what this figure alone has: "buffer 1 BDP"
    note: str = ""  # what else must stand on it: that it is one of several, and of how many
    all_rows: pd.DataFrame | None = None  # of a page: the rows of all of them

    @property
    def title(self) -> str:
        return f"{self.levels} ({self.note})" if self.note else self.levels

    @property
    def footer(self) -> str:
        return self.sweep.footer

    @property
    def called(self) -> str:
        """What a legend calls the study: "thesis"."""
        return self.sweep.study.called


@dataclass(frozen=True)
class Joined:
    """The cells of a drawing: a matrix's own, or with those that other matrices add."""

    cells: tuple[Cell, ...]
    elsewhere: str = ""  # the words for where the figure stands, if not here


def own_cells(sweep: Sweep) -> Joined:
    return Joined(sweep.matrix.cells)


def valid_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The cells in which a run counts."""
    return table[table["n"] > 0].reset_index(drop=True)


def known_rows(figure: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """What chooses the cells that know a figure of merit."""
    return lambda table: valid_rows(table[table[figure].notna()])


def with_absent(table: pd.DataFrame) -> pd.DataFrame:
    """All cells, if a run of any counts: one without keeps its place and says why."""
    return table if (table["n"] > 0).any() else table.head(0)


Says = Callable[[Sweep, pd.DataFrame], Iterable[PlotFinding]]


def told(heading: str, sentences: Callable[[Sweep, pd.DataFrame], Iterable[str]]) -> Says:
    """What says some sentences, if there are any, under a heading: "{title}: which tunnel"."""

    def says(sweep: Sweep, table: pd.DataFrame) -> Iterable[PlotFinding]:
        said = tuple(sentences(sweep, table))
        return [PlotFinding(heading.format(title=sweep.title), said)] if said else []

    return says


def all_of(*parts: Says) -> Says:
    """What says all that several say."""
    return lambda sweep, table: chain.from_iterable(says(sweep, table) for says in parts)


SAYS_NOTHING = all_of()


@dataclass(frozen=True)
class Drawing:
    """One way to show a matrix."""

    word: str  # as `draw:` names it
    caption: str
    draw: Callable[[Sheet], Iterable[ReportFigure]]
    # The columns that its axes, colours and facets tell apart; None: it tells every factor apart.
    shows: tuple[str, ...] | None = None
    says: Says = SAYS_NOTHING
    cells: Callable[[Sweep], Joined] = own_cells
    rows: Callable[[pd.DataFrame], pd.DataFrame] = valid_rows  # of its cells those that it can show
    needs: str = "a run that counts"  # what `rows` asks of a cell
    tables: Callable[[Sweep, pd.DataFrame, str], Iterable[Table]] | None = None  # its own, or none
    borrows: bool = False  # a study's value of another matrix on the same path is one of its cells'
    # Its sentences are what a matrix is about that is drawn by it: they stand before all others.
    leads: bool = False
    # Itself over the two factors that a file names, across and down: `draw: [heatmap: [loss, rtt]]`
    over: Callable[[Drawing, str, str], Drawing] | None = None


@dataclass
class Drawn:
    """What a drawing made of a matrix."""

    pictures: list[ReportFigure] = field(default_factory=list)
    answers: list[PlotFinding] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    note: str = ""


def drawing_of(word: str) -> Drawing:
    """The drawing of that word, over the factors that it names (heatmap(loss, rtt)). Raises
    BadInput if there is none, or not a whole one.
    """
    word, factors = declared.parts_of(word)
    drawing = declared_drawing(word)
    if factors is None:
        return drawing
    if drawing.over is None:
        raise BadInput(f"drawing {word}: takes no factors")
    return drawing.over(drawing, *factors)


def declared_drawing(word: str) -> Drawing:
    """What a drawing's file declares. Raises BadInput."""
    files = declared.drawing_files()
    if word not in files:
        raise BadInput(f"no drawing {word}: draw is one of {', '.join(sorted(files))}")
    declared.check_drawing(word, files[word])
    try:
        module = module_of(DRAWINGS, files[word].stem)
        found = getattr(module, "DRAWING", None)  # a module of the lab is read when it is used
    except Exception as error:  # whatever a file of somebody's raises: it names the file
        raise BadInput(f"{files[word]}: {type(error).__name__}: {error}") from error
    if not isinstance(found, Drawing) or found.word != word:
        raise BadInput(f"{files[word]}: its DRAWING is not the drawing {word}")
    return found


def words_for(matrix: MatrixResults) -> tuple[str, ...]:
    """What a matrix is drawn by: what its file says, else what its factors suggest."""
    if matrix.draw:
        return tuple(dict.fromkeys(matrix.draw))
    factors = {name for cell in matrix.cells for name, _ in cell.factors}
    if factors & {"syscall_cost", "clock"}:
        return ("cpu",)
    if "buffer" in factors:
        return ("buffer", "series")
    if "streams" in factors:
        return ("goodput", "ratio", "retransmissions", "series")
    return ("cells", "series")


def draw_matrix(drawing: Drawing, sweep: Sweep, name: str) -> Drawn:
    """A drawing's figures, sentences and tables of a matrix; `name` begins its files' names."""
    joined = drawing.cells(sweep)
    table = sweep.table(joined.cells, borrows=drawing.borrows)
    made = Drawn(tables=list(drawing.tables(sweep, table, name) if drawing.tables else ()))
    if joined.elsewhere:
        made.note = f"These cells stand in the figure of {joined.elsewhere}."
        return made
    made.answers += drawing.says(sweep, table)
    rows = drawing.rows(table)
    for sheet in () if rows.empty else sheets_of(drawing, sweep, rows):
        made.pictures += [
            finished(picture, drawing, sheet, f"{name}-{drawing.word}")
            for picture in drawing.draw(sheet)
        ]
    if not made.pictures and (table["n"] > 0).any():
        made.note = f"No figure {drawing.word}: it needs {drawing.needs}."
    return made


def sheets_of(drawing: Drawing, sweep: Sweep, rows: pd.DataFrame) -> list[Sheet]:
    """One per level of every factor that the drawing does not tell apart."""
    facets = [("", rows)] if drawing.shows is None else list(facets_of(rows, known=drawing.shows))
    drawn = facets[:MAX_FIGURES]
    cells = sum(len(each) for _, each in drawn)
    note = OWN_SCALE if len(drawn) > 1 else ""
    if len(drawn) < len(facets):
        note = f"{cells} of {len(rows)} cells are shown, {OWN_SCALE}"
    return [
        Sheet(sweep, each.reset_index(drop=True), levels, note if levels else "")
        for levels, each in drawn
    ]


def finished(picture: ReportFigure, drawing: Drawing, sheet: Sheet, name: str) -> ReportFigure:
    """A picture with the whole of its caption and of its file's name."""
    parts = [
        f"{sheet.title}:" if sheet.title else "",
        picture.caption or drawing.caption,
        n_note(sheet.rows) if picture.medians else "",
    ]
    suffix = file_name(sheet.levels) if sheet.levels else ""
    return replace(
        picture,
        caption=" ".join(part for part in parts if part),
        name="-".join(part for part in (name, suffix, picture.name) if part),
    )
