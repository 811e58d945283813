"""A chapter: everything that one experiment's results say, before it is a page.

The report and the page of studies are both made from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from gostlab.analysis.load.published import Study
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.runs import ExperimentFolders
from gostlab.analysis.plotting import plot
from gostlab.analysis.plotting.measured_vs_published import (
    against_caption,
    draw_against,
    over_study,
)
from gostlab.analysis.plotting.narrative import (
    IN_BRACKETS,
    MAX_SAID,
    MAX_WORDS,
    GeneratedSentence,
    agreement_claim,
    section_sentences,
    study_sentence,
)
from gostlab.analysis.plotting.sentences import (
    in_cells,
    in_general,
    made_by_line,
    others_against_base,
    retransmission_answers,
)
from gostlab.analysis.report import tables
from gostlab.analysis.stats import published_targets
from gostlab.analysis.stats.cells import MatrixResults, file_name, runs_per_cell, to_matrices
from gostlab.analysis.stats.text_table import Table, several, span_words
from gostlab.results import EPOCH, changed_since


@dataclass
class MatrixSection:
    """A section of an experiment: one matrix, its figures and tables."""

    title: str
    note: str = ""
    matrix: str = ""  # its name
    runs: int = 0
    said: list[GeneratedSentence] = field(
        default_factory=list
    )  # in a person's words: one to three sentences
    answers: list[plot.PlotFinding] = field(default_factory=list)  # everything there is to say
    pictures: list[plot.ReportFigure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


@dataclass(frozen=True)
class FirstScreen:
    """What is looked at first: the answer, the figure that shows it, and what they rest on.

    sentences  with their evidence; three at most
    rates      a study's rates beside the lab's
    spread     from the least to the most of the runs that the first figure's sentence rests on
    """

    question: str
    answer: str  # of MAX_WORDS words at most; "" where too little has run
    sentences: tuple[str, ...]
    picture: plot.ReportFigure | None
    rests: str
    rates: Table | None = None
    spread: str = ""

    @property
    def more(self) -> list[str]:
        """The sentences that say more than the answer."""
        return [said for said in self.sentences if IN_BRACKETS.sub("", said) != self.answer]


@dataclass(frozen=True)
class Chapter:
    """One experiment."""

    study: Study
    results: ExperimentFolders
    first: FirstScreen
    answers: tuple[plot.PlotFinding, ...]  # of the experiment as a whole, and none of a part's
    parts: tuple[MatrixSection, ...]
    left_out: Table | None
    paths: Table
    environment: Table
    mixed: tuple[str, ...]
    older: str  # a sentence of the runs that another lab made; "": none
    targets: tuple[published_targets.Target, ...] = ()
    target_table: Table | None = None
    reasons: Table | None = None  # why study and lab differ, each reason once
    against: plot.ReportFigure | None = None  # lab over study

    @property
    def counted(self) -> int:
        """How many runs everything rests on."""
        return sum(run.counts for run in self.results.runs)

    @property
    def shown(self) -> plot.ReportFigure | None:
        """Of one picture the lab over the study, if there is one; else what the answer is about."""
        return self.against or self.first.picture

    @property
    def pictures(self) -> list[plot.ReportFigure]:
        """All of its figures, each once."""
        own = [self.against] if self.against else []
        return [*own, *(picture for part in self.parts for picture in part.pictures)]

    @property
    def tables(self) -> list[Table]:
        own = [table for part in self.parts for table in part.tables]
        last = (self.left_out, self.paths, self.environment)
        return [table for table in (self.reasons, self.target_table, *own, *last) if table]


def to_chapter(study: Study, results: ExperimentFolders) -> Chapter:
    """Everything that an experiment's results say. Raises BadInput, before anything is drawn,
    if its file names a drawing that is not there.
    """
    matrices = to_matrices(results.runs, study)
    drawings = [[plot.drawing_of(word) for word in plot.words_for(matrix)] for matrix in matrices]
    parts = [
        to_part(plot.Sweep(matrix, matrices, study, made_by_line(matrix.runs)), drawn_by)
        for matrix, drawn_by in zip(matrices, drawings, strict=True)
    ]
    name = file_name(study.name)
    judged = published_targets.target_rows(study, matrices)
    return Chapter(
        study=study,
        results=results,
        first=first_screen(study, results, parts, judged),
        answers=tuple(retransmission_answers(results.runs)),
        parts=tuple(parts),
        left_out=tables.left_out_table(results, f"{name}-left-out"),
        paths=tables.path_table(results, f"{name}-paths"),
        environment=tables.environment_table(results, f"{name}-environment"),
        mixed=tuple(mixed_cells(matrices)),
        older=older_runs(results.runs),
        targets=judged,
        target_table=(
            published_targets.to_table(judged, f"{name}-targets", "Every number")
            if judged
            else None
        ),
        reasons=published_targets.to_reasons(judged, f"{name}-reasons", "Why they differ"),
        against=against_picture(study, results, judged),
    )


def against_picture(
    study: Study, results: ExperimentFolders, judged: Sequence[published_targets.Target]
) -> plot.ReportFigure | None:
    """Lab over study, of the figures that can be divided; None where none can."""
    if all(over_study(row) is None for row in judged):
        return None
    figure = draw_against(judged, study.called, made_by_line(results.runs))
    caption = against_caption(judged, study.called)
    return plot.ReportFigure(figure, caption, f"{file_name(study.name)}-against")


# -- what is looked at first


def first_screen(
    study: Study,
    results: ExperimentFolders,
    parts: Sequence[MatrixSection],
    judged: Sequence[published_targets.Target],
) -> FirstScreen:
    """The answer, the sentences that say most, the figure of the first one, what they rest on.

    First how far the study agrees, where there is one. Then who takes how much, where flows compete
    in the first matrix, or what moves the goodput, where that is all that the first matrix asks;
    else how tunnels compare, where a matrix has several; else congestion controls; else what moves
    the goodput. Then what moves it most in all of the experiment, or what it costs in delay.
    """
    said = [(part, each) for part in parts for each in part.said]
    rates = published_targets.rates_table(judged, study.called)
    # What a later matrix's drawing says of its own is not what the whole is about.
    kinds = LEADS if said and said[0][1].about == "own" else LEADS[1:]
    begun = {each.about for each in parts[0].said} if parts else set()
    if "share" in begun:
        kinds = ("share", *kinds)  # flows compete from the first matrix on: that is the question
    elif begun == {"lever"} and not judged and not any(each.about == "share" for _, each in said):
        kinds = ("lever", *kinds)  # one congestion control and one tunnel: a setting is
    lead = next((pair for kind in kinds for pair in said if pair[1].about == kind), None)
    if lead is None:
        return FirstScreen(asked_in(study, ""), "", (), None, rests_line(results), rates)
    first = [each for part, each in said if part is lead[0]]
    chosen = [lead]
    if lead[1].about == "own":
        chosen = [(lead[0], each) for each in first if each.about == "own"]
    others = [
        pair for pair in said if pair[1].about in ("lever", "tunnels", "share") and pair != lead
    ]
    if others:
        chosen.append(max(others, key=lambda pair: pair[1].size))
    sentences = [
        each.sentence if part is lead[0] else f"{part.title}: {each.sentence}"
        for part, each in chosen
    ]
    compared = study_sentence(judged, study.called)
    if compared:
        sentences.insert(0, compared)
    else:
        sentences += [each.sentence for each in first if each.about == "delay"]
    claims = [words for words in (agreement_claim(judged, study.called), lead[1].claim) if words]
    answer = "; ".join([*claims[:1], *map(gone_on, claims[1:])])
    spread = lead[1].spread
    if len(answer.split()) > MAX_WORDS:
        answer, spread = claims[0], ""
    rests = rests_line(results, spread)
    picture = next(iter(lead[0].pictures), None)
    shown = tuple(sentences[: 2 if rates else 3])
    asked = asked_in(study, answer)
    return FirstScreen(asked, f"{answer}.", shown, picture, rests, rates, lead[1].spread)


def gone_on(claim: str) -> str:
    """A claim after another one: its first word is small, unless it is a name."""
    first, space, rest = claim.partition(" ")
    return f"{first.lower() if first in COMMON else first}{space}{rest}"


COMMON = "A All At Behind Between From Goodput In No On The Through With Without".split()
LEADS = ("own", "tunnels", "ccs", "share", "lever", "delay")
# Before the picture: the name, the title, the question and the answer.
MAX_WORDS_BEFORE = 60


def asked_in(study: Study, answer: str) -> str:
    """The question, as much of it as there is room for beside the title and the answer."""
    room = MAX_WORDS_BEFORE - len(f"gostlab · {study.name} {study.title} {answer}".split())
    words = study.question.split()
    return study.question if len(words) <= room else " ".join([*words[: max(0, room - 1)], "…"])


def rests_line(results: ExperimentFolders, spread: str = "") -> str:
    """How many runs a cell has, what the answer's runs span, how many count and how they ended."""
    counted = [run for run in results.runs if run.counts]
    if not counted:
        return ""
    sizes = runs_per_cell(to_matrices(results.runs))
    said = f"n = {span_words(sizes[0], sizes[-1])} per cell"
    if sizes[-1] == 1:
        said += ", so no spread is known"
    elif spread:
        said += f"; the answer's runs go from {spread}"
    states = Counter(map(tables.state_of, results.runs))
    states["unreadable"] += len(results.broken)
    order = sorted(+states, key=lambda state: (state != "ok", state != "degraded", state))
    found = ", ".join(f"{states[state]} {state}" for state in order)
    return f"{said}; {several(states.total(), 'run')}: {found}."


def to_part(sweep: plot.Sweep, drawings: Sequence[plot.Drawing]) -> MatrixSection:
    """One matrix's figures, tables and sentences."""
    matrix = sweep.matrix
    part = MatrixSection(
        sweep.title, matrix=matrix.name, runs=len(matrix.runs), said=section_sentences(sweep)
    )
    notes = [sweep.study.matrix_note(matrix.name), states_note(matrix) + traps_note(matrix)]
    name = f"{file_name(sweep.study.name)}-{matrix.key}"
    own_tables: list[Table] = []
    for drawing in drawings:
        drawn = plot.draw_matrix(drawing, sweep, name)
        part.pictures += drawn.pictures
        own_tables += drawn.tables
        notes.append(drawn.note)
        known = {answer.heading for answer in part.answers}
        new = [answer for answer in drawn.answers if answer.heading not in known]
        part.answers += new
        if drawing.leads:
            own = [
                GeneratedSentence(words, "own", spread=answer.spread)
                for answer in new
                for words in answer.sentences
            ]
            part.said = [*own, *part.said][:MAX_SAID]
    table = sweep.table(matrix.cells, borrows=any(drawing.borrows for drawing in drawings))
    elsewhere = any(drawing.cells is not plot.own_cells for drawing in drawings)
    if not part.answers and not elsewhere:
        part.answers += in_general(sweep, table)
    part.tables += own_tables or usual_tables(sweep, table, name)
    if (table["n"] > 0).any():
        again = f"{name}-retransmissions"
        made = tables.retransmission_table(table, matrix.cells, again, sweep.study.called)
        part.tables.append(made)
    # the first one that shows cells at their head: the sentences are about it
    first = [each for each in part.pictures if each.medians][:1]
    part.pictures = [*first, *(each for each in part.pictures if each not in first)]
    part.note = " ".join(note for note in notes if note)
    return part


def usual_tables(sweep: plot.Sweep, table: pd.DataFrame, name: str) -> list[Table]:
    """Those of a matrix whose drawings have none of their own."""
    matrix, called = sweep.matrix, sweep.study.called
    found = [tables.goodput_table(table, matrix.cells, f"{name}-goodput", called)]
    if any(len(cell.flows) > 1 for cell in matrix.cells):
        found.append(tables.flows_table(table, matrix.cells, f"{name}-flows"))
    pairs = others_against_base(table)
    for pair in pairs:
        suffix = f"-{file_name(pair[1])}" if len(pairs) > 1 else ""
        compared = tables.comparison_table(
            matrix, table, f"{name}-comparison{suffix}", *pair, called
        )
        found += [compared] if compared.rows else []
    return found


def states_note(matrix: MatrixResults) -> str:
    """How many of a matrix's runs are what."""
    counts = Counter(map(tables.state_of, matrix.runs))
    length = " or ".join(f"{each:g} s" for each in sorted({run.duration_s for run in matrix.runs}))
    length += f", over {' or '.join(dict.fromkeys(run.measured_words for run in matrix.runs))}"
    if len(matrix.runs) == 1:
        return f"1 run of {length}: {next(iter(counts))}."
    found = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return f"{len(matrix.runs)} runs of {length}: {found}."


def traps_note(matrix: MatrixResults) -> str:
    """What the lab warned of before the runs: of each kind one run's words, and how many."""
    counted = [run for run in matrix.runs if run.counts]
    warned: dict[str, list[str]] = {}
    for run in counted:
        for check in run.checks:
            if check.name.startswith("guard_") and check.reason:
                warned.setdefault(check.name, []).append(check.reason)
    return "".join(
        f" Warned of{in_cells(len(reasons), len(counted), 'runs')}: {reasons[0]}."
        for reasons in warned.values()
    )


def older_runs(runs: Sequence[RunFolder]) -> str:
    """The runs of a lab that meant something else by the same question, in a sentence."""
    epochs = [run.epoch for run in runs if run.epoch != EPOCH]
    if not epochs:
        return ""
    return (
        f"{len(epochs)} of {len(runs)} runs are of another lab: {changed_since(epochs)} since then"
        " (./lab run does them again)"
    )


def mixed_cells(matrices: Sequence[MatrixResults]) -> list[str]:
    """Cells of several kernels or programs: their spread is not chance alone."""
    said = []
    for cell in (cell for matrix in matrices for cell in matrix.cells):
        makers = {run.environment for run in cell.counted if run.environment is not None}
        made = {(each.kernel, each.hz, each.tunnel_sha256, each.iperf3) for each in makers}
        if len(made) > 1:
            said.append(
                f"{cell.matrix}: {cell.label}: {len(made)} different kernels or programs among its"
                f" {len(cell.counted)} runs"
            )
    return said
