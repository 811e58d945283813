# SPDX-License-Identifier: MIT
"""A whole class graded at once: who has what, who is missing, what is done again, what resembles
what, and what a command that is wrong is told.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gostlab.classroom import batch_grading, safe_extract
from gostlab.classroom.answers import read_answers
from gostlab.classroom.batch_grading import CACHE_FOLDER
from gostlab.classroom.expressions import fill_formulas, format_rounded
from gostlab.classroom.lab import CourseLab, list_labs, load_lab
from gostlab.classroom.student_assignment import (
    assignment_from_ticket,
    assignment_in_course,
    ticket_of,
)
from gostlab.cli.main import main
from tests.classroom.handins import asked_of, make_hand_in, rewrite, shortened, zipped
from tests.lab_command import Refused, Typed

if TYPE_CHECKING:
    from tests.analysis.browser import Browser

ROSTER = """student,name,email
alice,Alice Smith,alice@x.org
bob,Bob Ott,bob@x.org
carol,Carol Uhl,carol@x.org
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> CourseLab:
    return shortened(tmp_path_factory.mktemp("labs") / "0-warm-up")


@pytest.fixture(autouse=True)
def roster(tmp_path: Path) -> Path:
    """Alice, Bob and Carol."""
    (tmp_path / "roster.csv").write_text(ROSTER, encoding="utf-8")
    return tmp_path / "roster.csv"


@pytest.fixture
def everybody(lab: CourseLab, tmp_path: Path) -> Path:
    """Alice's and Bob's, of whom Bob has an answer wrong."""
    folder = tmp_path / "all"
    make_hand_in(folder / "alice", asked_of(lab))
    make_hand_in(folder / "bob", asked_of(lab, "bob"), {"read-goodput": "1.0"})
    return folder


@pytest.fixture
def grade(lab: CourseLab, typed: Typed) -> Typed:
    """`./lab grade LAB DOWNLOAD --roster …`, into a folder beside it."""
    return lambda download, *words: typed(*words_for(lab, download, *words))


def upload_of(folder: Path, beside: Path) -> bytes:
    """A hand-in as a zip's bytes."""
    safe_extract.pack_hand_in(folder, beside / "one.zip")
    return (beside / "one.zip").read_bytes()


def words_for(lab: CourseLab, download: Path, *words: object, jobs: int = 1) -> list[str]:
    beside = download.parent
    options = ["--roster", beside / "roster.csv", "--out", beside / "out", "--jobs", jobs]
    return ["grade", *map(str, [lab.folder, download, *options, *words])]


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def points(out: Path) -> dict[str, str]:
    return {row["student"]: row["points"] for row in rows(out / "grades.csv")}


def test_a_class_has_a_table_a_page_each_and_its_gradebooks(
    lab: CourseLab, everybody: Path, grade: Typed
) -> None:
    out = everybody.parent / "out"
    make_hand_in(everybody / "dora", asked_of(lab, "dora"))  # is not on the roster
    done = grade(everybody)
    told = done.stdout
    assert done.returncode == 0
    to_mark = lab.points_with_texts - lab.most
    assert re.search(rf"dora\s+{lab.most}\s+{to_mark}\s+not on the roster", told)
    assert re.search(rf"alice\s+Alice Smith\s+{lab.most}\s+{to_mark}\b", told)
    assert re.search(r"carol\s+Carol Uhl\s+–\s+missing", told)
    assert "3 graded, 1 missing" in told
    most = str(lab.most)
    assert points(out) == {"alice": most, "bob": str(lab.most - 1), "carol": "", "dora": most}
    assert {path.stem for path in (out / "feedback").iterdir()} == {"alice", "bob", "dora"}
    page = (out / "index.html").read_text("utf-8")
    assert 'href="feedback/bob.html"' in page and "Carol Uhl" in page
    assert 'href="marking.html"' in page
    # Moodle: mapped by the address, grade and feedback side by side
    moodle = {row["Email address"]: row for row in rows(out / "moodle.csv")}
    assert len(moodle) == 3
    assert moodle["alice@x.org"][lab.title] == most
    feedback = f"{lab.title} (feedback)"
    assert moodle["carol@x.org"][lab.title] == moodle["carol@x.org"][feedback] == ""
    assert "you said 1" in moodle["bob@x.org"][feedback]
    # Canvas: its five columns, and a row of points possible before the students
    canvas = rows(out / "canvas.csv")
    assert list(canvas[0])[:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assert canvas[0]["Student"].strip() == "Points Possible"
    assert canvas[0][lab.title] == str(lab.points_with_texts)
    assert [row["SIS Login ID"] for row in canvas[1:]] == ["alice", "bob", "carol"]
    # Gradescope: as its own Download Grades
    by_address = {row["Email"]: row for row in rows(out / "gradescope.csv")}
    assert by_address["bob@x.org"]["Total Score"] == str(lab.most - 1)
    assert by_address["carol@x.org"]["Status"] == "Missing"


def test_feedback_is_in_words_with_the_number_and_why_and_no_formula(
    everybody: Path, grade: Typed
) -> None:
    grade(everybody)
    page = (everybody.parent / "out/feedback/bob.html").read_text("utf-8")
    assert re.search(r"You said 1; [\d.]+ \(± 1 %\) was wanted, because the receiver counted", page)
    for each in list_labs():
        for point in load_lab(str(each)).points:
            for formula in (point.expect, point.got):
                if formula and len(formula) > 12 and any(sign in formula for sign in "*/(_"):
                    assert formula not in page


@pytest.mark.parametrize("each", list_labs(), ids=lambda each: each.name)
def test_every_point_of_every_lab_says_why(each: Path) -> None:
    found = load_lab(str(each))
    names = {**asked_of(found).values, **dict.fromkeys(found.measured, 2.5)}
    for point in (each for each in found.points if not each.by_hand):
        said = fill_formulas(point.because, names, format_rounded)
        assert len(said) > 15 and "<" not in said and not said.endswith("."), point.name


@pytest.mark.slow
def test_what_was_graded_is_not_graded_again_and_what_changed_is(
    lab: CourseLab, everybody: Path, grade: Typed
) -> None:
    grade(everybody)
    kept = {
        path: path.stat().st_mtime_ns
        for path in (everybody.parent / "out" / CACHE_FOLDER).iterdir()
    }
    assert "2 already graded" in grade(everybody).stdout
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    rewrite(everybody / "bob/answers.yaml", "^  sawtooth_of: .*$", '  sawtooth_of: "rate"')
    assert "1 already graded" in grade(everybody).stdout
    assert points(everybody.parent / "out")["bob"] == str(lab.most - 2)
    # another course is another grade
    assert "graded before" not in grade(everybody, "--course", "other").stdout


@pytest.mark.slow
def test_an_interruption_keeps_what_was_finished(
    lab: CourseLab, tmp_path: Path, grade: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C, which comes once the first hand-in is graded."""
    names = [f"s{number}" for number in range(8)]
    for name in names:
        make_hand_in(tmp_path / "all" / name, asked_of(lab, name))
    (tmp_path / "roster.csv").write_text("\n".join(names) + "\n")

    def interrupted(running: Iterator[object], *_: object, **__: object) -> Iterator[object]:
        yield next(running)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr("rich.progress.track", interrupted)
        stopped = grade(tmp_path / "all")
    assert stopped.returncode == 130 and "interrupted" in stopped.stderr
    for grader in multiprocessing.active_children():  # they end with what they had begun
        grader.join()
    before = len(list((tmp_path / "out" / CACHE_FOLDER).glob("*.json")))
    assert before >= 1

    done = grade(tmp_path / "all")
    assert done.returncode == 0, done.stderr
    found = re.search(r"\((\d+) already graded\)", done.stdout)
    assert found is not None and int(found[1]) >= before
    assert set(points(tmp_path / "out")) == set(names)


def test_of_two_hand_ins_the_last_counts_and_it_is_said(
    lab: CourseLab, tmp_path: Path, grade: Typed
) -> None:
    first = make_hand_in(tmp_path / "a/0-warm-up", asked_of(lab), {"read-goodput": "1"})
    last = make_hand_in(tmp_path / "b/0-warm-up", asked_of(lab))
    for folder, name in ((first, "smithalice_1_90_a.zip"), (last, "smithalice_1_91_a-1.zip")):
        (tmp_path / "all").mkdir(exist_ok=True)
        safe_extract.pack_hand_in(folder, tmp_path / "all" / name)
    done = grade(tmp_path / "all")
    assert done.returncode == 0 and "handed in 2 times" in done.stdout
    assert points(tmp_path / "out")["alice"] == str(lab.most)
    page = (tmp_path / "out/index.html").read_text("utf-8")
    assert "smithalice_1_91_a-1.zip counts, not smithalice_1_90_a.zip" in page


@pytest.mark.parametrize("form", ["packed", "folders", "Moodle's"])
def test_work_that_another_account_uploads_counts_for_nothing(
    lab: CourseLab, tmp_path: Path, form: str, grade: Typed
) -> None:
    folder = make_hand_in(tmp_path / "a/0-warm-up", asked_of(lab))
    place = tmp_path / "all"
    for name in ("alice", "bob"):
        (place / name).mkdir(parents=True)
        if form == "folders":
            shutil.copytree(folder, place / name / folder.name)
        elif form == "packed":
            safe_extract.pack_hand_in(folder, place / name / "work.zip")
        else:
            (place / name).rmdir()
            of = {"alice": "Alice Smith", "bob": "Bob Ott"}[name]
            safe_extract.pack_hand_in(folder, place / f"{of}_7_assignsubmission_file_x.zip")
    grade(place)
    assert points(tmp_path / "out") == {"alice": str(lab.most), "bob": "0", "carol": ""}
    page = (tmp_path / "out/feedback/bob.html").read_text("utf-8")
    assert "not bob" in page and "alice" in page


def test_who_copies_is_shown_with_counts_and_who_does_not_is_not(
    lab: CourseLab, everybody: Path, grade: Typed
) -> None:
    sheet = everybody / "bob/answers.yaml"
    text = "the first second is slow start, and each packet has 66 bytes of headers"
    rewrite(sheet, '"words"', json.dumps(text))
    # Carol's own runs, with Bob's numbers, predictions and text
    given = read_answers(sheet, lab)
    copied = {point.name: given.text(*point.answer) for point in lab.points if point.answer}
    make_hand_in(everybody / "carol", asked_of(lab, "carol"), copied)
    told = grade(everybody).stdout
    (line,) = [line for line in told.splitlines() if "resembling" in line]
    assert "bob and carol" in line and "alice" not in line and "word for word" in line
    found = re.search(r"of (\d+) numbers (\d+) equal answers and (\d+) equal predictions", line)
    assert found is not None and int(found[2]) + int(found[3]) >= 3
    page = (everybody.parent / "out/index.html").read_text("utf-8")
    assert "no verdict" in page and "bob and carol" in page


def test_equal_mistakes_where_both_were_to_say_the_same_are_no_sign(
    everybody: Path, grade: Typed
) -> None:
    # the made-up runs give both the same round trips, and so both were to say the same
    for student in ("alice", "bob"):
        sheet = everybody / student / "answers.yaml"
        for key in ("p95_rtt_ms", "sawtooth_of"):
            rewrite(sheet, f"^  {key}: .*$", f'  {key}: "123.4"')
    assert "alice and bob" not in grade(everybody).stdout


def test_who_was_to_give_what_another_copied_is_not_named(
    lab: CourseLab, everybody: Path, grade: Typed
) -> None:
    path = asked_of(lab).values
    names = [f"student-{number}" for number in range(500)]
    twin = next(name for name in names if asked_of(lab, name).values == path)
    make_hand_in(everybody / twin, asked_of(lab, twin))
    own = "A text of my own: of 1514 bytes 66 are headers, and slow start takes a while"
    rewrite(everybody / "alice/answers.yaml", '"words"', f'"{own}"')
    copied = (everybody / "alice/answers.yaml").read_text("utf-8")
    (everybody / "bob/answers.yaml").write_text(copied.replace('"alice"', '"bob"'), "utf-8")
    told = [line for line in grade(everybody).stdout.splitlines() if "resembling" in line]
    assert len(told) == 1 and "alice and bob" in told[0], told


def test_marks_are_written_beside_the_texts_and_counted_in_the_total(
    lab: CourseLab, everybody: Path, grade: Typed
) -> None:
    assert "still to be marked" in grade(everybody).stdout
    out = everybody.parent / "out"
    page = (out / "marking.html").read_text("utf-8")
    scheme = next(point.scheme for point in lab.points if point.by_hand)
    assert scheme[0] in page and page.count("<blockquote>") == 2
    rewrite(out / "marks.csv", "^explain,alice,,", "explain,alice,3,")
    done = grade(everybody)
    assert done.returncode == 0
    assert points(out) == {"alice": str(lab.most + 3), "bob": str(lab.most - 1), "carol": ""}
    assert (
        f"{lab.most + 3} of {lab.points_with_texts} points<"
        in (out / "feedback/alice.html").read_text()
    )
    # another text has another mark
    rewrite(everybody / "alice/answers.yaml", '"words"', '"other words"')
    grade(everybody)
    assert points(out)["alice"] == str(lab.most)
    rewrite(out / "marks.csv", "^explain,alice,,", "explain,alice,99,")
    wrong = grade(everybody)
    assert wrong.returncode == 2 and "marks.csv:2: alice: points '99'" in wrong.stderr


def test_a_receipt_says_which_predictions_were_first(
    lab: CourseLab, everybody: Path, tmp_path: Path, grade: Typed
) -> None:
    first = dict.fromkeys(lab.keys("predictions"), "1")
    receipts = tmp_path / "receipts.csv"
    receipts.write_text(f"student,receipt\nalice,{asked_of(lab).receipt(first)}\n")
    grade(everybody, "--receipts", receipts)
    predicted = sum(point.points for point in lab.points if point.is_prediction)
    left = points(everybody.parent / "out")
    assert left["alice"] == str(lab.most - predicted)
    assert left["bob"] == str(lab.most - predicted - 1)


def test_one_that_is_hostile_of_another_course_or_no_hand_in_stops_nobody(
    lab: CourseLab, everybody: Path, roster: Path, monkeypatch: pytest.MonkeyPatch, grade: Typed
) -> None:
    monkeypatch.setattr(safe_extract, "MAX_FILE_BYTES", 10**6)
    roster.write_text(f"{ROSTER}eve,Eve Bom,\nfay,Fay Out,\n")
    for who, name, content in (
        ("Eve Bom", "0-warm-up/answers.yaml", b"0" * (10**6 + 1)),
        ("Fay Out", "../answers.yaml", b"x"),
    ):
        zipped({name: content}, everybody / f"{who}_3_assignsubmission_file_x.zip")
    make_hand_in(everybody / "carol", assignment_in_course(lab, "carol", "spring"))
    zipped({"essay.txt": b"hello"}, everybody / "dora.zip")
    (everybody / "notes.txt").write_text("mine")
    done = grade(everybody)
    told = done.stdout
    assert done.returncode == 1
    assert "'spring'" in told and "dora.zip" in told and "answers.yaml" in told
    assert "no hand-in: notes.txt" in told
    assert "/tmp" not in told.partition("resembl")[0].partition(str(everybody.parent))[0]
    found = points(everybody.parent / "out")
    assert found["alice"] == str(lab.most) and found["carol"] == ""
    assert found["eve"] == found["fay"] == "0"
    assert not (everybody / "answers.yaml").exists()
    canvas = {row["SIS Login ID"]: row for row in rows(everybody.parent / "out/canvas.csv")}
    assert canvas["carol"][lab.title] == ""  # no zero: a person decides


@pytest.mark.slow
def test_a_command_that_lacks_the_course_grades_nobody(
    lab: CourseLab, tmp_path: Path, refused: Refused, grade: Typed
) -> None:
    (tmp_path / "secret").write_text("0123456789abcdef")
    for name in ("alice", "bob"):
        ticket = ticket_of(lab, name, "spring", b"0123456789abcdef")
        make_hand_in(tmp_path / "all" / name, assignment_from_ticket(lab, name, "spring", ticket))
    (tmp_path / "roster.csv").write_text("alice\nbob\n")
    everybody = tmp_path / "all"
    assert "--course" in refused(*words_for(lab, everybody))
    assert "--secret" in refused(*words_for(lab, everybody, "--course", "spring"))
    right = ["--course", "spring", "--secret", tmp_path / "secret"]
    assert grade(everybody, *right).returncode == 0
    assert points(tmp_path / "out") == {"alice": str(lab.most), "bob": str(lab.most)}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("{lab} all --roster roster.csv --student alice", "--student"),
        ("{lab} all --roster roster.csv --format json", "--format"),
        ("{lab} all --roster roster.csv --rerun", "--rerun"),
        ("{lab} all --roster roster.csv --jobs 0", "at least 1"),
        ("all", "LAB HAND-IN"),
        ("{lab} all --roster none.csv", "none.csv"),
        ("{lab} all --roster nobody.csv --out new", "no column"),
        ("{lab} essay.zip --roster roster.csv --out new", "essay.zip: neither a folder nor a zip"),
        ("{lab} all --roster roster.csv --out essay.zip", "name a folder"),
    ],
)
def test_a_command_that_cannot_be_is_refused_in_a_line_and_leaves_nothing(
    words: str, says: str, everybody: Path, lab: CourseLab, refused: Refused, here: Path
) -> None:
    (here / "nobody.csv").write_text("name,section\nAlice,1\n")
    (here / "essay.zip").write_text("hello")
    before = set(here.iterdir())
    assert says in refused("grade", *words.format(lab=lab.folder).split())
    assert set(here.iterdir()) == before


def test_the_hand_ins_say_their_lab_and_two_labs_are_asked_about(
    here: Path, typed: Typed, refused: Refused
) -> None:
    shipped = load_lab("0")
    make_hand_in(here / "all/alice", asked_of(shipped))
    (here / "roster.csv").write_text("alice\n")
    assert typed("grade", "all", "--roster", "roster.csv", "--jobs", 1).returncode == 0
    assert points(here / "graded-0-warm-up") == {"alice": str(shipped.most)}
    other = here / "all/bob"
    shutil.copytree(here / "all/alice", other)
    told = json.loads((other / "assignment.json").read_text("utf-8"))
    (other / "assignment.json").write_text(json.dumps({**told, "lab": "1-window"}))
    assert "0-warm-up and 1-window" in refused("grade", "all", "--roster", "roster.csv")


def test_options_may_stand_between_the_lab_and_the_hand_in(lab: CourseLab, everybody: Path) -> None:
    assert main(["grade", str(lab.folder), "--student", "alice", str(everybody / "alice")]) == 0


# -- the key


def test_a_key_is_the_teachers_alone_and_says_what_is_right(
    lab: CourseLab, tmp_path: Path, refused: Refused, typed: Typed
) -> None:
    words = ["lab", "key", str(lab.folder), "--student", "alice", "--course", "spring"]
    assert "--secret" in refused(*words)
    (tmp_path / "secret").write_text("0123456789abcdef")
    words += ["--secret", str(tmp_path / "secret")]
    told = typed(*words).stdout
    asked = assignment_in_course(lab, "alice", "spring", b"0123456789abcdef")
    assert f"predict-idle-rtt: {asked.values['rtt_ms']} (± 0.5)" in told
    assert re.search(r"read-goodput: from the runs of a hand-in", told)
    folder = make_hand_in(tmp_path / "alice", asked)
    for place in (folder, tmp_path):  # it finds the folder inside
        told = typed(*words, "--hand-in", place).stdout
        assert re.search(r"read-goodput: [\d.]+ \(± 1 %\)", told)


# -- how the pages look


@pytest.mark.slow
def test_in_a_browser_the_pages_fit_a_phone_and_are_read_dark_and_light(
    browser: Browser, everybody: Path, tmp_path: Path, grade: Typed
) -> None:
    grade(everybody)
    out = everybody.parent / "out"
    backgrounds = set()
    for page in (out / "index.html", out / "feedback/bob.html"):
        for width, scheme in ((400, "light"), (400, "dark"), (1280, "light")):
            browser.show_as(width, scheme)
            browser.open(page.as_uri())
            wide = "document.documentElement.scrollWidth"
            assert browser.look(wide) <= width
            backgrounds.add(browser.look("getComputedStyle(document.body).backgroundColor"))
            browser.picture(tmp_path / "screenshots" / f"{page.stem}-{width}-{scheme}.png")
    assert len(backgrounds) == 2
    border = "getComputedStyle(document.querySelector('.points > .lost')).borderLeftWidth"
    assert browser.look(border) != "0px"
    assert browser.complaints() == []


def test_what_others_write_is_no_markup_on_a_page_and_no_formula_of_a_spreadsheet(
    everybody: Path, roster: Path, grade: Typed
) -> None:
    evil = "<script>alert(1)</script> \u202e"
    rewrite(everybody / "bob/answers.yaml", '"words"', json.dumps(evil))
    roster.write_text('student,name\nalice,"=HYPERLINK(""http://x"")"\nbob,+1\n')
    grade(everybody)
    page = (everybody.parent / "out/feedback/bob.html").read_text("utf-8")
    assert "<script>" not in page and "&lt;script&gt;" in page and "\u202e" not in page
    for name in ("canvas.csv", "gradescope.csv", "grades.csv", "moodle.csv"):
        with (everybody.parent / "out" / name).open(encoding="utf-8", newline="") as opened:
            cells = [cell for row in csv.reader(opened) for cell in row]
        assert not any(cell[:1] in ("=", "+", "@") for cell in cells), name


@pytest.mark.slow
def test_with_several_processes_the_grades_are_the_same(
    lab: CourseLab, everybody: Path, grade: Typed
) -> None:
    grade(everybody)
    alone = (everybody.parent / "out/grades.csv").read_bytes()
    shutil.rmtree(everybody.parent / "out")
    assert main(words_for(lab, everybody, jobs=max(2, len(os.sched_getaffinity(0))))) == 0
    assert (everybody.parent / "out/grades.csv").read_bytes() == alone


def test_what_a_hand_in_makes_python_raise_is_its_own_refusal(
    lab: CourseLab, everybody: Path, grade: Typed
) -> None:
    # a zip with an entry without a name, which is an IndexError in `zipfile`
    nameless = zipped({"0-warm-up/answers.yaml": b"x", "0/unnamed": b"x"}, everybody / "dora.zip")
    nameless.write_bytes(nameless.read_bytes().replace(b"0/unnamed", b"\0/unnamed"))
    # a text that UTF-8 cannot encode, in a prediction; a name that is not UTF-8
    made = make_hand_in(everybody / "carol", asked_of(lab, "carol"))
    rewrite(made / "predictions.json", r'"bdp_pkts": .*"', r'"bdp_pkts": "\ud800"')
    shutil.copytree(everybody / "bob", everybody / os.fsdecode(b"\xff"))
    done = grade(everybody)
    assert done.returncode == 1
    out = everybody.parent / "out"
    assert points(out)["alice"] == str(lab.most) and points(out)["bob"] == str(lab.most - 1)
    told = " ".join(done.stdout.split())
    assert "dora.zip" in told and "no name of a file" in told and "counts: predictions.json" in told
    assert "its name is not UTF-8" in told
    assert "Traceback" not in done.stderr


def test_a_hand_in_that_ends_its_process_costs_no_other(
    lab: CourseLab, everybody: Path, grade: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = batch_grading.grade_hand_in

    def graded(folder: Path, *more: object) -> batch_grading.GradeRecord:
        if "bob" in str(folder):
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does where memory is short
        return real(folder, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(batch_grading, "grade_hand_in", graded)
    done = grade(everybody)
    out = everybody.parent / "out"
    assert points(out)["alice"] == str(lab.most) and points(out)["bob"] == "0"
    assert "ended its process" in done.stdout + (out / "index.html").read_text("utf-8")


def test_without_a_secret_a_hand_in_of_a_stranger_is_nobodys(
    lab: CourseLab, tmp_path: Path, typed: Typed
) -> None:
    alice = upload_of(make_hand_in(tmp_path / "alice", asked_of(lab)), tmp_path)
    bob = upload_of(make_hand_in(tmp_path / "bob", asked_of(lab, "bob")), tmp_path)

    def graded(roster: str, names: dict[str, bytes]) -> tuple[dict[str, str], str]:
        (tmp_path / "roster.csv").write_text(roster, encoding="utf-8")
        download = zipped(
            {f"{name}_0-warm-up.zip": one for name, one in names.items()}, tmp_path / "d.zip"
        )
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        done = typed(*words_for(lab, download))
        return points(tmp_path / "out"), " ".join(done.stdout.split())

    # the roster has names, and this one is not among them
    found, told = graded(ROSTER, {"uhlcarol_1_5": alice, "mallory_7_6": bob})
    assert found["bob"] == "" and "mallory 7, whom the roster does not have" in told
    assert found["alice"] == "" and found["carol"] == "0"
    # it has none: a name of the platform proves nothing, be it the only one
    bare = "student\nalice\nbob\n"
    found, told = graded(bare, {"mallory_7_6": alice})
    assert found["alice"] == "" and "mallory 7, whom the roster does not have, as alice's" in told
    # with what the roster needs, it does
    known = "student,canvas id\nalice,1\nbob,2\n"
    assert graded(known, {"smithalice_1_5": alice})[0]["alice"] == str(lab.most)


@pytest.mark.parametrize(
    ("name", "earned"),
    [
        ("0-warm-up-alice (1).zip", "all"),
        ("Alice/0-warm-up.zip", "all"),
        ("malice.zip", ""),
        ("h-17/0-warm-up-alice.zip", ""),
        ("bob.zip", ""),  # and Bob gets none
    ],
)
def test_a_folder_of_hand_ins_says_by_their_names_whose_they_are(
    lab: CourseLab, tmp_path: Path, roster: Path, grade: Typed, name: str, earned: str
) -> None:
    roster.write_text("student\nalice\nbob\n", encoding="utf-8")
    alice = upload_of(make_hand_in(tmp_path / "alice", asked_of(lab)), tmp_path)
    (tmp_path / "all" / name).parent.mkdir(parents=True)
    (tmp_path / "all" / name).write_bytes(alice)
    (tmp_path / "all/bobs.txt").write_text("")

    done = grade(tmp_path / "all")

    got = points(tmp_path / "out")
    assert got["alice"] == (str(lab.most) if earned else "")
    assert got["bob"] == ("0" if name == "bob.zip" else "")
    if name in ("malice.zip", "h-17/0-warm-up-alice.zip"):
        assert "claims to be alice's" in " ".join(done.stdout.split())
