# SPDX-License-Identifier: MIT
"""What every command line does: version, help, quiet and verbose, JSON, a closed pipe."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gostlab
from gostlab.cli import doctor
from tests.lab_command import ROOT, Refused, Typed, said_by


@pytest.mark.parametrize("option", ["-V", "--version"])
def test_the_version_is_one_line(typed: Typed, option: str) -> None:
    done = typed(option)
    assert (done.returncode, done.stdout) == (0, f"gostlab {gostlab.__version__}\n")


def test_help_is_a_verb(typed: Typed, refused: Refused) -> None:
    assert typed("help").stdout == typed("--help").stdout
    assert typed("help", "kernel", "add").stdout == typed("kernel", "add", "--help").stdout
    assert "did you mean report" in refused("help", "repor")


LISTINGS = (
    *("cc list", "kernel list", "profile list", "labs", "settings", "catalogue"),
    "run thesis-tunnel --quick --dry-run",
)


@pytest.mark.parametrize("words", LISTINGS)
def test_every_listing_is_there_as_json(typed: Typed, here: Path, words: str) -> None:
    listed = json.loads(typed(*words.split(), "--json").stdout)
    assert len(listed) > 2
    assert len({frozenset(row) for row in listed if words != "settings"}) <= 3


def test_what_is_listed_for_a_person_and_for_a_program_is_the_same(typed: Typed) -> None:
    for words in ("kernel list", "profile list"):
        names = [row["name"] for row in json.loads(typed(*words.split(), "--json").stdout)]
        shown = typed(*words.split()).stdout.splitlines()
        assert [line.split(":")[0] for line in shown] == names


def test_quiet_and_verbose_may_stand_before_the_verb(refused: Refused) -> None:
    assert "--verbose and --quiet" in refused("-q", "--verbose", "try")
    assert refused("-q", "labs") == refused("labs", "-q")
    assert "VERB" in refused("-q")


def test_quiet_and_verbose_exclude_each_other(refused: Refused) -> None:
    words = ("try", "--for", "1s", "--results", "results")
    assert "--verbose and --quiet" in refused(*words, "-q", "-v")


@pytest.mark.sandbox
def test_quiet_hides_the_progress_and_verbose_names_each_run_that_starts(
    typed: Typed, here: Path
) -> None:
    words = ("try", "--for", "1s", "--rate", "10mbit", "--cc")
    quiet, usual, verbose = (
        typed(*words, control, *option).stderr
        for control, option in (("cubic", ["-q"]), ("bbr", []), ("reno", ["-v"]))
    )
    assert "[1/1]" not in quiet and "warning" not in quiet.replace("warning: ", "", 1)
    assert "[1/1]" in usual and "starting" not in usual
    assert "\nstarting try-" in verbose and "[1/1]" in verbose


@pytest.mark.parametrize("command", ["gostlab", "gostlab.cli.doctor", "gostlab.install"])
def test_a_reader_that_goes_ends_a_command_without_a_word(command: str) -> None:
    words = ["doctor", "--help"] if command == "gostlab" else ["--help"]
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", command, *words],
        cwd=ROOT,
        stdout=writes,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (1, "")


def test_the_doctor_says_in_words_that_python_has_no_mininet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'Traceback (most recent call last):' >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(doctor.setup, "missing_packages", lambda _wanted: [])
    monkeypatch.setattr(doctor.setup, "missing_programs", list)
    finding = doctor._packages()
    assert finding.state == "absent" and "no Mininet" in finding.detail


def test_topo_is_imported_without_mininet_and_ends_nothing() -> None:
    script = "import sys; sys.modules['mininet'] = None; import topo; print(sorted(topo.topos)[0])"
    done = said_by(sys.executable, "-c", script)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout
