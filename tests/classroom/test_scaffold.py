# SPDX-License-Identifier: MIT
"""`./lab new lab` and `./lab new classroom`, from the command to a hand-in that is graded."""

import compileall
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from gostlab.classroom.lab import list_labs, load_lab
from gostlab.classroom.scaffold import write_classroom
from gostlab.classroom.student_assignment import assignment_from_ticket, assignment_in_course
from tests.classroom.handins import asked_of, make_hand_in, rewrite
from tests.lab_command import ROOT, Refused, Typed, said_by, script_here
from tests.skips import require_mounts

PARTS = {"README.md", "experiment.yaml", "answers.yaml", "check.yaml", "plan.md"}


def fill_in(folder: Path) -> None:
    """What a teacher does, as briefly as can be."""
    for path in folder.iterdir():
        text = re.sub(r"FILL IN: [^\"|\n]*", "Written by its teacher ", path.read_text("utf-8"))
        path.write_text(text, encoding="utf-8")


def redo(work: Path, lab_folder: Path) -> None:
    """Alice's work in the folder that she began, all right."""
    told = (work / "assignment.json").read_text("utf-8")
    asked = assignment_from_ticket(
        load_lab(str(lab_folder)), "alice", "public", json.loads(told)["ticket"]
    )
    for path in work.iterdir():
        path.unlink()
    make_hand_in(work, asked)
    (work / "assignment.json").write_text(told)


@pytest.fixture
def mine(here: Path, typed: Typed) -> Path:
    """A lab of a teacher's own, with all its parts written, beside which one stands."""
    made = typed("new", "lab", "mine")
    assert made.returncode == 0, made.stderr
    fill_in(here / "mine")
    return here / "mine"


def test_a_course_has_a_secret_and_everybodys_tickets_from_the_start(
    here: Path, typed: Typed
) -> None:
    (here / "roster.csv").write_text("name,email\nAda,ada@x.org\nBob,bob@x.org\n")
    made = typed("new", "course", "net-1", "--students", "roster.csv")
    assert made.returncode == 0, made.stderr
    for name in ("course.secret", "tickets.csv"):
        assert (here / "net-1" / name).stat().st_mode & 0o077 == 0
    rows = (here / "net-1/tickets.csv").read_text("utf-8").splitlines()
    assert len(rows) == 1 + 2 * len(list_labs())
    student, lab, course, ticket = rows[1].split(",")
    words = ("--student", student, "--course", course, "--ticket", ticket)
    assert typed("lab", "start", lab, *words).returncode == 0
    assert typed("new", "course", "net-1").returncode == 2  # it keeps its secret
    secret = ("--course", "net-1", "--secret", "net-1/course.secret")
    again = typed("lab", "ticket", "0", "--students", "roster.csv", *secret)
    tickets = again.stdout.splitlines()
    assert len(tickets) == 3 and set(tickets) <= set(rows)


# -- a lab


@pytest.mark.slow
def test_every_part_that_is_not_written_is_named_by_file_and_line(here: Path, typed: Typed) -> None:
    made = typed("new", "lab", "mine")
    assert {line.split("/")[-1] for line in made.stdout.splitlines()[:-1]} == PARTS
    seen = set()
    for _ in range(60):
        said = typed("lab", "start", "./mine", "--student", "somebody")
        if said.returncode == 0:
            break
        [line] = said.stderr.strip().splitlines()
        found = re.fullmatch(r"gostlab: mine/(\S+):(\d+): still to be written: (\S.*)", line)
        assert found and said.returncode == 2, line
        seen.add(found[1])
        path = here / "mine" / found[1]
        lines = path.read_text("utf-8").splitlines()
        assert found[3].split('"')[0].strip(" |") in lines[int(found[2]) - 1]
        lines[int(found[2]) - 1] = re.sub(r"FILL IN: [^\"|]*", "written ", lines[int(found[2]) - 1])
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert seen == PARTS
    assert said.returncode == 0, said.stderr
    assert typed("grade", "./mine", "coursework/mine").returncode == 0


def test_a_lab_of_ones_own_goes_from_the_command_to_a_grade(mine: Path, typed: Typed) -> None:
    begun = typed("lab", "start", "./mine", "--student", "alice")
    assert begun.returncode == 0 and "./lab lab predict mine" in begun.stdout, begun.stderr
    redo(mine.parent / "coursework/mine", mine)

    handed = typed("lab", "hand-in", "./mine")
    grade = typed("grade", "./mine", "coursework/mine-alice.zip", "--format", "json")

    assert handed.returncode == 0 and "complete" in handed.stdout, handed.stderr
    found = json.loads(grade.stdout)
    assert (found["points"], found["problems"]) == (found["most"], [])


@pytest.mark.parametrize(
    ("file", "old", "new", "says"),
    [
        ("answers.yaml", "  bdp_pkts:", "  bdp:", ("answers.yaml:6", "bdp_pkts")),
        ("answers.yaml", "  why:", "  # why:", ("answers.yaml", "answers.why is missing")),
        ("check.yaml", "figure: goodput_mbit", "figure: goodput", ("check.yaml", "goodput_mbit?")),
        ("check.yaml", '"goodput / pay', '"speed / pay', ("check.yaml", "speed", "neither drawn")),
        ("check.yaml", "{figure: goodput_mbit}", "{figure: goodput_mbit, of: {cc: bbr}}",
         ("check.yaml", "0 runs", "matrix")),
        ("check.yaml", "bdp_pkts(rate_mbit, rtt_ms)", "bdp_pkts(rate_mbit)", ("check.yaml", "predict-bdp")),
        ("README.md", "`answers.goodput_mbit`", "the goodput", ("README.md", "`answers.goodput_mbit`")),
        ("README.md", "`rtt_ms`", "round trip", ("README.md", "`rtt_ms`")),
        ("experiment.yaml", "cc: cubic", "cc: cubicc", ("experiment.yaml:", "cubic")),
        *((part, "", "", (f"mine/{part}",)) for part in sorted(PARTS - {"check.yaml"})),  # is missing
    ],
)  # fmt: skip
def test_a_part_that_does_not_fit_the_others_is_refused_by_file(
    mine: Path, refused: Refused, file: str, old: str, new: str, says: tuple[str, ...]
) -> None:
    if old:
        rewrite(mine / file, re.escape(old), new)
    else:
        (mine / file).unlink()

    line = refused("lab", "start", mine, "--student", "alice")

    assert all(word in line for word in says), line
    assert not (mine.parent / "coursework").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("lab", "My Lab"), "not a lab's name"),
        (("lab", "3-random-loss"), "there is a lab of that name"),
        (("lab", "there"), "is there already"),
        (("lab", "mine", "--course", "x"), "for a classroom"),
        (("classroom", "class"), "--lab is missing"),
        (("classroom", "class", "--lab", "77"), "no such lab"),
        (("classroom", "there", "--lab", "0"), "is there already"),
        (("classroom", "class", "--lab", "0", "--course", "a b; rm"), "not a course"),
    ],
)
def test_what_cannot_be_made_is_one_line_and_writes_nothing(
    here: Path, refused: Refused, words: tuple[str, ...], says: str
) -> None:
    (here / "there").mkdir()
    (here / "there/work.txt").write_text("my own")
    assert says in refused("new", *words)
    assert sorted(path.name for path in here.rglob("*")) == ["there", "work.txt"]


@pytest.mark.sandbox
def test_a_lab_of_ones_own_runs_and_is_handed_in_for_all_its_points(
    mine: Path, tmp_path: Path
) -> None:
    words = (mine, "--work", tmp_path / "work", "--write")
    done = script_here(ROOT / "labs/times.py", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    plan = (mine / "plan.md").read_text("utf-8")
    assert re.search(r"^\| CPU time, s \|( [0-9.]+ \|){6}$", plan, re.MULTILINE)


# -- a classroom


@pytest.fixture
def classroom(here: Path, typed: Typed) -> Path:
    """A repository for lab 0, where no part of the lab's program can be found but its own."""
    made = typed("new", "classroom", "class", "--lab", "0", "--course", "cc-2027")
    assert made.returncode == 0, made.stderr
    for name in ("rich", "mininet", "pandas", "matplotlib", "jinja2"):  # no runner has them
        (here / f"class/grader/{name}.py").write_text("raise ImportError('not on a runner')")
    return here / "class"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same repository with its grader compiled: else each process of it compiles it anew."""
    room = tmp_path_factory.mktemp("compiled") / "class"
    write_classroom(room, "0", "cc-2027")
    compileall.compile_dir(room / "grader", quiet=1)
    return room


@pytest.fixture
def room(compiled: Path) -> Iterator[Path]:
    """That repository, without a hand-in."""
    yield compiled
    shutil.rmtree(compiled / "hand-in")


def handed_in(classroom: Path, key: bytes | None = None, **wrong: str) -> Path:
    """A hand-in in the repository, all right but for what is wrong."""
    asked = assignment_in_course(load_lab("0"), "alice", "cc-2027", key)
    return make_hand_in(classroom / "hand-in", asked, wrong)


def check(classroom: Path, *words: object, **known: str) -> CompletedProcess[str]:
    """The repository's check, as a forge runs it."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nowhere", **known}
    return said_by("/usr/bin/python3", classroom / "check", *words, cwd="/", env=env)


def test_the_repository_has_its_lab_its_check_and_what_two_forges_run(classroom: Path) -> None:
    for place in (".github/workflows/check.yml", ".gitlab-ci.yml"):
        text = (classroom / place).read_text("utf-8")
        assert yaml.safe_load(text) and "/usr/bin/python3 ./check" in text
        assert "python3-yaml" in text
    assert (classroom / "check").stat().st_mode & stat.S_IXUSR
    page = (classroom / "README.md").read_text("utf-8")
    for link in re.findall(r"\]\(([^)]+)\)", page):
        assert (classroom / link).is_file(), link
    assert "--course cc-2027" in page
    there = {path.name for path in (classroom / "grader/labs/0-warm-up").iterdir()}
    assert {"README.md", "experiment.yaml", "answers.yaml", "check.yaml", "figure.png"} <= there
    for path in classroom.rglob("*"):
        if path.is_file() and path.suffix not in (".png", ".py"):
            assert not re.search(r"@(lab|course|title|name|folder)", path.read_text("utf-8"))


@pytest.mark.slow
def test_the_check_is_0_for_a_complete_hand_in_and_1_for_one_that_lacks_something(
    classroom: Path,
) -> None:
    nothing = check(classroom)
    assert nothing.returncode == 2 and "hand-in" in nothing.stderr
    folder = handed_in(classroom)
    whole = check(classroom)
    assert (whole.returncode, whole.stdout) == (0, "complete\n"), whole.stderr
    run = next((folder / "results").glob("*/*"))
    shutil.rmtree(run)
    lacking = check(classroom)
    assert lacking.returncode == 1 and "1 of 2 runs" in lacking.stderr
    assert not (classroom / "grader/gostlab/__pycache__").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ['{"lab": "1-window"}', "{}", "[]", "nonsense", '{"lab": "0-warm-up", "ticket": 5}', ""]
)
def test_what_is_no_hand_in_of_this_lab_is_not_judged(room: Path, text: str) -> None:
    (room / "hand-in").mkdir()
    (room / "hand-in/assignment.json").write_text(text)
    said = check(room)
    assert said.returncode == 2 and said.stdout == ""
    assert "Traceback" not in said.stderr and said.stderr.strip()


@pytest.mark.slow
def test_with_points_asked_for_the_check_says_whether_they_are_there(room: Path) -> None:
    handed_in(room, **{"read-goodput": "1.5"})
    most = load_lab("0").most
    enough = check(room, "--least", most - 1)
    less = check(room, LEAST_POINTS=str(most))
    other = check(room, "--least", 1, "--student", "bob")
    assert enough.returncode == 0, enough.stdout + enough.stderr
    assert less.returncode == 1 and f"{most - 1} of {most} points" in less.stdout
    assert other.returncode != 0
    assert check(room, LEAST_POINTS="many").returncode == 2


def without_the_labs_packages(tmp_path: Path, *words: object) -> CompletedProcess[str]:
    """A command on a machine that has Python and PyYAML, and none of the packages of set-up."""
    require_mounts()
    place = Path(yaml.__file__).parents[1]
    few = tmp_path / "few"
    for package in [*place.glob("yaml"), *place.glob("_yaml*")]:
        shutil.copytree(package, few / package.name, dirs_exist_ok=True)
    hidden = 'mount --bind "$1" "$2"; shift 2; exec "$@"'
    return said_by(
        *("unshare", "--mount", "--propagation", "private", "sh", "-ec", hidden, "sh"),
        *(few, place, *words),
    )


@pytest.mark.slow
def test_the_graders_need_python_and_pyyaml_alone(
    classroom: Path, tmp_path: Path, typed: Typed
) -> None:
    folder = handed_in(classroom)
    bundle = tmp_path / "bundle"
    made = typed("lab", "autograder", "0", "--format", "gradescope", "--out", "b.zip")
    assert made.returncode == 0, made.stderr
    shutil.unpack_archive(tmp_path / "b.zip", bundle)
    words = ("--course", "cc-2027", "--format", "json")

    checked = without_the_labs_packages(tmp_path, "/usr/bin/python3", classroom / "check")
    graded = without_the_labs_packages(
        tmp_path, "sh", bundle / "lab", "grade", bundle / "labs/0-warm-up", folder, *words
    )

    assert checked.returncode == 0, checked.stderr
    assert graded.returncode == 0, graded.stderr
    assert json.loads(graded.stdout)["points"] == load_lab("0").most


@pytest.mark.slow
def test_a_course_with_a_secret_is_graded_with_it_alone(room: Path, tmp_path: Path) -> None:
    key = "5" * 64
    secret = tmp_path / "course.secret"
    secret.write_text(key + "\n")
    handed_in(room, key.encode())
    asked = ("--least", 1)
    assert check(room, *asked, "--secret", secret).returncode == 0
    told = check(room, *asked, COURSE_SECRET=key)
    assert told.returncode == 0 and key not in told.stdout
    assert check(room, *asked).returncode == 2
    assert check(room, *asked, COURSE_SECRET="6" * 64).returncode != 0


@pytest.mark.slow
def test_a_classroom_of_a_lab_of_ones_own_starts_and_checks(
    mine: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = typed("new", "classroom", "class", "--lab", "./mine")
    assert made.returncode == 0, made.stderr
    room = mine.parent / "class"
    monkeypatch.chdir(room)
    words = ("lab", "start", "grader/labs/mine", "--student", "alice", "--folder", "hand-in")
    begun = typed(*words)
    assert begun.returncode == 0, begun.stderr
    redo(room / "hand-in", room / "grader/labs/mine")
    assert check(room).returncode == 0


@pytest.mark.slow
def test_a_classroom_knows_the_congestion_controls_of_its_lab(tmp_path: Path) -> None:
    """Its grader has the files of cc/ that the lab's experiment names: bbr3."""
    room = tmp_path / "class"
    write_classroom(room, "9", "public")
    missing = check(room)
    assert missing.returncode == 2 and len(missing.stderr.splitlines()) == 1
    make_hand_in(room / "hand-in", asked_of(load_lab("9")))
    said = check(room, "--least", "1")
    assert said.returncode in (0, 1) and "complete" in said.stdout, said.stderr
