# SPDX-License-Identifier: MIT
"""Every plugin that there is passes the one battery, and so does a stranger's package."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from gostlab.errors import BadInput
from gostlab.plugin_check.check_steps import (
    FAILED,
    NOT_APPLICABLE,
    STEPS,
    StepOutcome,
    check_plugin,
)
from gostlab.plugin_check.discovery import all_plugins
from gostlab.profile_import.import_cli import guess_format, read_recording
from gostlab.registry.folders import ROOT
from tests.lab_command import said_by
from tests.registry.installed_plugins import MODULES, install
from tests.sandboxed import Lab
from tests.skips import skip_without_gost

RECORDINGS = Path(__file__).parents[1] / "data/recordings"
NEWEST = "3.2.6"


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs that several plugins share."""
    return tmp_path_factory.mktemp("plugin-check")


@cache
def samples() -> dict[str, list[Path]]:
    """A recording that each importer is the first to recognise."""
    found: dict[str, list[Path]] = {}
    for path in sorted(RECORDINGS.iterdir()):
        try:
            found.setdefault(guess_format([read_recording(path)]).name, [path])
        except BadInput:
            continue
    return found


@pytest.mark.sandbox
@pytest.mark.parametrize(("group", "name"), all_plugins())
def test_a_plugin_passes_its_battery(lab: Lab, results: Path, group: str, name: str) -> None:
    given = samples().get(name, []) if group == "importers" else []

    outcomes = check_plugin(group, name, results=results, samples=given)

    assert [outcome.step for outcome in outcomes] == list(STEPS)
    assert [str(outcome) for outcome in outcomes if outcome.result == FAILED] == []
    lacking = [each for each in outcomes if each.result == NOT_APPLICABLE and "GOST" in each.reason]
    if lacking:
        skip_without_gost(NEWEST)


# A tunnel that declares other bytes than it sends, a queue whose marks are counted elsewhere, …
WRONG = {
    "tunnels": ('says="a TCP', 'frames=((1000, 100),), says="a TCP', "carries: failed: bytes on"),
    "qdiscs": ('option="NET_SCHED"', 'option="NET_OTHER"', "declares: failed: option"),
    "traffic": ('"""burst: iperf3 once more."""', "", "declares: failed: its module has no docst"),
    "importers": ("if match is None", "if False", "refuses: failed: "),
    "plots": ("return figure", "return None", "starts: failed: it raises"),
}


def run_check(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(site)}
    return said_by(ROOT / "lab", "plugin", *words, cwd=site, env=environ)


NAMES = {**{group: name for group, (name, _) in MODULES.items()}}


@pytest.mark.sandbox
@pytest.mark.parametrize("group", MODULES)
def test_a_strangers_plugin_is_checked_alike(lab: Lab, tmp_path: Path, group: str) -> None:
    site = install(tmp_path)
    (tmp_path / "sample.memo").write_text("5 Mbit/s, 20 ms\n")
    sample = ("--sample", "sample.memo") if group == "importers" else ()

    done = run_check(site, group, NAMES[group], *sample)

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("passed") == len(STEPS), done.stdout


@pytest.mark.sandbox
@pytest.mark.parametrize("group", WRONG)
def test_what_a_stranger_left_out_is_told(lab: Lab, tmp_path: Path, group: str) -> None:
    old, new, says = WRONG[group]
    text = MODULES[group][1]
    assert old in text
    site = install(tmp_path, **{group: text.replace(old, new)})

    done = run_check(site, group, NAMES[group])

    assert done.returncode == 1 and f"{NAMES[group]}: {says}" in done.stdout, done.stdout


def test_a_plugin_that_there_is_not_is_refused() -> None:
    with pytest.raises(BadInput, match="no such plugin among tunnels: warp"):
        check_plugin("tunnels", "warp")
    with pytest.raises(BadInput, match="no such group of plugins: pipes"):
        check_plugin("pipes", "warp")


def test_an_outcome_is_one_line() -> None:
    outcome = StepOutcome("tunnels", "mine", "starts", FAILED, "no")
    assert str(outcome) == "tunnels mine: starts: failed: no"
