"""Students' congestion controls, ranked over paths that the course's secret draws.

Every path is the same for everybody, to the bit: same numbers, same seed, so that equal files have
equal scores. A score is what the poorer of two tunnels got, as a percentage of half of the link.
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
from gostlab.classroom.assignment import PUBLIC_KEY, number
from gostlab.classroom.expressions import Value, filled, payload_mbit, shown
from gostlab.classroom.lab import CourseLab, Rank, formulas_of
from gostlab.classroom.raw_metrics import Records, UnreadableRecord, steady_rates
from gostlab.results import BROKEN_RECORDS
from gostlab.scheduler.progress import progress_on_stderr
from gostlab.scheduler.queue import Finished
from gostlab.spec.experiment import MAX_SEED
from gostlab.spec.yaml_source import BadInput

MAX_SOURCE_BYTES = 256 << 10
TRIED = 1000  # draws, to find paths that differ


@dataclass(frozen=True)
class HiddenPath:
    number: int  # from 1
    values: Mapping[str, Value]
    sets: Mapping[str, str]
    seed: int

    @property
    def words(self) -> str:
        return ", ".join(f"{name} {shown(value)}" for name, value in self.values.items())


@dataclass
class Entry:
    """A congestion control to rank, and what became of it."""

    student: str
    source: bytes = b""  # of its file
    why_not: str = ""  # why it has no rank
    scores: list[float] = field(default_factory=list)  # of each path
    rank: int | None = None
    ties: tuple[str, ...] = ()  # who has the same rank
    is_reference: bool = False

    @property
    def level(self) -> str:
        """What it is called as long as it is ranked: by its content, so that equal files are one
        control, whose runs are the same runs.
        """
        if self.is_reference:
            return self.student
        return f"rank-{hashlib.sha256(self.source).hexdigest()[:9]}"

    @property
    def mean(self) -> float:
        """Its score, to a tenth, as it is shown and compared."""
        return round(fmean(self.scores), 1)


def paths_of(lab: CourseLab, rank: Rank, course: str, secret: bytes | None) -> list[HiddenPath]:
    """The paths of a course, all different. Raises BadInput where the lists have too few."""
    key = PUBLIC_KEY if secret is None else secret
    found: list[HiddenPath] = []
    for count in range(TRIED):
        words = json.dumps([course, "path", count, lab.name]).encode()
        drawn = hmac.new(key, words, hashlib.sha256).hexdigest()
        values = {
            name: levels[number(drawn, name) % len(levels)] for name, levels in rank.drawn.items()
        }
        if any(values == path.values for path in found):
            continue
        with formulas_of(lab):
            sets = {name: filled(text, values) for name, text in rank.sets.items()}
        seed = 1 + number(drawn, "seed") % MAX_SEED
        found.append(HiddenPath(len(found) + 1, values, sets, seed))
        if len(found) == rank.paths:
            return found
    raise BadInput(f"{lab.folder}: rank: draw: fewer than {rank.paths} different paths")


def read_source(file: Path) -> bytes:
    """A student's C file. Raises BadInput."""
    if file.is_symlink() or not file.is_file():
        raise BadInput(f"{file.name}: not there")
    with file.open("rb") as opened:
        source = opened.read(MAX_SOURCE_BYTES + 1)
    if len(source) > MAX_SOURCE_BYTES:
        raise BadInput(f"{file.name}: more than {MAX_SOURCE_BYTES >> 10} KiB")
    return source


def score(rates: Mapping[str, float], rate_mbit: float) -> float:
    """What the poorer of two got, as a percentage of half of the link's payload.

    rates: each flow's, Mbit/s, over the time when both are there.
    """
    return min(100.0, 100 * min(rates.values()) / (payload_mbit(rate_mbit) / 2))


@contextmanager
def levels(
    entries: Sequence[Entry], scratch: Path, say: Callable[[str], None]
) -> Iterator[dict[str, str]]:
    """Every different file as a level of `cc` until the end of the block: by level "", or why it
    cannot be one, in a line.
    """
    found: dict[str, str] = {}
    with ExitStack() as held:
        for entry in entries:
            if entry.why_not or entry.level in found:
                continue
            file = scratch / f"{entry.level}.c"
            file.write_bytes(entry.source)
            say(f"compiling the file of {entry.student}")
            try:
                held.enter_context(api.borrowed_cc(file, entry.level))
                found[entry.level] = ""
            except BadInput as error:
                found[entry.level] = first_line(str(error).replace(str(file), "its file"))
        yield found


def first_line(text: str) -> str:
    """The line that says what is wrong: the compiler's first error, if there is one."""
    lines = [line for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), (lines or [""])[0]).strip()[:240]


def rank_all(
    lab: CourseLab,
    rank: Rank,
    entries: Sequence[Entry],
    paths: Sequence[HiddenPath],
    out: Path,
    jobs: int | None,
    say: Callable[[str], None],
) -> list[Entry]:
    """Everybody, the best first, those without a rank last. Runs that are there are not
    made again. Raises BadInput, MissingPart, MachineError, ResultsError, OSError.
    """
    scratch = out / "sources"
    scratch.mkdir(parents=True, exist_ok=True)
    with levels(entries, scratch, say) as compiled:
        good = [level for level, why in compiled.items() if not why]
        ended = [ends_on(path, lab, rank, [*rank.beside, *good], out, jobs) for path in paths]
    found = [Entry(name, is_reference=True) for name in rank.beside]
    for each in [*found, *entries]:
        each.why_not = each.why_not or compiled.get(each.level, "")
        if not each.why_not:
            judge(each, [by_level[each.level] for by_level in ended], paths)
    return ranked([*found, *entries])


def ends_on(
    path: HiddenPath, lab: CourseLab, rank: Rank, ccs: Sequence[str], out: Path, jobs: int | None
) -> dict[str, Finished]:
    """Every control's run on one path."""
    sets = {**path.sets, f"{rank.flow}.cc": ",".join(ccs)}
    experiment = api.Experiment.from_file(
        lab.folder / rank.experiment, settings=sets, machine="sandbox", seed=path.seed
    )
    with progress_on_stderr(f"path {path.number}", quiet=False) as progress:
        place = out / f"path-{path.number}"
        outcome = experiment.run(place, jobs=jobs, progress=progress).wait()
    return {str(end.run.factors[f"{rank.flow}.cc"]): end for end in outcome.ends}


def judge(entry: Entry, ends: Sequence[Finished], paths: Sequence[HiddenPath]) -> None:
    """An entry's scores, or why it has none."""
    for end, path in zip(ends, paths, strict=True):
        try:
            if not end.counts:
                raise UnreadableRecord(
                    (end.status or {}).get("error") or f"its run is {end.verdict}"
                )
            rates = steady_rates(Records(end.folder, end.run))
            entry.scores.append(score(rates, end.run.path["forward"]["rate_bps"] / 1e6))
        except BROKEN_RECORDS as error:
            entry.why_not = f"path {path.number}: {first_line(str(error))}"
            return


def ranked(found: Sequence[Entry]) -> list[Entry]:
    """The best first; equal scores have one rank, and the next is as many further."""
    running = [each for each in found if not each.why_not]
    rated = sorted(running, key=lambda each: (-each.mean, each.student))
    students = [each for each in rated if not each.is_reference]
    for each in students:
        each.rank = 1 + sum(other.mean > each.mean for other in students)
        each.ties = tuple(
            other.student for other in students if other is not each and other.mean == each.mean
        )
    return rated + [each for each in found if each.why_not]


def to_csv(found: Sequence[Entry], paths: Sequence[HiddenPath]) -> str:
    head = ["rank", "student", "score", *(f"path_{each.number}" for each in paths), "why_no_rank"]
    rows = []
    for each in found:
        if not each.is_reference:
            scores = [f"{value:.1f}" for value in each.scores] if not each.why_not else []
            what = [f"{each.mean:.1f}" if scores else "", *(scores or [""] * len(paths))]
            rows.append([each.rank or "", each.student, *what, each.why_not])
    return gradebooks.table(head, rows)


def tie_lines(found: Sequence[Entry]) -> list[str]:
    """Who shares a rank with whom, once each, and whether their files are the same."""
    lines = []
    for rank in sorted({each.rank for each in found if each.rank and each.ties}):
        equal = [each for each in found if each.rank == rank]
        same = len({each.level for each in equal}) == 1
        why = "their files are the same" if same else "their scores are, and their files differ"
        lines.append(
            f"rank {rank}: {' and '.join(each.student for each in equal)} are equal: {why}"
        )
    return lines
