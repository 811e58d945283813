"""`./lab lab rank`: whose congestion control shares a link best."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from gostlab.classroom import leaderboard, lms_export
from gostlab.classroom.assignment import read_secret
from gostlab.classroom.batch_grading import claimed, unconfirmed, whose, without_places
from gostlab.classroom.lab import ANSWERS, CourseLab, Rank, load_lab
from gostlab.classroom.leaderboard import Entry, HiddenPath
from gostlab.classroom.roster import Roster, read_roster
from gostlab.classroom.safe_extract import only_bad_input
from gostlab.cli.common import EXIT_FAILED, EXIT_OK, say
from gostlab.console import Console
from gostlab.registry.folders import ROOT
from gostlab.scheduler.summary import plain_table
from gostlab.spec.yaml_source import BadInput


def rank_students(arguments: argparse.Namespace) -> int:
    """Rank a file, a hand-in or a class's; the exit code: 1 if nobody has a rank."""
    lab = load_lab(arguments.lab)
    if lab.rank is None:
        raise BadInput(f"{lab.title}: nothing is ranked there (lab 9 ranks congestion controls)")
    secret = read_secret(arguments.secret)
    roster = read_roster(arguments.roster) if arguments.roster else Roster(())
    entries = entries_in(arguments.what, lab.rank, roster)
    paths = leaderboard.paths_of(lab, lab.rank, arguments.course, secret)
    out = arguments.out or Path(f"ranked-{lab.name}")
    found = leaderboard.rank_all(lab, lab.rank, entries, paths, out, arguments.jobs, say)
    text = leaderboard.to_csv(found, paths)
    (out / "ranking.csv").write_text(text, encoding="utf-8", newline="")
    print_ranking(found, paths, lab)
    for line in leaderboard.tie_lines(found):
        print(line)
    whose_paths = "the course's" if secret else "public ones: with --secret they are hidden"
    for path in paths:
        print(f"path {path.number}: {path.words}")
    print(f"the paths are {whose_paths} · {out / 'ranking.csv'} · the runs: {out}/path-*")
    return EXIT_OK if any(each.rank for each in found) else EXIT_FAILED


def entries_in(what: Path, asked: Rank, roster: Roster) -> list[Entry]:
    """What there is to rank: a C file, a hand-in's folder, or a download. Raises BadInput."""
    if what.is_symlink() or not what.exists():
        raise BadInput(f"{what}: no such C file, folder or zip")
    if what.is_file() and what.suffix == ".c":
        return [Entry(what.name, leaderboard.read_source(what))]
    if what.is_dir() and ((what / asked.file).is_file() or (what / ANSWERS).is_file()):
        return [entry_of(what, claimed(what) or what.name, asked)]
    found = lms_export.read_download(what)
    by_student: dict[str, tuple[tuple[bool, tuple[str, int, str]], Entry]] = {}
    for handed in found.hand_ins:
        pupil = whose(handed, roster)
        try:
            with only_bad_input(handed.label), lms_export.opened(found.path, handed) as folder:
                claims = claimed(folder)
                # A ticket is not held against the secret here: nothing but the name is a proof.
                if roster.pupils and (why := unconfirmed(handed, pupil, claims)):
                    raise BadInput(why)
                pupil = pupil or roster.known_as(claims)
                student = pupil.primary if pupil else handed.who.words or claims or handed.label
                entry = entry_of(folder, student, asked)
        except BadInput as error:
            said = without_places(str(error).replace(f"{found.path}/", ""))
            entry = Entry(pupil.primary if pupil else handed.label, b"", said)
        # The last counts; what can be ranked before what cannot.
        order = not entry.why_not, handed.order
        if entry.student not in by_student or order > by_student[entry.student][0]:
            by_student[entry.student] = order, entry
    return [entry for _, entry in by_student.values()] + [
        Entry(pupil.primary, b"", "handed in nothing")
        for pupil in roster.pupils
        if pupil.primary not in by_student
    ]


def entry_of(folder: Path, student: str, asked: Rank) -> Entry:
    """A student's file, or why there is none."""
    try:
        source = leaderboard.read_source(folder / asked.file)
    except BadInput as error:
        return Entry(student, b"", str(error))
    untouched = source == (ROOT / asked.start).read_bytes()
    return Entry(student, source, f"{asked.file}: as it was handed out" if untouched else "")


def print_ranking(found: Sequence[Entry], paths: Sequence[HiddenPath], lab: CourseLab) -> None:
    table = plain_table()
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    for path in paths:
        table.add_column(f"path {path.number}", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for each in found:
        row = ["–", each.student, *[""] * (len(paths) + 1), f"no rank: {each.why_not}"]
        if not each.why_not:
            place = f"{each.rank}{'=' if each.ties else ''}" if each.rank else ""
            scores = [f"{value:.1f}" for value in (each.mean, *each.scores)]
            row = [place, each.student, *scores, "for comparison" if each.is_reference else ""]
        table.add_row(*map(Text, row))
    print(f"{lab.title}: what the poorer of two tunnels got, in % of half of the link")
    Console(sys.stdout).print(table)
