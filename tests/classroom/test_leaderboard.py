# SPDX-License-Identifier: MIT
"""Students' congestion controls, ranked: hidden paths, scores, ties, and who has no rank."""

import csv
import re
from pathlib import Path

import pytest

from gostlab.classroom import leaderboard
from gostlab.classroom.lab import CourseLab, RankingRules, load_lab
from gostlab.classroom.leaderboard import (
    RankedEntry,
    draw_paths,
    score,
    sort_by_rank,
    tie_lines,
    to_csv,
)
from gostlab.classroom.leaderboard_cli import read_entries
from gostlab.classroom.roster import Roster, read_roster
from gostlab.classroom.workspace import create_coursework, find_unfinished
from gostlab.registry.congestion_controls import own_controls
from gostlab.registry.folders import ROOT
from tests.classroom.handins import asked_of, make_hand_in
from tests.lab_command import Refused, Typed

SECRET = b"0123456789abcdef"
TEMPLATE = (ROOT / "cc/template.c").read_text("utf-8")


def nine() -> tuple[CourseLab, RankingRules]:
    lab = load_lab("9")
    assert lab.rank is not None
    return lab, lab.rank


def test_the_paths_are_the_secrets_and_the_same_for_everybody() -> None:
    lab, asked = nine()
    mine = draw_paths(lab, asked, "c", SECRET)
    assert mine == draw_paths(lab, asked, "c", SECRET)
    drawn = [(path.values, path.seed) for path in mine]
    for course, secret in (("c", b"0123456789abcdeg"), ("d", SECRET), ("c", None)):
        others = draw_paths(lab, asked, course, secret)
        assert [(path.values, path.seed) for path in others] != drawn
    assert len({str(path.values) for path in mine}) == asked.paths == len(mine)


def test_a_score_is_what_the_poorer_got_of_its_half() -> None:
    whole = 20 * 1448 / 1514
    assert score({"a": whole / 2, "b": whole / 2}, 20) == pytest.approx(100)
    assert score({"a": whole, "b": 0.0}, 20) == score({"a": 0.0, "b": whole}, 20) == 0
    assert score({"a": whole / 4, "b": whole / 4}, 20) == pytest.approx(50)  # an idle link


def test_equal_scores_have_one_rank_and_whoever_has_none_stands_last() -> None:
    lab, asked = nine()
    found = sort_by_rank(
        [
            RankedEntry("a", b"x", scores=[50.0, 60.0]),
            RankedEntry("b", b"y", scores=[70.0, 70.0]),
            RankedEntry("c", b"y", scores=[70.02, 69.98]),
            RankedEntry("d", b"z", "path 1: the kernel died of it"),
            RankedEntry("cubic", scores=[99.0, 99.0], is_reference=True),
        ]
    )
    assert [each.student for each in found] == ["cubic", "b", "c", "a", "d"]
    assert [each.rank for each in found] == [None, 1, 1, 3, None]
    (line,) = tie_lines(found)
    assert "b and c" in line and "files are the same" in line
    table = list(csv.DictReader(to_csv(found, draw_paths(lab, asked, "c", None)[:2]).splitlines()))
    assert [row["rank"] for row in table] == ["1", "1", "3", ""]
    assert "died" in table[-1]["why_no_rank"]


def test_the_lab_hands_out_a_file_to_begin_with_and_asks_for_it_back(tmp_path: Path) -> None:
    lab, asked = nine()
    create_coursework(asked_of(lab), tmp_path)
    assert (tmp_path / asked.file).read_text("utf-8") == TEMPLATE
    (tmp_path / asked.file).write_text("// mine\n")
    create_coursework(asked_of(lab), tmp_path)
    assert (tmp_path / asked.file).read_text("utf-8") == "// mine\n"
    folder = make_hand_in(tmp_path / "in", asked_of(lab))
    assert any(asked.file in line for line in find_unfinished(folder, asked_of(lab)))


def handed_in(to: Path, student: str, content: str | None) -> None:
    """A hand-in with a C file, or without."""
    files = {"answers.yaml": "student: x\n", "assignment.json": f'{{"student": "{student}"}}'}
    (to / student).mkdir(parents=True)
    for name, text in {**files, "mine.c": content}.items():
        if text is not None:
            (to / student / name).write_text(text)


def test_who_handed_in_no_file_or_the_template_has_a_line_and_no_rank(tmp_path: Path) -> None:
    _, asked = nine()
    for name, content in (("alice", "// mine\n"), ("bob", TEMPLATE), ("carol", None)):
        handed_in(tmp_path / "all", name, content)
    (tmp_path / "roster.csv").write_text("alice\nbob\ncarol\ndora\n")
    found = read_entries(tmp_path / "all", asked, read_roster(tmp_path / "roster.csv"))
    assert {each.student: each.why_not for each in found} == {
        "alice": "",
        "bob": "mine.c: as it was handed out",
        "carol": "mine.c: not there",
        "dora": "handed in nothing",
    }
    (tmp_path / "all/alice" / asked.file).write_bytes(b"/" * (leaderboard.MAX_SOURCE_BYTES + 1))
    (found,) = read_entries(tmp_path / "all/alice", asked, Roster(()))
    assert "KiB" in found.why_not


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["0", "x.c"], "nothing is ranked"),
        (["9", "none.c"], "no such C file"),
        (["9", "x.c", "--jobs", "0"], "at least 1"),
        (["9", "x.c", "--secret", "none"], "none"),
    ],
)
def test_a_ranking_that_cannot_be_is_refused_in_a_line(
    words: list[str], says: str, here: Path, refused: Refused
) -> None:
    (here / "x.c").write_text(TEMPLATE)
    assert says in refused("lab", "rank", *words)


PANIC = TEMPLATE.replace("\tmy->losses++;\n", '\tmy->losses++;\n\tpanic("noexec: out of ideas");\n')
BROKEN = "no C\n"  # its compiler reads no header


@pytest.mark.sandbox
def test_files_are_ranked_equal_ones_equally_and_broken_ones_in_a_line(
    here: Path, typed: Typed
) -> None:
    """One short path, in a lab of its own."""
    lab = here / "9-two-tunnels"
    lab.mkdir()
    shipped = load_lab("9").folder
    for name in ("answers.yaml", "experiment.yaml", "rank.yaml", "check.yaml"):
        text = (shipped / name).read_text("utf-8").replace("duration: 40s", "duration: 4s")
        text = text.replace("paths: 4", "paths: 1").replace("beside: [cubic, reno, bbr3]", "")
        (lab / name).write_text(text, encoding="utf-8")
    own = TEMPLATE.replace("beta = 50", "beta = 30")
    for student, text in (("alice", own), ("bob", own), ("carol", PANIC), ("dora", BROKEN)):
        handed_in(here / "all", student, text)
    before = set(own_controls())
    done = typed("lab", "rank", lab, "all", "--out", "out", "--jobs", 1)
    assert done.returncode == 0, done.stderr
    table = {
        row["student"]: row
        for row in csv.DictReader((here / "out/ranking.csv").read_text("utf-8").splitlines())
    }
    assert table["alice"]["rank"] == table["bob"]["rank"] == "1"
    assert table["alice"]["path_1"] == table["bob"]["path_1"] != ""
    assert "out of ideas" in table["carol"]["why_no_rank"] and table["carol"]["rank"] == ""
    assert re.search(r"its file:\d+:.*error", table["dora"]["why_no_rank"])
    assert "alice and bob are equal" in done.stdout and "1=" in done.stdout
    assert set(own_controls()) == before
