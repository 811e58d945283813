# SPDX-License-Identifier: MIT
"""Pin the lab's behaviour, to show that a refactoring does not change it.

    python3 -m tools.pin_behaviour [check]     print each difference; exit code 1 if there is one
    python3 -m tools.pin_behaviour write       pin the current behaviour

Pinned are the names of every experiment's runs (tests/data/run_names.json) and, in
tests/data/pinned/: the help of every verb, a digest of each file of the runs of runs.yaml, and the
tables of a report on some of them. A run without its kernel or program is skipped. One that was
pinned with other parts (kernel, root, iperf3, tunnel) may differ.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypedDict
from unittest.mock import patch

import gostlab
from gostlab import api, sandbox
from gostlab.cli import main as cli
from gostlab.install.locate import MissingPart, find_parts, kernel_for
from gostlab.registry.folders import ROOT
from tests.experiments import run_names

PINNED = ROOT / "tests/data/pinned"
EXPERIMENT = PINNED / "runs.yaml"
RUNS = PINNED / "runs.json"
HELP = PINNED / "help.txt"
TABLES = PINNED / "tables"
# The report has these matrices, which need only what setup always installs.
REPORTED = ("paths", "dumbbell")
MACHINE_TABLE = "environment.csv"
HELP_COLUMNS = "80"
HELP_PYTHON = (3, 11)  # other versions of argparse format help differently
# Keys that depend on the machine, the date or the commit; `files` and `sha256` include env.json,
# `guest_s` the time of the lab's own work.
VARYING_KEYS = {
    "env.json": {"host", "lab"},
    "status.json": {"epoch", "files", "finished", "guest_s", "sha256", "wall_s"},
}


@dataclass
class Comparison:
    """Differences from what is pinned, and notes on what was not compared."""

    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def compare(self, name: str, pinned: object, actual: object, excuse: str | None = None) -> None:
        """Record a difference, as a note if there is an excuse for it."""
        if pinned == actual:
            return
        if pinned is None or actual is None:
            verdict = "is not pinned" if pinned is None else "is pinned and no longer there"
        elif isinstance(pinned, Mapping) and isinstance(actual, Mapping):
            verdict = f"{', '.join(different_keys(pinned, actual))}: differ from what is pinned"
        else:
            verdict = "differs from what is pinned"
        if excuse is None:
            self.differences.append(f"{name}: {verdict}")
        else:
            self.notes.append(f"{name}: not compared: {excuse}")

    def compare_all(self, pinned: Mapping[str, object], actual: Mapping[str, object]) -> None:
        """Compare the values of two mappings key by key."""
        for name in different_keys(pinned, actual):
            self.compare(name, pinned.get(name), actual.get(name))


def different_keys(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """Return the keys whose values differ or that only one mapping has."""
    return [key for key in sorted({*one, *other}) if one.get(key) != other.get(key)]


def expanded_run_names() -> dict[str, str]:
    """Return the hash of the run names of each experiment's form."""
    return {
        f"run names of {name}, {form}": run_names.said_short(run_names.names_of(name, form))
        for name in run_names.list_experiments()
        for form in run_names.FORMS
    }


def pinned_run_names() -> dict[str, str]:
    """Return what expanded_run_names() returned when tests/data/run_names.json was written."""
    return {
        f"run names of {name}, {form}": digest
        for name, forms in run_names.kept().items()
        for form, digest in forms.items()
    }


def read_help(verb: tuple[str, ...]) -> str:
    """Return the output of `./lab VERB --help`."""
    printed = StringIO()
    columns = patch.dict(os.environ, {"COLUMNS": HELP_COLUMNS})
    with columns, redirect_stdout(printed), suppress(SystemExit):
        cli.main([*verb, "--help"])
    return printed.getvalue()


def help_pages(verb: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield the command and the help of a verb and of each verb below it."""
    page = read_help(verb)
    yield " ".join(("./lab", *verb, "--help")), page
    subverbs = re.search(r"^  (?:VERB|ACTION)\n((?:    .*\n)+)", page, re.MULTILINE)
    for name in re.findall(r"^    (\S+)", subverbs[1], re.MULTILINE) if subverbs else ():
        yield from help_pages((*verb, name))


def pinned_help_pages() -> dict[str, str]:
    """Return the pinned help by command."""
    parts = re.split(r"^\$ (.+)\n", HELP.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def compare_help(comparison: Comparison) -> None:
    """Compare the help of every verb."""
    if sys.version_info[:2] != HELP_PYTHON:
        version = ".".join(map(str, HELP_PYTHON))
        comparison.notes.append(f"help: not compared: pinned with Python {version}")
        return
    comparison.compare_all(pinned_help_pages(), dict(help_pages()))


def digest(path: Path) -> str:
    """Return the start of the SHA-256 of a result file, without the keys in VARYING_KEYS."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if path.name in VARYING_KEYS:
        values = json.loads(content)
        stable = {key: values[key] for key in values.keys() - VARYING_KEYS[path.name]}
        content = json.dumps(stable, sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()[:16]


class PinnedRun(TypedDict):
    """An entry of the pinned runs: the digests of its parts and of its files."""

    parts: dict[str, str | None]
    files: dict[str, str]


def read_parts(folder: Path, kernel: Path) -> dict[str, str | None]:
    """Return the digests of the parts that a run was made with."""
    with suppress(FileNotFoundError):
        env: dict[str, Any] = json.loads((folder / "env.json").read_text("utf-8"))
        return {
            "kernel": kernel.parent.name,
            "root": (env["host"].get("root") or {}).get("hash"),
            "iperf3": (env.get("iperf3_program") or {}).get("sha256"),
            "tunnel": (env.get("tunnel") or {}).get("sha256"),
        }
    return {}


def make_runs(
    results: Path, matrices: Collection[str] = ()
) -> tuple[dict[str, PinnedRun], dict[str, str]]:
    """Make the runs of some matrices, or of all, whose parts are on this machine.

    Return the parts and digests by run, and why runs were skipped by run.
    """
    experiment = gostlab.Experiment.from_file(EXPERIMENT, machine="sandbox", matrices=matrices)
    parts = find_parts()
    kernels: dict[str, Path] = {}
    skipped: dict[str, str] = {}
    for run in experiment.runs:
        try:
            sandbox.require_programs([run], parts)
            kernels[run.name] = kernel_for(run.kernel, parts)
        except MissingPart as error:
            skipped |= {
                other.name: str(error) for other in experiment.runs if other.matrix == run.matrix
            }
    possible = {run.matrix for run in experiment.runs if run.name not in skipped}
    if not possible:
        return {}, skipped
    experiment = gostlab.Experiment.from_file(EXPERIMENT, machine="sandbox", matrices=possible)
    results_by_run: dict[str, PinnedRun] = {}
    for result in experiment.run(results, progress=True):
        files = sorted(path for path in result.folder.iterdir() if path.is_file())
        results_by_run[result.name] = {
            "parts": read_parts(result.folder, kernels[result.name]),
            "files": {path.name: digest(path) for path in files},
        }
    return results_by_run, skipped


def explain_parts(pinned: PinnedRun, actual: PinnedRun) -> str | None:
    """Return which parts of a run are not those that it was pinned with, or None."""
    others = actual["parts"] and different_keys(pinned["parts"], actual["parts"])
    return f"pinned with another {' and '.join(others)}" if others else None


def compare_runs(comparison: Comparison, results: Path, matrices: Collection[str] = ()) -> None:
    """Make runs and compare each file; of all matrices, compare the report's tables too."""
    pinned: dict[str, PinnedRun] = json.loads(RUNS.read_text("utf-8"))
    results_by_run, skipped = make_runs(results, matrices)
    comparison.notes += [f"{name}: skipped: {reason}" for name, reason in skipped.items()]
    excuses = {
        name: explain_parts(pinned[name], results_by_run[name])
        for name in pinned.keys() & results_by_run.keys()
    }
    removed = () if matrices else pinned.keys() - results_by_run.keys() - skipped.keys()
    for name in sorted({*results_by_run, *removed}):
        before, now = pinned.get(name), results_by_run.get(name)
        old_files, new_files = before and before["files"], now and now["files"]
        comparison.compare(name, old_files, new_files, excuses.get(name))
    if any(map(is_reported, skipped)):
        comparison.notes.append("tables: skipped with their runs")
    elif not matrices:
        compare_tables(comparison, results, excuses)


def compare_tables(
    comparison: Comparison, results: Path, excuses: Mapping[str, str | None]
) -> None:
    """Compare the tables of a report on the runs of REPORTED."""
    actual = make_tables(results)
    pinned = {path.name: path.read_text("utf-8") for path in TABLES.glob("*.csv")}
    reported = [excuse for name, excuse in excuses.items() if is_reported(name)]
    excuse = next(filter(None, reported), None)
    for name in different_keys(pinned, actual):
        comparison.compare(f"tables/{name}", pinned.get(name), actual.get(name), excuse=excuse)


def is_reported(run: str) -> bool:
    """Return whether a run, by its name, belongs to a matrix of REPORTED."""
    return run.partition("-")[0] in REPORTED


def make_tables(results: Path) -> dict[str, str]:
    """Return the CSV tables of a report on the runs of REPORTED; none without such runs."""
    with TemporaryDirectory() as scratch:
        for folder in (results / "pinned").glob("*/"):
            if is_reported(folder.name):
                shutil.copytree(folder, Path(scratch, "pinned", folder.name))
        runs = list(Path(scratch).glob("pinned/*/env.json"))
        if not runs:
            return {}
        shutil.copy(EXPERIMENT, Path(scratch, "pinned", "experiment.yaml"))
        lab = json.loads(runs[0].read_text("utf-8"))["lab"]
        commit = f"{lab['version']} {lab['commit']}"
        report = api.report(Path(scratch), [str(EXPERIMENT)])
        tables = sorted((report.parent / "tables").glob("*.csv"))
        return {
            path.name: path.read_text("utf-8").replace(commit, "LAB")
            for path in tables
            if not path.name.endswith(MACHINE_TABLE)
        }


def check(results: Path) -> Comparison:
    """Compare everything that is pinned."""
    comparison = Comparison()
    comparison.compare_all(pinned_run_names(), expanded_run_names())
    compare_help(comparison)
    compare_runs(comparison, results)
    return comparison


def write(results: Path) -> Iterable[str]:
    """Pin the current behaviour, and return the reasons for runs that were skipped."""
    run_names.main([])
    if sys.version_info[:2] == HELP_PYTHON:
        HELP.write_text("".join(f"$ {name}\n{page}" for name, page in help_pages()), "utf-8")
    results_by_run, skipped = make_runs(results)
    before = json.loads(RUNS.read_text("utf-8")) if RUNS.exists() else {}
    unchanged = {name: before[name] for name in before.keys() & skipped.keys()}
    RUNS.write_text(
        json.dumps(unchanged | results_by_run, indent=1, sort_keys=True) + "\n", "utf-8"
    )
    tables = make_tables(results)
    if tables:
        shutil.rmtree(TABLES, ignore_errors=True)
        TABLES.mkdir()
    for name, text in tables.items():
        (TABLES / name).write_text(text, "utf-8")
    return [f"{name}: skipped: {reason}" for name, reason in skipped.items()]


def main(argv: list[str]) -> int:
    """Check or write, print the differences, and return the exit code."""
    parser = argparse.ArgumentParser(prog="tools/pin_behaviour.py", description=__doc__)
    parser.add_argument("action", nargs="?", choices=("check", "write"), default="check")
    parser.add_argument(
        "--results", type=Path, help="keep the runs in this folder, to compare by diff -r"
    )
    arguments = parser.parse_args(argv)
    if arguments.results and list(arguments.results.glob("*")):
        parser.error(
            f"--results {arguments.results}: has files: runs found there are not made anew"
        )
    with TemporaryDirectory() as scratch:
        results = arguments.results or Path(scratch)
        if arguments.action == "write":
            for line in write(results):
                print(line)
            return 0
        comparison = check(results)
    for line in (*comparison.notes, *comparison.differences):
        print(line)
    print(f"{len(comparison.differences)} differences, {len(comparison.notes)} not compared")
    return 1 if comparison.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
