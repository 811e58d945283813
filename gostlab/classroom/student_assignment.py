# SPDX-License-Identifier: MIT
"""Draw the values of one student in one lab from a ticket, and compile the runs that follow.

A ticket is HMAC-SHA256(key, course, student, lab). If the key is the course's secret, only the
teacher can make tickets. Without a secret the key is public and anybody can make them, but each
student still gets different numbers. Everything else follows from the ticket: the values and,
together with the predictions, the seed of all random number generators of the runs. A student can
therefore not change their predictions without making new runs.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from gostlab.classroom.expressions import Value, fill_formulas
from gostlab.classroom.lab import CourseLab, formula_errors
from gostlab.registry.tunnels import GOST, tunnel_kind
from gostlab.safe_read import read_named
from gostlab.spec.expand import expand
from gostlab.spec.experiment import MAX_SEED, load_experiment
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

PUBLIC_COURSE = "public"
PUBLIC_KEY = b"gostlab's public key for courses without a secret"
MIN_SECRET_BYTES = 16
AUTO = "auto"  # the setting gost: whichever program the machine has
TICKET = re.compile(r"[0-9a-f]{32}")
# A ticket as the teacher hands it out has the lab, 32 hex digits, and 4 hex digits of a checksum.
HANDED_OUT = re.compile(r"([a-z0-9-]+)-([0-9a-f]{32})-([0-9a-f]{4})")
STUDENT = re.compile(r"[A-Za-z0-9._@+-]{1,64}")
# Key stretching (20 ms per guess, 2^43 seeds) prevents a search for predictions with the same seed.
ROUNDS = 20_000


@dataclass(frozen=True)
class Assignment:
    """A lab with the values of one student."""

    lab: CourseLab
    student: str
    course: str
    ticket: str
    values: Mapping[str, Value]  # drawn for this student

    @property
    def sets(self) -> dict[str, str]:
        """Return the settings of the experiment, in the syntax of --set."""
        return self.fill_settings(self.lab.sets)

    def fill_settings(self, sets: Mapping[str, str]) -> dict[str, str]:
        """Return settings with their formulas replaced by this student's values."""
        return {name: fill_formulas(text, self.values) for name, text in sets.items()}

    def seed(self, predictions: Mapping[str, str]) -> int:
        return seed_from_predictions(predictions_digest(predictions), self.ticket)

    def receipt(self, predictions: Mapping[str, str]) -> str:
        """Return eight hex digits that show later which predictions were sealed first."""
        digest = hmac.new(
            self.ticket.encode(), predictions_digest(predictions).encode(), hashlib.sha256
        )
        return f"{digest.hexdigest()[:4]}-{digest.hexdigest()[4:8]}"

    def runs(self, seed: int) -> list[RunSpec]:
        """Return every run of the lab's experiment. Raises BadInput."""
        return list(expand_runs(self.lab.experiment_path, tuple(self.sets.items()), seed))

    def own_runs(self, seed: int) -> list[RunSpec]:
        """Return the runs that the student's own experiment must have, except for their names.

        Raises BadInput.
        """
        if self.lab.own is None:
            return []
        path = self.lab.folder / self.lab.own.reference
        return list(expand_runs(path, tuple(self.fill_settings(self.lab.own.sets).items()), seed))

    @property
    def visible_values(self) -> dict[str, Value]:
        """Return the drawn values that the student may know."""
        return {name: value for name, value in self.values.items() if name not in self.lab.hidden}

    def to_json(self) -> dict[str, object]:
        """Return the content of assignment.json, which informs people and `./lab lab`.

        The grader does not trust the file and computes the assignment again.
        """
        return {
            "schema": 1,
            "lab": self.lab.name,
            "student": self.student,
            "course": self.course,
            "ticket": self.ticket,
            "values": self.visible_values,
            **({"folder": str(self.lab.folder)} if self.lab.is_own else {}),
        }


@lru_cache(maxsize=256)
def seed_from_predictions(digest: str, ticket: str) -> int:
    """Return the seed between 1 and MAX_SEED that follows from predictions and a ticket."""
    derived = hashlib.pbkdf2_hmac("sha256", digest.encode(), ticket.encode(), ROUNDS, 8)
    return 1 + int.from_bytes(derived) % MAX_SEED


@lru_cache(maxsize=256)
def expand_runs(path: Path, sets: tuple[tuple[str, str], ...], seed: int) -> tuple[RunSpec, ...]:
    """Return the runs of an experiment in the sandbox. Raises BadInput."""
    experiment = replace(load_experiment(str(path)), seed=seed)
    runs = expand(experiment, overrides=dict(sets), machine="sandbox", clock="virtual")
    if any(run.measures_part for run in runs):
        raise BadInput(f"{path}: measure, skip: a lab's runs are taken over their whole load")
    if any(run.gost_program == AUTO and tunnel_kind(run.tunnel).program == GOST for run in runs):
        raise BadInput(
            f"{path}: gost: {AUTO}: students with a GOST and without would run other programs:"
            " write relay+… or gost: relay (the lab's own), or a version"
        )
    return tuple(runs)


def ticket_of(lab: CourseLab, student: str, course: str, secret: bytes | None) -> str:
    """Return a ticket as 32 hex digits. Raises BadInput for an invalid student name."""
    check_student_name(student)
    key = PUBLIC_KEY if secret is None else secret
    message = json.dumps([course, student, lab.name]).encode()
    return hmac.new(key, message, hashlib.sha256).hexdigest()[:32]


def format_ticket(lab: CourseLab, student: str, course: str, ticket: str) -> str:
    """Return a ticket in the form LAB-DIGITS-CHECK in which the teacher hands it out.

    The last four digits are a checksum of the others, the student and the course: a typing error in
    any of them is reported at once.
    """
    message = json.dumps([course, student, lab.name, ticket]).encode()
    return f"{lab.name}-{ticket}-{hashlib.sha256(message).hexdigest()[:4]}"


def read_ticket(lab: CourseLab, student: str, course: str, text: str) -> str:
    """Return the digits of a ticket that was handed out. Raises BadInput."""
    match = HANDED_OUT.fullmatch(text.strip().lower())
    if match is None:
        raise BadInput(
            f"--ticket {text!r:.80}: not a ticket (like {lab.name}-0123…-45ef: copy all of it)"
        )
    if match[1] != lab.name:
        raise BadInput(f"--ticket: of lab {match[1]}, not of {lab.name}")
    if match[0] != format_ticket(lab, student, course, match[2]):
        raise BadInput(
            f"--ticket: mistyped, or not of student {student} in course {course}: copy ticket,"
            " --student and --course as your teacher gave them"
        )
    return match[2]


def check_student_name(student: str) -> None:
    """Reject a student name with characters that a lab does not allow. Raises BadInput."""
    if not STUDENT.fullmatch(student):
        raise BadInput(
            f"student {student!r:.80}: letters, digits and . _ @ + - only, 64 at most (an"
            " account's name, a number, an address)"
        )


def assignment_from_ticket(lab: CourseLab, student: str, course: str, ticket: str) -> Assignment:
    """Return the assignment that a ticket draws. Raises BadInput."""
    check_student_name(student)
    if not TICKET.fullmatch(ticket):
        raise BadInput("a ticket has 32 digits of 0 to 9 and a to f: copy all of it")
    values = {
        name: choices[draw_number(ticket, name) % len(choices)]
        for name, choices in lab.drawn.items()
    }
    assignment = Assignment(lab, student, course, ticket, values)
    with formula_errors(lab):
        assignment.fill_settings({**lab.sets, **(lab.own.sets if lab.own else {})})
    return assignment


def assignment_in_course(
    lab: CourseLab, student: str, course: str, secret: bytes | None = None
) -> Assignment:
    """Return the assignment of a student in a course. Raises BadInput."""
    return assignment_from_ticket(lab, student, course, ticket_of(lab, student, course, secret))


def draw_number(ticket: str, name: str) -> int:
    """Return the number between 0 and 2^64 that a ticket and a name determine."""
    return int.from_bytes(hmac.new(ticket.encode(), name.encode(), hashlib.sha256).digest()[:8])


def read_secret(path: Path | None) -> bytes | None:
    """Return a course's secret from its file, or None without a path. Raises BadInput."""
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


def predictions_digest(predictions: Mapping[str, str]) -> str:
    """Return the SHA-256 digest of predictions as they were written."""
    return hashlib.sha256(json.dumps(dict(predictions), sort_keys=True).encode()).hexdigest()
