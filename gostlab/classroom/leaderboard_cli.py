# SPDX-License-Identifier: MIT
"""Implement `./lab lab rank`, the ranking of congestion controls by their fair use of a link."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gostlab.classroom import leaderboard, lms_downloads
from gostlab.classroom.batch_grading import (
    find_owner_doubt,
    find_pupil,
    read_claimed_student,
    strip_temporary_path,
)
from gostlab.classroom.lab import ANSWERS, CourseLab, RankingRules, load_lab
from gostlab.classroom.leaderboard import HiddenPath, RankedEntry
from gostlab.classroom.roster import Roster, read_roster
from gostlab.classroom.safe_extract import only_bad_input
from gostlab.classroom.student_assignment import read_secret
from gostlab.cli.common import EXIT_FAILED, EXIT_OK, say
from gostlab.registry.folders import ROOT
from gostlab.scheduler.summary import plain_table
from gostlab.spec.yaml_source import BadInput


def rank_students(arguments: argparse.Namespace) -> int:
    """Rank a file, a hand-in or a class, and return 1 if nobody has a rank."""
    lab = load_lab(arguments.lab)
    if lab.rank is None:
        raise BadInput(f"{lab.title}: nothing is ranked there (lab 9 ranks congestion controls)")
    secret = read_secret(arguments.secret)
    roster = read_roster(arguments.roster) if arguments.roster else Roster(())
    entries = read_entries(arguments.what, lab.rank, roster)
    paths = leaderboard.draw_paths(lab, lab.rank, arguments.course, secret)
    out = arguments.out or Path(f"ranked-{lab.name}")
    ranking = leaderboard.rank_all(lab, lab.rank, entries, paths, out, arguments.jobs, say)
    text = leaderboard.to_csv(ranking, paths)
    (out / "ranking.csv").write_text(text, encoding="utf-8", newline="")
    print_ranking(ranking, paths, lab)
    for line in leaderboard.tie_lines(ranking):
        print(line)
    whose_paths = "the course's" if secret else "public ones: with --secret they are hidden"
    for path in paths:
        print(f"path {path.number}: {path.text}")
    print(f"the paths are {whose_paths} · {out / 'ranking.csv'} · the runs: {out}/path-*")
    return EXIT_OK if any(entry.rank for entry in ranking) else EXIT_FAILED


def read_entries(what: Path, rank: RankingRules, roster: Roster) -> list[RankedEntry]:
    """Return the entries in a C file, a hand-in's folder, or a download. Raises BadInput."""
    if what.is_symlink() or not what.exists():
        raise BadInput(f"{what}: no such C file, folder or zip")
    if what.is_file() and what.suffix == ".c":
        return [RankedEntry(what.name, leaderboard.read_source(what))]
    if what.is_dir() and ((what / rank.file).is_file() or (what / ANSWERS).is_file()):
        return [read_entry(what, read_claimed_student(what) or what.name, rank)]
    download = lms_downloads.read_download(what)
    by_student: dict[str, tuple[tuple[bool, tuple[str, int, str]], RankedEntry]] = {}
    for handed in download.hand_ins:
        pupil = find_pupil(handed, roster)
        try:
            with (
                only_bad_input(handed.label),
                lms_downloads.open_hand_in(download.path, handed) as folder,
            ):
                claims = read_claimed_student(folder)
                # The ticket is not checked against the secret: only the name confirms the owner.
                if roster.pupils and (why := find_owner_doubt(handed, pupil, claims)):
                    raise BadInput(why)
                pupil = pupil or roster.find_by_identifier(claims)
                student = (
                    pupil.primary_identifier
                    if pupil
                    else handed.who.label or claims or handed.label
                )
                entry = read_entry(folder, student, rank)
        except BadInput as error:
            reason = strip_temporary_path(str(error).replace(f"{download.path}/", ""))
            entry = RankedEntry(pupil.primary_identifier if pupil else handed.label, b"", reason)
        # The last hand-in counts, and one that can be ranked takes precedence.
        order = not entry.why_not, handed.order
        if entry.student not in by_student or order > by_student[entry.student][0]:
            by_student[entry.student] = order, entry
    return [entry for _, entry in by_student.values()] + [
        RankedEntry(pupil.primary_identifier, b"", "handed in nothing")
        for pupil in roster.pupils
        if pupil.primary_identifier not in by_student
    ]


def read_entry(folder: Path, student: str, rank: RankingRules) -> RankedEntry:
    """Return a student's entry, or one with the reason for having no rank."""
    try:
        source = leaderboard.read_source(folder / rank.file)
    except BadInput as error:
        return RankedEntry(student, b"", str(error))
    untouched = source == (ROOT / rank.start).read_bytes()
    return RankedEntry(student, source, f"{rank.file}: as it was handed out" if untouched else "")


def print_ranking(
    ranking: Sequence[RankedEntry], paths: Sequence[HiddenPath], lab: CourseLab
) -> None:
    from rich.text import Text

    from gostlab.console import Console

    table = plain_table()
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    for path in paths:
        table.add_column(f"path {path.number}", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for entry in ranking:
        row = ["–", entry.student, *[""] * (len(paths) + 1), f"no rank: {entry.why_not}"]
        if not entry.why_not:
            position = f"{entry.rank}{'=' if entry.ties else ''}" if entry.rank else ""
            scores = [f"{value:.1f}" for value in (entry.mean, *entry.scores)]
            row = [position, entry.student, *scores, "for comparison" if entry.is_reference else ""]
        table.add_row(*map(Text, row))
    print(f"{lab.title}: what the poorer of two tunnels got, in % of half of the link")
    Console(sys.stdout).print(table)
