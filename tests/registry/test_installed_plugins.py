# SPDX-License-Identifier: MIT
"""Plugins of another package, found by their entry points, run like the lab's own."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from gostlab.registry.folders import ROOT
from tests.lab_command import said_by
from tests.registry.installed_plugins import MODULES, install
from tests.sandboxed import Lab

EXPERIMENT = """
name: strangers
title: Strangers
settings: {profile: plain-100ms, duration: 1s, rate: 5mbit, rtt: 20ms, buffer: 50pkts}
matrices:
  - {name: tunnels, settings: {tunnel: forwarder}}
  - {name: qdiscs, settings: {queue: short}}
  - {name: traffic, settings: {flows: {a: {kind: burst}}}}
  - {name: topologies, settings: {topology: pairs, flows: {a: {}, b: {}}}, draw: [pies]}
"""


def run_lab(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What ./lab comes to where the package is installed."""
    environ = {**os.environ, "PYTHONPATH": str(site)}
    return said_by(ROOT / "lab", *words, cwd=site, env=environ)


def words_of(report: Path) -> str:
    """What stands in a report's figures and page, which name the software that made the numbers."""
    return " ".join(path.read_text("utf-8") for path in report.rglob("*.svg"))


@pytest.mark.sandbox
def test_each_type_of_plugin_runs_and_is_named_in_its_runs(lab: Lab, tmp_path: Path) -> None:
    site = install(tmp_path)
    (tmp_path / "mine.yaml").write_text(EXPERIMENT)
    words = ("run", "./mine.yaml", "--machine", "sandbox", "--results", "results")

    done = run_lab(site, *words)

    assert done.returncode == 0, done.stdout + done.stderr
    for group in ("tunnels", "qdiscs", "traffic", "topologies"):
        [folder] = (tmp_path / "results" / "strangers").glob(f"{group}-*")
        [plugin] = json.loads((folder / "run.json").read_text())["plugins"]
        assert plugin["module"] == f"stranger.{MODULES[group][0]}"
        assert (plugin["package"], plugin["version"]) == ("gostlab-stranger", "1.2")

    reported = run_lab(site, "report", "./mine.yaml", "--results", "results", "--out", "out")
    assert reported.returncode == 0, reported.stderr
    assert (tmp_path / "out" / "figures" / "strangers-topologies-pies.png").exists()

    assert "plugins: gostlab-stranger 1.2" in words_of(tmp_path / "out")

    # Another text of any of its modules is another run.
    (site / "stranger" / "__init__.py").write_text("ANOTHER = True\n")
    planned = set(run_lab(site, *words, "--dry-run").stdout.split())
    assert len(planned) == 4 and not any((folder.parent / name).exists() for name in planned)


@pytest.mark.parametrize(
    ("group", "text", "says"),
    [
        ("tunnels", "1 / 0\n", "forwarder of gostlab-stranger 1.2 (forwarder.py:1): ZeroDivision"),
        ("qdiscs", "import gone\n", "short of gostlab-stranger 1.2 (short.py:1): ModuleNotFound"),
        ("traffic", "TRAFFIC = (\n", "burst of gostlab-stranger 1.2 (burst.py:1): SyntaxError"),
        ("tunnels", MODULES["tunnels"][1].replace('"forwarder"', '"stunnel"'), "are both called"),
        ("qdiscs", MODULES["qdiscs"][1].replace('"short"', '"red"'), "are both called red"),
        ("traffic", MODULES["traffic"][1].replace('"burst"', '"udp"'), "are both called udp"),
        ("topologies", MODULES["topologies"][1].replace('"pairs"', '"star"'), "called star"),
        ("tunnels", MODULES["tunnels"][1].replace("def start", "def begin"), "without a function"),
    ],
)
def test_one_that_is_broken_or_clashes_is_named_in_one_line(
    tmp_path: Path, group: str, text: str, says: str
) -> None:
    site = install(tmp_path, **{group: text})

    done = run_lab(site, "run", "thesis-tunnel", "--dry-run")

    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert "gostlab-stranger 1.2" in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_an_importer_is_found_and_named_in_its_profile(tmp_path: Path) -> None:
    site = install(tmp_path)
    (tmp_path / "path.memo").write_text("5 Mbit/s, 20 ms\n")

    done = run_lab(site, "profile", "import", "path.memo", "--name", "mine", "--out", ".")

    assert done.returncode == 0, done.stderr
    assert "stranger.memo of gostlab-stranger 1.2" in (tmp_path / "mine.yaml").read_text()
