"""What one student is asked in one lab: values drawn by a ticket, and the runs that follow.

A ticket is HMAC-SHA256(key, course, student, lab). With a course's secret as the key only the
teacher can make it; without one the key is public, and anybody can, which still gives everyone
numbers of their own. All else follows from the ticket: the values, and, with the predictions, the
seed of every random number of the runs. So predictions cannot be changed without other runs.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from gostlab.classroom.expressions import Value, filled
from gostlab.classroom.lab import CourseLab, formulas_of
from gostlab.safe_read import read_named
from gostlab.spec.expand import expand
from gostlab.spec.experiment import MAX_SEED, load_experiment
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

PUBLIC_KEY = b"gostlab's public key for courses without a secret"
MIN_SECRET_BYTES = 16
TICKET = re.compile(r"[0-9a-f]{32}")
# As a teacher hands it out: the lab, the digits, and four more that check all of it.
HANDED_OUT = re.compile(r"([a-z0-9-]+)-([0-9a-f]{32})-([0-9a-f]{4})")
STUDENT = re.compile(r"[A-Za-z0-9._@+-]{1,64}")
# So that nobody finds other predictions that lead to the same seed: 2^43 seeds, 20 ms each.
ROUNDS = 20_000


@dataclass(frozen=True)
class Assignment:
    """A lab as one student has it."""

    lab: CourseLab
    student: str
    course: str
    ticket: str
    values: Mapping[str, Value]  # drawn

    @property
    def sets(self) -> dict[str, str]:
        """The experiment's settings, as --set writes them."""
        return self.filled(self.lab.sets)

    def filled(self, sets: Mapping[str, str]) -> dict[str, str]:
        """Settings whose formulas have this student's values."""
        return {name: filled(text, self.values) for name, text in sets.items()}

    def seed(self, predictions: Mapping[str, str]) -> int:
        return seed_of(digest_of(predictions), self.ticket)

    def runs(self, seed: int) -> list[RunSpec]:
        """Every run of the lab's experiment. Raises BadInput."""
        return list(expanded(self.lab.experiment_path, tuple(self.sets.items()), seed))

    def own_runs(self, seed: int) -> list[RunSpec]:
        """What the student's own runs must be but for their names, if any. Raises BadInput."""
        if self.lab.own is None:
            return []
        path = self.lab.folder / self.lab.own.reference
        return list(expanded(path, tuple(self.filled(self.lab.own.sets).items()), seed))

    @property
    def told(self) -> dict[str, Value]:
        """The drawn values that the student is told."""
        return {name: value for name, value in self.values.items() if name not in self.lab.hidden}

    def to_json(self) -> dict[str, Any]:
        """assignment.json: for people and for `./lab lab`; the grader makes it anew."""
        return {
            "schema": 1,
            "lab": self.lab.name,
            "student": self.student,
            "course": self.course,
            "ticket": self.ticket,
            "values": self.told,
            **({"folder": str(self.lab.folder)} if self.lab.is_own else {}),
        }


@lru_cache(maxsize=256)
def seed_of(digest: str, ticket: str) -> int:
    """The seed that predictions and a ticket make, between 1 and MAX_SEED."""
    made = hashlib.pbkdf2_hmac("sha256", digest.encode(), ticket.encode(), ROUNDS, 8)
    return 1 + int.from_bytes(made) % MAX_SEED


@lru_cache(maxsize=256)
def expanded(path: Path, sets: tuple[tuple[str, str], ...], seed: int) -> tuple[RunSpec, ...]:
    """An experiment's runs, as the sandbox has them. Raises BadInput."""
    experiment = replace(load_experiment(str(path)), seed=seed)
    runs = expand(experiment, overrides=dict(sets), machine="sandbox", clock="virtual")
    if any(run.measures_a_part for run in runs):
        raise BadInput(f"{path}: measure, skip: a lab's runs are taken over their whole load")
    return tuple(runs)


def ticket_of(lab: CourseLab, student: str, course: str, secret: bytes | None) -> str:
    """32 hex digits. Raises BadInput for a name that is none."""
    check_student(student)
    key = PUBLIC_KEY if secret is None else secret
    words = json.dumps([course, student, lab.name]).encode()
    return hmac.new(key, words, hashlib.sha256).hexdigest()[:32]


def hand_out(lab: CourseLab, student: str, course: str, ticket: str) -> str:
    """A ticket as it is handed out: LAB-DIGITS-CHECK. The last four digits check the others, the
    student and the course, so that one who mistypes or leaves out either is told at once.
    """
    words = json.dumps([course, student, lab.name, ticket]).encode()
    return f"{lab.name}-{ticket}-{hashlib.sha256(words).hexdigest()[:4]}"


def read_ticket(lab: CourseLab, student: str, course: str, text: str) -> str:
    """The digits of a ticket that was handed out. Raises BadInput."""
    found = HANDED_OUT.fullmatch(text.strip().lower())
    if found is None:
        raise BadInput(
            f"--ticket {text!r:.80}: not a ticket (like {lab.name}-0123…-45ef: copy all of it)"
        )
    if found[1] != lab.name:
        raise BadInput(f"--ticket: of lab {found[1]}, not of {lab.name}")
    if found[0] != hand_out(lab, student, course, found[2]):
        raise BadInput(
            f"--ticket: mistyped, or not of student {student} in course {course}: copy ticket,"
            " --student and --course as your teacher gave them"
        )
    return found[2]


def check_student(student: str) -> None:
    """Raises BadInput."""
    if not STUDENT.fullmatch(student):
        raise BadInput(
            f"student {student!r:.80}: letters, digits and . _ @ + - only, 64 at most (an"
            " account's name, a number, an address)"
        )


def assign(lab: CourseLab, student: str, course: str, ticket: str) -> Assignment:
    """What a ticket draws. Raises BadInput."""
    check_student(student)
    if not TICKET.fullmatch(ticket):
        raise BadInput("a ticket has 32 digits of 0 to 9 and a to f: copy all of it")
    values = {
        name: choices[number(ticket, name) % len(choices)] for name, choices in lab.drawn.items()
    }
    assignment = Assignment(lab, student, course, ticket, values)
    with formulas_of(lab):
        assignment.filled({**lab.sets, **(lab.own.sets if lab.own else {})})
    return assignment


def assigned(lab: CourseLab, student: str, course: str, secret: bytes | None = None) -> Assignment:
    """What a course asks of a student. Raises BadInput."""
    return assign(lab, student, course, ticket_of(lab, student, course, secret))


def number(ticket: str, name: str) -> int:
    """A number between 0 and 2^64 that a ticket gives to a name."""
    return int.from_bytes(hmac.new(ticket.encode(), name.encode(), hashlib.sha256).digest()[:8])


def read_secret(path: Path | None) -> bytes | None:
    """A course's secret, its file without blanks around; None: it has none. Raises BadInput."""
    if path is None:
        return None
    try:
        secret = read_named(path).strip()
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    if len(secret) < MIN_SECRET_BYTES:
        raise BadInput(
            f"{path}: {len(secret)} bytes: a secret has at least {MIN_SECRET_BYTES}"
            " (./lab lab secret FILE makes one)"
        )
    return secret


def digest_of(predictions: Mapping[str, str]) -> str:
    """SHA-256 of predictions as they were written."""
    return hashlib.sha256(json.dumps(dict(predictions), sort_keys=True).encode()).hexdigest()
