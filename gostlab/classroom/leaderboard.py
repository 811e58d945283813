# SPDX-License-Identifier: MIT
"""Rank students' congestion controls over paths that the course's secret draws.

Every path is the same for all students, with the same values and the same seed, so that equal files
have equal scores. A score is the goodput of the poorer of two tunnels, as a percentage of half of
the link's rate.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from gostlab import api
from gostlab.classroom import gradebooks
from gostlab.classroom.expressions import Value, fill_formulas, format_value, payload_mbit
from gostlab.classroom.lab import CourseLab, RankingRules, formula_errors
from gostlab.classroom.raw_metrics import RawRecords, UnreadableRecord, steady_rates
from gostlab.classroom.student_assignment import PUBLIC_KEY, draw_number
from gostlab.results import BROKEN_RECORDS
from gostlab.results.run_result import RunResult
from gostlab.scheduler.progress import progress_on_stderr
from gostlab.spec.experiment import MAX_SEED
from gostlab.spec.yaml_source import BadInput

MAX_SOURCE_BYTES = 256 << 10
MAX_DRAWS = 1000  # maximum number of draws to find different paths


@dataclass(frozen=True)
class HiddenPath:
    number: int  # counted from 1
    values: Mapping[str, Value]
    sets: Mapping[str, str]
    seed: int

    @property
    def text(self) -> str:
        return ", ".join(f"{name} {format_value(value)}" for name, value in self.values.items())


@dataclass
class RankedEntry:
    """A congestion control to rank, with its scores."""

    student: str
    source: bytes = b""  # content of its file
    why_not: str = ""  # reason for having no rank
    scores: list[float] = field(default_factory=list)  # one score per path
    rank: int | None = None
    ties: tuple[str, ...] = ()  # students with the same rank
    is_reference: bool = False

    @property
    def level(self) -> str:
        """Return the control's name during the ranking.

        It is derived from the content, so that equal files are one control and share their runs.
        """
        if self.is_reference:
            return self.student
        return f"rank-{hashlib.sha256(self.source).hexdigest()[:9]}"

    @property
    def mean(self) -> float:
        """Return the mean score, rounded to a tenth as it is shown and compared."""
        return round(fmean(self.scores), 1)


def draw_paths(
    lab: CourseLab, rank: RankingRules, course: str, secret: bytes | None
) -> list[HiddenPath]:
    """Return the different paths of a course. Raises BadInput if the lists have too few."""
    key = PUBLIC_KEY if secret is None else secret
    paths: list[HiddenPath] = []
    for count in range(MAX_DRAWS):
        message = json.dumps([course, "path", count, lab.name]).encode()
        drawn = hmac.new(key, message, hashlib.sha256).hexdigest()
        values = {
            name: choices[draw_number(drawn, name) % len(choices)]
            for name, choices in rank.drawn.items()
        }
        if any(values == path.values for path in paths):
            continue
        with formula_errors(lab):
            sets = {name: fill_formulas(text, values) for name, text in rank.sets.items()}
        seed = 1 + draw_number(drawn, "seed") % MAX_SEED
        paths.append(HiddenPath(len(paths) + 1, values, sets, seed))
        if len(paths) == rank.paths:
            return paths
    raise BadInput(f"{lab.folder}: rank: draw: fewer than {rank.paths} different paths")


def read_source(file: Path) -> bytes:
    """Read a student's C file. Raises BadInput."""
    if file.is_symlink() or not file.is_file():
        raise BadInput(f"{file.name}: not there")
    with file.open("rb") as opened:
        source = opened.read(MAX_SOURCE_BYTES + 1)
    if len(source) > MAX_SOURCE_BYTES:
        raise BadInput(f"{file.name}: more than {MAX_SOURCE_BYTES >> 10} KiB")
    return source


def score(rates: Mapping[str, float], rate_mbit: float) -> float:
    """Return the poorer flow's rate as a percentage of half of the link's payload rate.

    `rates` has the rate of each flow, Mbit/s, over the time when both are active.
    """
    return min(100.0, 100 * min(rates.values()) / (payload_mbit(rate_mbit) / 2))


@contextmanager
def compiled_levels(
    entries: Sequence[RankedEntry], scratch: Path, say: Callable[[str], None]
) -> Iterator[dict[str, str]]:
    """Register every different file as a level of `cc` until the end of the block.

    Yields the error in one line by level, or "" if it compiles.
    """
    errors: dict[str, str] = {}
    with ExitStack() as held:
        for entry in entries:
            if entry.why_not or entry.level in errors:
                continue
            file = scratch / f"{entry.level}.c"
            file.write_bytes(entry.source)
            say(f"compiling the file of {entry.student}")
            try:
                held.enter_context(api.temporary_cc(file, entry.level))
                errors[entry.level] = ""
            except BadInput as error:
                errors[entry.level] = first_line(str(error).replace(str(file), "its file"))
        yield errors


def first_line(text: str) -> str:
    """Return the line with the compiler's first error, or the first line."""
    lines = [line for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), (lines or [""])[0]).strip()[:240]


def rank_all(
    lab: CourseLab,
    rank: RankingRules,
    entries: Sequence[RankedEntry],
    paths: Sequence[HiddenPath],
    out: Path,
    jobs: int | None,
    say: Callable[[str], None],
) -> list[RankedEntry]:
    """Return all entries, the best first, those without a rank last.

    Existing runs are not repeated. Raises BadInput, MissingPart, MachineError, ResultsError,
    OSError.
    """
    scratch = out / "sources"
    scratch.mkdir(parents=True, exist_ok=True)
    with compiled_levels(entries, scratch, say) as compiled:
        good = [level for level, why in compiled.items() if not why]
        ended = [run_on_path(path, lab, rank, [*rank.beside, *good], out, jobs) for path in paths]
    references = [RankedEntry(name, is_reference=True) for name in rank.beside]
    for entry in [*references, *entries]:
        entry.why_not = entry.why_not or compiled.get(entry.level, "")
        if not entry.why_not:
            score_entry(entry, [by_level[entry.level] for by_level in ended], paths)
    return sort_by_rank([*references, *entries])


def run_on_path(
    path: HiddenPath,
    lab: CourseLab,
    rank: RankingRules,
    ccs: Sequence[str],
    out: Path,
    jobs: int | None,
) -> dict[str, RunResult]:
    """Run every control on one path and return the finished runs by control."""
    sets = {**path.sets, f"{rank.flow}.cc": ",".join(ccs)}
    experiment = api.Experiment.from_file(
        lab.folder / rank.experiment, settings=sets, machine="sandbox", seed=path.seed
    )
    with progress_on_stderr(f"path {path.number}", quiet=False) as progress:
        folder = out / f"path-{path.number}"
        outcome = experiment.run(folder, jobs=jobs, progress=progress).wait()
    return {str(end.run.factors[f"{rank.flow}.cc"]): end for end in outcome.runs}


def score_entry(entry: RankedEntry, ends: Sequence[RunResult], paths: Sequence[HiddenPath]) -> None:
    """Set an entry's scores, or the reason for having none."""
    for end, path in zip(ends, paths, strict=True):
        try:
            if not end.counts:
                raise UnreadableRecord(end.error or f"its run is {end.verdict}")
            rates = steady_rates(RawRecords(end.folder, end.run))
            entry.scores.append(score(rates, (end.run.path.forward.rate_bps or 0) / 1e6))
        except BROKEN_RECORDS as error:
            entry.why_not = f"path {path.number}: {first_line(str(error))}"
            return


def sort_by_rank(entries: Sequence[RankedEntry]) -> list[RankedEntry]:
    """Sort entries by rank; equal scores share a rank, and the next rank is skipped."""
    running = [entry for entry in entries if not entry.why_not]
    rated = sorted(running, key=lambda entry: (-entry.mean, entry.student))
    students = [entry for entry in rated if not entry.is_reference]
    for entry in students:
        entry.rank = 1 + sum(other.mean > entry.mean for other in students)
        entry.ties = tuple(
            other.student for other in students if other is not entry and other.mean == entry.mean
        )
    return rated + [entry for entry in entries if entry.why_not]


def to_csv(entries: Sequence[RankedEntry], paths: Sequence[HiddenPath]) -> str:
    head = ["rank", "student", "score", *(f"path_{path.number}" for path in paths), "why_no_rank"]
    rows = []
    for entry in entries:
        if not entry.is_reference:
            scores = [f"{value:.1f}" for value in entry.scores] if not entry.why_not else []
            what = [f"{entry.mean:.1f}" if scores else "", *(scores or [""] * len(paths))]
            rows.append([entry.rank or "", entry.student, *what, entry.why_not])
    return gradebooks.to_csv_text(head, rows)


def tie_lines(entries: Sequence[RankedEntry]) -> list[str]:
    """Return a sentence for each shared rank, with whether the files are the same."""
    lines = []
    for rank in sorted({entry.rank for entry in entries if entry.rank and entry.ties}):
        equal = [entry for entry in entries if entry.rank == rank]
        same = len({entry.level for entry in equal}) == 1
        why = "their files are the same" if same else "their scores are, and their files differ"
        lines.append(
            f"rank {rank}: {' and '.join(entry.student for entry in equal)} are equal: {why}"
        )
    return lines
