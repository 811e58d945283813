# SPDX-License-Identifier: MIT
"""examples/: each folder runs as its page says, and what it expects holds."""

import re
import shutil
from pathlib import Path

import pytest

from gostlab.registry import congestion_controls, folders
from gostlab.registry.folders import ROOT
from tests.lab_command import Gost, Typed
from tests.sandboxed import Lab
from tests.skips import require_programs

EXAMPLES = ROOT / "examples"
FOLDERS = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
MAX_LINES = 40  # a screen


@pytest.fixture
def own_controls(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No control of the user's own but those that the test adds."""
    for module in (folders, congestion_controls):
        monkeypatch.setattr(module, "own_cc_folder", lambda: here / "controls")


@pytest.fixture
def copied(here: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The test stands in a copy of the folder that it names."""
    shutil.copytree(EXAMPLES / request.param, here / request.param)
    monkeypatch.chdir(here / request.param)


def commands_in(folder: str) -> list[list[str]]:
    """The lab's commands on an example's page."""
    text = (EXAMPLES / folder / "README.md").read_text("utf-8")
    lines = re.findall(r"^    gostlab (.*?)(?: +#.*)?$", text, re.MULTILINE)
    return [line.split() for line in lines]


def check(typed: Typed, *words: str) -> None:
    more = ("--machine", "sandbox") if words[0] == "run" else ()
    done = typed(*words, *more)
    assert done.returncode == 0, done.stdout + done.stderr
    if words[0] == "run":
        assert re.search(r"^[1-9]\d* expectations: .* 0 failed$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_example_fits_a_screen_and_is_listed(folder: str) -> None:
    lines = (EXAMPLES / folder / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= MAX_LINES and lines[0].startswith("# ")
    assert f"]({folder}/README.md)" in (EXAMPLES / "README.md").read_text("utf-8")
    assert commands_in(folder)


@pytest.mark.sandbox
@pytest.mark.parametrize("copied", ["quic-paths"], indirect=True)
def test_a_quic_program_reaches_its_goodput_on_five_paths(
    lab: Lab, copied: None, typed: Typed
) -> None:
    require_programs("gtlsclient", "gtlsserver", "openssl", path="/usr/bin:/usr/sbin")
    for words in commands_in("quic-paths"):
        check(typed, *words)
    # The program is another one: another run.
    program = Path("program/client")
    names = typed("run", "./paths.gostlab.yaml", "--dry-run").stdout
    program.write_text(program.read_text().replace("exec", "sleep 0.5; exec"))
    assert not set(names.split()) & set(
        typed("run", "./paths.gostlab.yaml", "--dry-run").stdout.split()
    )


@pytest.mark.sandbox
@pytest.mark.parametrize("copied", ["cc-module"], indirect=True)
def test_a_module_is_not_worse_than_its_last_version(
    lab: Lab, own_controls: None, copied: None, typed: Typed
) -> None:
    for words in commands_in("cc-module"):
        check(typed, *words)


@pytest.mark.sandbox
@pytest.mark.real_gost
@pytest.mark.parametrize("copied", ["gost-versions"], indirect=True)
def test_a_gost_is_as_fast_as_the_one_before(
    lab: Lab, gost: Gost, copied: None, typed: Typed
) -> None:
    for version in ("2.11.5", "3.2.6"):
        gost(version)
    check(typed, *commands_in("gost-versions")[-1])
