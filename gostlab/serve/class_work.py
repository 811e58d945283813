# SPDX-License-Identifier: MIT
"""Let a class's students work on their labs, in the folders and files of `./lab lab`.

Every file is written whole or not at all, and where a student stands follows from the files: a
server that was killed goes on where it was. The grader reads what the page has handed in.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from gostlab import api
from gostlab.atomic_write import write_whole
from gostlab.classroom.answers import SEALED, TIME, Answers, read_answers, read_sealed, sheet_of
from gostlab.classroom.expressions import FormulaError, Value, evaluate, format_value
from gostlab.classroom.grading import (
    RESULTS,
    collect_values,
    fill_or_keep,
    find_runs,
    grade,
    score_answer,
    settings_key,
)
from gostlab.classroom.lab import ANSWERS, SECTIONS, CourseLab, Point
from gostlab.classroom.safe_extract import pack_hand_in, reject_unsafe_folder
from gostlab.classroom.student_assignment import Assignment
from gostlab.classroom.workspace import (
    create_coursework,
    find_unfinished,
    path_settings,
    seal_predictions,
    seed_of_predictions,
    setting_differences,
    settings_of,
)
from gostlab.errors import PACKAGE, BadInput, Complaint
from gostlab.results import is_settled
from gostlab.results.run_result import RunResult
from gostlab.scheduler.executor import RunObserver, read_result, run_folder
from gostlab.serve.class_file import ClassFile
from gostlab.serve.lab_guide import outermost_parts
from gostlab.serve.question_parser import refuse_leaf, scalar_leaves
from gostlab.serve.run_pool import RunPool
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import MAX_BYTES, Node, load_document, load_text

STUDENTS, HANDED_IN, GRADED = "students", "handed-in", "graded"
REQUESTED = ".runs-requested"  # hidden: `pack_hand_in` leaves it out
REPORT = Path("report", "report.html")
RECORDS = ("fidelity.json", "sockets.jsonl")  # files that the labs' pages name
REPORT_WITHIN_S = 300.0
GRADES_WITHIN_S = 900.0
LIMIT_SETTINGS = ("loss", "forward.loss", "reverse.loss", "buffers")
MAX_ANSWER = 4000  # characters
MAX_OWN_FILE = 30_000  # characters of a student's own file
STAGES = ("new", "predicting", "predicted", "running", "explaining", "handed in")


@dataclass(eq=False)
class LabWork:
    """Represent a student's work on a lab; its state is in the folder."""

    assignment: Assignment
    folder: Path
    archive: Path
    active: str = ""  # name of the run that goes on
    complaint: str = ""  # error of the last run or report
    lock: threading.RLock = field(default_factory=threading.RLock)
    _plans: tuple[object, list[api.Experiment]] | None = None  # with the state of its files
    _complaint: tuple[object, str | None] | None = None

    @property
    def lab(self) -> CourseLab:
        return self.assignment.lab

    @property
    def results(self) -> Path:
        return self.folder / RESULTS

    @property
    def has_begun(self) -> bool:
        return (self.folder / ANSWERS).is_file()  # `create_coursework` writes it last

    @property
    def is_sealed(self) -> bool:
        return (self.folder / SEALED).is_file()

    def answers(self) -> Answers:
        """Return the sheet, with the sealed predictions if there are any. Raises BadInput."""
        answers = read_answers(self.folder / ANSWERS, self.lab)
        if not self.is_sealed:
            return answers
        return replace(answers, predictions=read_sealed(self.folder / SEALED, self.lab).predictions)

    def write(self, section: str, key: str, text: str) -> None:
        """Write one answer into the sheet. Raises BadInput, OSError."""
        if section not in SECTIONS or key not in self.lab.keys(section):
            raise BadInput(f"{section:.40}.{key:.40}: not asked in {self.lab.title}")
        if len(text) > MAX_ANSWER or "\0" in text:
            raise BadInput(f"{section}.{key}: not a text of at most {MAX_ANSWER} characters")
        with self.lock:
            if section == "predictions" and self.is_sealed:
                raise BadInput(f"{section}.{key}: sealed already")
            answers = self.answers()
            predictions, others = dict(answers.predictions), dict(answers.answers)
            (predictions if section == "predictions" else others)[key] = text
            sheet = sheet_of(Answers(answers.student, predictions, others))
            write_whole(self.folder / ANSWERS, sheet, to_disk=True)

    @property
    def own_file(self) -> Path | None:
        """Return the path of the file that the lab wants of the student, if it wants one."""
        lab = self.lab
        name = lab.own.file if lab.own else lab.rank.file if lab.rank else None
        return None if name is None else self.folder / name

    def own_text(self) -> str:
        file = self.own_file
        return load_text(file, MAX_BYTES) if file and file.is_file() else ""

    def write_own(self, text: str) -> None:
        """Write the student's own file, whatever it says. Raises BadInput, OSError."""
        file = self.own_file
        if file is None:
            raise BadInput(f"{self.lab.title} wants no file")
        if len(text) > MAX_OWN_FILE or "\0" in text:
            raise BadInput(f"{file.name}: not a text of at most {MAX_OWN_FILE} characters")
        with self.lock:
            write_whole(file, text, to_disk=True)

    def own_complaint(self) -> str | None:
        """Return why the student's own experiment is not run as it is, or None."""
        if self.lab.own is None:
            return None
        if not self.own_text().strip():
            missing = (
                f"{self.lab.own.file}: nothing there yet: without it your own runs are missing"
            )
            return missing if self.is_sealed else None
        state = self.state
        if self._complaint is None or self._complaint[0] != state:
            self._complaint = state, self.find_own_complaint(self.lab.own.file)
        return self._complaint[1]

    @property
    def state(self) -> object:
        """Return what changes with the sealed predictions and the student's own file."""
        files = [self.folder / SEALED, *filter(None, [self.own_file])]
        return [file.stat().st_mtime_ns if file.is_file() else None for file in files]

    def find_own_complaint(self, name: str) -> str | None:
        try:
            seed = seed_of_predictions(self.folder, self.assignment) if self.is_sealed else 1
            plan = self.own_plan(seed)
        except Complaint as error:
            return str(error).replace(f"{self.folder}/", "")
        other = setting_differences(list(plan.runs), self.assignment, seed) if plan else []
        return f"{name}: not what is asked yet: {', '.join(other)}" if other else None

    def own_plan(self, seed: int) -> api.Experiment | None:
        """Return the student's own experiment; None without one.

        Only names of what is built in pass: a page reads no file and runs no program. Raises
        BadInput.
        """
        file = self.own_file
        if self.lab.own is None or file is None or not file.is_file():
            return None
        refuse_files_and_programs(load_document(file))
        return api.Experiment.from_file(file, machine="sandbox", seed=seed)

    def plans(self) -> list[api.Experiment]:
        """Return what is to be run: the lab's experiment, and the student's own.

        Of the student's own those runs count that the lab wants, so that a page cannot ask for
        others. Raises BadInput.
        """
        state = self.state
        if self._plans is None or self._plans[0] != state:
            self._plans = state, self.make_plans()
        return self._plans[1]

    def make_plans(self) -> list[api.Experiment]:
        seed = seed_of_predictions(self.folder, self.assignment)
        plan = api.Experiment.from_file(
            self.lab.experiment_path, settings=self.assignment.sets, machine="sandbox", seed=seed
        )
        own_plan = None
        with suppress(Complaint):  # `own_complaint` tells the student
            own_plan = self.own_plan(seed)
        if own_plan is None:
            return [plan]
        wanted = {settings_key(run.to_json()) for run in self.assignment.own_runs(seed)}
        fitting = tuple(run for run in own_plan.runs if settings_key(run.to_json()) in wanted)
        return [plan, replace(own_plan, runs=fitting, until={})]

    def runs(self) -> list[RunSpec]:
        """Return the runs that belong to the sealed predictions. Raises BadInput."""
        seed = seed_of_predictions(self.folder, self.assignment)
        own_plans = self.plans()[1:] if self.lab.own else ()
        return [*self.assignment.runs(seed), *(run for plan in own_plans for run in plan.runs)]

    def missing_runs(self, *, retry_failed: bool = False) -> list[RunSpec]:
        return [
            run
            for run in self.runs()
            if not is_settled(run_folder(run, self.results), run, retry_failed=retry_failed)
        ]

    def record(self, name: str, file: str) -> Path | None:
        """Return a file of one of the student's runs, or None without one. Raises BadInput."""
        if file not in RECORDS or not self.is_sealed:
            return None
        paths = [run_folder(run, self.results) / file for run in self.runs() if run.name == name]
        return next((path for path in paths if path.is_file()), None)

    @property
    def is_requested(self) -> bool:
        return (self.folder / REQUESTED).is_file()

    def stage(self) -> str:
        """Return how far the student is. Raises BadInput."""
        if not self.has_begun:
            return STAGES[0]
        if self.archive.is_file():
            return STAGES[5]
        if not self.is_sealed:
            return STAGES[1]
        if self.is_requested:
            return STAGES[3]
        return STAGES[2] if self.missing_runs() or self.own_complaint() else STAGES[4]


class ClassWork:
    """Hold the works of all students of a class, and execute their runs by turns."""

    def __init__(self, course: ClassFile, pool: RunPool) -> None:
        """Find what is there, and go on with the runs that were requested. Raises OSError."""
        self.course = course
        self._pool = pool
        self._lock = threading.Lock()
        self._works: dict[tuple[str, str], LabWork] = {}
        self._judged: dict[tuple[str, str], tuple[object, dict[str, Value]]] = {}
        self.seen: dict[str, tuple[float, str]] = {}  # student → time and lab
        (course.folder / STUDENTS).mkdir(parents=True, exist_ok=True)
        for work in self.all_works():
            if work.is_requested:
                self.enqueue(work)

    def all_works(self) -> Iterator[LabWork]:
        """Yield the works that have begun."""
        for pupil in self.course.roster.pupils:
            for lab in self.course.labs:
                work = self.work(pupil.primary_identifier, lab)
                if work.has_begun:
                    yield work

    def work(self, student: str, lab: CourseLab) -> LabWork:
        with self._lock:
            key = student, lab.name
            if key not in self._works:
                assignment = self.course.assignment(lab, student)
                folder = self.course.folder / STUDENTS / student / lab.name
                archive = self.course.folder / HANDED_IN / lab.name / f"{student}.zip"
                self._works[key] = LabWork(assignment, folder, archive)
            return self._works[key]

    def open(self, student: str, lab: CourseLab) -> LabWork:
        """Return a student's work, begun if it was not. Raises BadInput, OSError."""
        work = self.work(student, lab)
        self.seen[student] = time.time(), lab.name
        with work.lock:
            if not work.has_begun:
                create_coursework(work.assignment, work.folder)
        return work

    # -- runs

    def seal(self, work: LabWork) -> None:
        """Seal the predictions, once: what was sealed first counts. Raises BadInput, OSError."""
        with work.lock:
            if work.is_requested:
                raise BadInput("runs go on: they belong to the sealed predictions")
            seal_predictions(work.folder, work.assignment)

    def request_runs(self, work: LabWork) -> None:
        """Let the missing runs wait for their turns. Raises BadInput, OSError."""
        with work.lock:
            if not work.is_sealed:
                raise BadInput("the predictions come first: seal them")
            if work.is_requested:
                return
            write_whole(work.folder / REQUESTED, "")
            work.complaint = ""
        self.enqueue(work)

    def enqueue(self, work: LabWork) -> None:
        self._pool.queue.submit(work.assignment.student, self.execute_next, work, frozenset())

    def execute_next(self, work: LabWork, tried: frozenset[str]) -> None:
        """Execute the next run of a student, and let the others wait for their next turn.

        tried: the runs of this request so far; one that fails is tried once.
        """
        has_more = False
        try:
            missing = [run for run in work.missing_runs(retry_failed=True) if run.name not in tried]
            if missing:
                self.execute(work, missing[0])
                tried |= {missing[0].name}
            has_more = len(missing) > 1
            if not has_more:
                self.write_report(work)
        except (Complaint, OSError) as error:
            work.complaint = str(error)
        except Exception as error:
            work.complaint = f"the lab failed: {type(error).__name__}"
            raise
        finally:
            if has_more:
                student = work.assignment.student
                self._pool.queue.submit(student, self.execute_next, work, tried)
            else:
                (work.folder / REQUESTED).unlink(missing_ok=True)

    def execute(self, work: LabWork, run: RunSpec) -> None:
        """Execute one run of a lab. Raises Complaint, OSError."""
        named = run.experiment, run.name
        plan = next(
            plan
            for plan in work.plans()
            if any((planned.experiment, planned.name) == named for planned in plan.runs)
        )
        one = replace(plan, runs=(run,), until={})
        work.active = run.name
        try:
            watcher, machines = RunObserver(), self._pool.machines()
            running = one.run(work.results, jobs=1, progress=watcher, retry_failed=True, **machines)
            with running:
                running.wait()
        finally:
            work.active = ""

    def write_report(self, work: LabWork) -> None:
        """Write the page of tables and figures, in a process of its own. Raises BadInput."""
        if not any(work.results.glob("*/*/status.json")):
            return
        done = run_command(["lab", "report", str(work.folder)], REPORT_WITHIN_S)
        if done.returncode:
            raise BadInput(f"no report: {last_line(done.stderr)}")

    # -- what is handed in

    def hand_in(self, work: LabWork, *, as_it_is: bool) -> list[str]:
        """Pack a hand-in, and return what it lacks; it is packed if nothing is, or `as_it_is`.

        Raises BadInput, OSError.
        """
        with work.lock:
            if not work.is_sealed:
                raise BadInput("the predictions come first: seal them")
            if work.is_requested:
                raise BadInput("runs go on: hand in when they have ended")
            left = find_unfinished(work.folder, work.assignment)
            reject_unsafe_folder(work.folder)
            left += grade(work.assignment, work.folder).problems
            if as_it_is or not left:
                work.archive.parent.mkdir(parents=True, exist_ok=True)
                pack_hand_in(work.folder, work.archive)
            return left

    def grade_hand_ins(self, lab: CourseLab) -> tuple[str, list[str]]:
        """Grade all hand-ins of a lab by the grader; return what it printed, and its tables.

        Raises BadInput, OSError.
        """
        handed_in = self.course.folder / HANDED_IN / lab.name
        if not any(handed_in.glob("*.zip")):
            raise BadInput(f"{lab.title}: nobody has handed in")
        out = self.course.folder / GRADED / lab.name
        done = run_command(self.grade_words(lab), GRADES_WITHIN_S)
        if done.returncode not in (0, 1):
            raise BadInput(last_line(done.stderr))
        return done.stdout, sorted(path.name for path in out.glob("*.csv"))

    def grade_words(self, lab: CourseLab) -> list[str]:
        """Return the arguments of the grader's command."""
        course, here = self.course, self.course.folder
        return [
            *("grade", lab.command_word, str(here / HANDED_IN / lab.name)),
            *("--roster", str(course.roster_path), "--course", course.course),
            *("--secret", str(course.secret_path), "--out", str(here / GRADED / lab.name)),
        ]

    def grade_table(self, lab: CourseLab, name: str) -> Path | None:
        """Return a table of the grader by its name."""
        tables = {
            path.name: path for path in (self.course.folder / GRADED / lab.name).glob("*.csv")
        }
        return tables.get(name)

    # -- what students see

    def lab_json(self, work: LabWork) -> dict[str, object]:
        """Return all that a student's page of a lab shows. Raises BadInput, OSError."""
        lab, values = work.lab, work.assignment.visible_values
        answers = work.answers()
        return {
            "name": lab.name,
            "title": lab.title,
            "stage": work.stage(),
            "values": {name: format_value(value) for name, value in values.items()},
            "settings": settings_of(work.assignment),
            "path": knob_settings(work.assignment),
            "questions": [
                question_json(point, values, answers) for point in lab.points if point.answer
            ],
            "own": own_json(work),
            **self.progress_json(work),
        }

    def progress_json(self, work: LabWork) -> dict[str, object]:
        """Return what changes while a student's runs wait and go on. Raises BadInput."""
        runs = work.runs() if work.is_sealed else []
        sealed = read_sealed(work.folder / SEALED, work.lab) if work.is_sealed else None
        handed_s = work.archive.stat().st_mtime if work.archive.is_file() else None
        return {
            "stage": work.stage(),
            "sealed_at": sealed.at.strftime(TIME) if sealed else None,
            "runs": [run_json(run, work) for run in runs],
            "is_requested": work.is_requested,
            "has_report": (work.folder / REPORT).is_file(),
            "own_complaint": work.own_complaint(),
            "handed_in_s": handed_s,
            "complaint": work.complaint,
        }

    # -- what the teacher sees

    def class_json(self) -> dict[str, object]:
        """Return who is where."""
        now_s = time.time()
        rows = []
        for pupil in self.course.roster.pupils:
            seen_s, at = self.seen.get(pupil.primary_identifier, (0.0, ""))
            stages = {
                lab.name: self.stage_json(self.work(pupil.primary_identifier, lab))
                for lab in self.course.labs
            }
            rows.append(
                {
                    "student": pupil.primary_identifier,
                    "name": pupil.display_name,
                    "code": self.course.code(pupil.primary_identifier),
                    "seen_ago_s": round(now_s - seen_s) if seen_s else None,
                    "at": at,
                    "labs": stages,
                }
            )
        labs = [{"name": lab.name, "title": lab.title} for lab in self.course.labs]
        return {"course": self.course.course, "labs": labs, "students": rows}

    def stage_json(self, work: LabWork) -> dict[str, object]:
        try:
            runs = work.runs() if work.is_sealed else []
            left = len(work.missing_runs()) if runs else 0
            return {"stage": work.stage(), "done": len(runs) - left, "runs": len(runs)}
        except BadInput as error:
            return {"stage": "broken", "done": 0, "runs": 0, "complaint": str(error)}

    def predictions_json(self, lab: CourseLab) -> dict[str, object]:
        """Return every sealed prediction beside what was right for its student's path."""
        works = [work for work in self.all_works() if work.lab.name == lab.name and work.is_sealed]
        points = [point for point in lab.points if point.is_prediction and not point.by_hand]
        rows: dict[str, list[dict[str, object]]] = {point.name: [] for point in points}
        for work in works:
            try:
                sealed, names = read_sealed(work.folder / SEALED, lab), self.values_of(work)
            except BadInput:
                continue
            for point in points:
                text = sealed.predictions.get(point.answer[1], "") if point.answer else ""
                rows[point.name].append(judged_json(point, text, names))
        return {
            "title": lab.title,
            "students": len(works),
            "command": shlex.join(["./lab", *self.grade_words(lab)]),
            "points": [
                {
                    "name": point.name,
                    "says": fill_or_keep(point.says, {}),
                    "is_number": point.within is not None,
                    "band": point.within.text if point.within else "",
                    "given": rows[point.name],
                }
                for point in points
            ],
        }

    def values_of(self, work: LabWork) -> dict[str, Value]:
        """Return the drawn and measured values of a student, read once after each run."""
        key = work.assignment.student, work.lab.name
        state = tuple(sorted(path.stat().st_mtime for path in work.results.glob("*/*/status.json")))
        known = self._judged.get(key)
        if known is not None and known[0] == state:
            return known[1]
        runs = find_runs(work.assignment, read_sealed(work.folder / SEALED, work.lab), work.results)
        values, _ = collect_values(work.assignment, runs)
        self._judged[key] = state, values
        return values


def question_json(point: Point, values: Mapping[str, Value], answers: Answers) -> dict[str, object]:
    section, key = point.answer or ("", "")
    input_type = "text" if point.by_hand else "number" if point.within else "word"
    return {
        "section": section,
        "key": key,
        "says": fill_or_keep(point.says, values),
        "points": point.points,
        "kind": input_type,
        "text": answers.text(section, key),
    }


def knob_settings(assignment: Assignment) -> dict[str, str]:
    """Return what the page with knobs opens with: the path of the runs, of levels the first."""
    settings = settings_of(assignment)
    limits = {name: settings[name] for name in LIMIT_SETTINGS if name in settings}
    return path_settings(assignment) | {
        name: outermost_parts(text)[0] for name, text in limits.items()
    }


def refuse_files_and_programs(document: Node) -> None:
    """Reject an experiment that names a file or a command, wherever it stands. Raises BadInput."""
    for name, text in scalar_leaves(written_in(document)):
        refuse_leaf(name, text)


def written_in(node: Node) -> object:
    """Return what YAML says, with every scalar as its text."""
    if node.fields is not None:
        return {name: written_in(field) for name, field in node.fields.items()}
    if node.items is not None:
        return [written_in(item) for item in node.items]
    return node.text or ""


def own_json(work: LabWork) -> dict[str, object] | None:
    """Return the file that a lab wants of its student, if it wants one."""
    file = work.own_file
    if file is None:
        return None
    return {"file": file.name, "text": work.own_text(), "is_run": work.lab.own is not None}


def format_level(level: object) -> str:
    """Return a level as an experiment's file has it, without brackets around a single item."""
    if isinstance(level, Mapping):
        return f"{{{', '.join(f'{key}: {format_level(part)}' for key, part in level.items())}}}"
    if isinstance(level, list | tuple):
        items = ", ".join(map(format_level, level))
        return items if len(level) == 1 else f"[{items}]"
    return str(level)


def run_json(run: RunSpec, work: LabWork) -> dict[str, object]:
    levels = {name: format_level(level) for name, level in run.factors.items()}
    row: dict[str, object] = {
        "name": run.name,
        "matrix": run.matrix,
        "levels": levels,
        "records": [],
    }
    if not is_settled(run_folder(run, work.results), run, retry_failed=False):
        return {**row, "state": "running" if run.name == work.active else "waiting"}
    end: RunResult = read_result(run, work.results)
    goodput_mbit = None if end.goodput_mbit is None else float(f"{end.goodput_mbit:.3g}")
    folder = run_folder(run, work.results)
    return {
        **row,
        "state": end.verdict or end.outcome or "failed",
        "goodput_mbit": goodput_mbit,
        "records": [file for file in RECORDS if (folder / file).is_file()],
    }


def judged_json(point: Point, text: str, names: Mapping[str, Value]) -> dict[str, object]:
    """Return a prediction, and what was right if that is known by now."""
    try:
        right = evaluate(point.expect or "", names)
        why = score_answer(point, text, names)[-1]
    except FormulaError:
        return {"predicted": text, "right": None, "is_near": None}
    right_value = right if isinstance(right, str) else float(f"{float(right):.4g}")
    return {"predicted": text, "right": right_value, "is_near": not why}


def run_command(words: list[str], within_s: float) -> subprocess.CompletedProcess[str]:
    """Execute a command of the lab. Raises BadInput if it takes too long."""
    try:
        return subprocess.run(
            [sys.executable, "-P", "-m", "gostlab", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=within_s,
            env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        )
    except subprocess.TimeoutExpired:
        raise BadInput(f"{words[0]}: took longer than {within_s:g} s") from None


def last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "no reason was given"
