# SPDX-License-Identifier: MIT
"""A roster as people write it and as platforms export it, and what none is."""

from pathlib import Path

import pytest

from gostlab.classroom.roster import Roster, read_roster
from tests.asked import refusal


def roster(folder: Path, text: str, encoding: str = "utf-8") -> Roster:
    file = folder / "roster.csv"
    file.write_text(text, encoding)
    return read_roster(file)


@pytest.mark.parametrize(
    "text",
    [
        "alice\nbob\n",
        "\ufeffalice,Alice Smith,alice@x.org\nbob\n",
        "student,name\nalice,Alice Smith\nbob,\n",
        "Student;Email\r\nalice;alice@x.org\r\n\r\nbob;bob@x.org\r\n",
        # Moodle's participants
        'First name,Last name,Username,Email address\nAlice,"Smith",alice,a@x.org\nBob,B,bob,b@x.org\n',
        # Canvas' gradebook
        "Student,ID,SIS User ID,SIS Login ID,Section,Lab 1 (12)\n    Points Possible,,,,,10\n"
        '"Smith, Alice",11,S1,alice,A,\n"B, Bob",12,S2,bob,A,\n',
    ],
)
def test_students_are_read_with_a_header_and_without(tmp_path: Path, text: str) -> None:
    found = roster(tmp_path, text)
    names = [pupil.primary_identifier for pupil in found.pupils]
    assert names == ["alice", "bob"]
    alice = found.find_by_identifier("ALICE")
    assert alice is not None and alice is found.pupils[0]
    assert found.find_by_identifier("") is None and found.find_by_identifier("carol") is None


def test_a_name_is_known_however_a_platform_writes_it(tmp_path: Path) -> None:
    found = roster(
        tmp_path, "student,first name,last name\na,Alice,de Smith\nb,Bob,Ott\nc,Bob,Ott\n"
    )
    for name in ("Alice de Smith", "desmithalice", "de Smith, Alice"):
        pupil = found.find_by_name(name)
        assert pupil is not None and pupil.primary_identifier == "a", name
    assert found.find_by_name("Bob Ott") is None  # there are two


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("alice\nb\xe9a\n", "UTF-8"),
        ("", "empty"),
        ("\n\n", "empty"),
        ("name,section\nAlice,1\n", "no column"),
        ("student,name\n", "no student"),
        ("alice\nbob\nAlice\n", ":3: Alice is there already (line 1)"),
        ("student,email\nalice,a@x.org\nbob,a@x.org\n", "line 2"),
        ("alice\nb ob\n", ":2: student 'b ob'"),
    ],
)
def test_what_is_no_roster_is_refused_in_a_line(tmp_path: Path, text: str, says: str) -> None:
    assert says in refusal(lambda: roster(tmp_path, text, "latin-1"))
    assert "No such file" in refusal(lambda: read_roster(tmp_path / "none.csv"))


def test_a_roster_of_addresses_knows_who_began_by_the_part_before_the_at(tmp_path: Path) -> None:
    file = tmp_path / "roster.csv"
    file.write_text("name,email\nAda Lovelace,Ada@x.org\nAlan T,alan@x.org\nAlan U,alan@y.org\n")
    roster = read_roster(file)
    assert (roster.find_by_identifier("ada") or roster.pupils[1]).name == "Ada Lovelace"
    assert roster.find_by_identifier("alan") is None  # two have it
    assert (roster.find_by_identifier("alan@y.org") or roster.pupils[0]).name == "Alan U"
