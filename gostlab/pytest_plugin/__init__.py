# SPDX-License-Identifier: MIT
"""Test networks with pytest: the fixture `lab`, `*.gostlab.yaml` files as tests, exact baselines.

    def test_bbr_fills_the_link(lab):
        assert lab.run(cc="bbr", rate="20mbit", rtt="40ms", loss="1%").goodput_mbit >= 15

pytest finds it by its entry point (`pip install gostlab[pytest]`), or as -p gostlab.pytest_plugin.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from gostlab.errors import BadInput
from gostlab.pytest_plugin.baseline import Baseline
from gostlab.pytest_plugin.runner import RUNNER, RUNS, CheckedRun, Runner, describe_run

BASELINE = pytest.StashKey[Baseline]()
ENDING = (".gostlab.yaml", ".gostlab.yml")
WORKER_OUTPUT = "gostlab_baseline"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gostlab", "networks (gostlab)")
    group.addoption(
        "--gostlab-results",
        metavar="FOLDER",
        help="where runs are kept; a finished run is found by its hash and not run again"
        " (default: gostlab_results of the configuration, or .gostlab-results)",
    )
    group.addoption(
        "--gostlab-update",
        action="store_true",
        help="write the exact results of the selected tests to the baseline file",
    )
    group.addoption(
        "--gostlab-quick", action="store_true", help="run the quick form of *.gostlab.yaml files"
    )
    parser.addini("gostlab_results", "where gostlab's runs are kept", default=".gostlab-results")
    parser.addini("gostlab_baseline", "file of exact results", default="gostlab-baseline.json")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gostlab: runs a network (every *.gostlab.yaml cell)")
    config.addinivalue_line("markers", "gostlab_exact: its runs must be in the baseline file")
    folder = config.getoption("--gostlab-results") or config.getini("gostlab_results")
    is_worker = hasattr(config, "workerinput")
    config.stash[RUNNER] = Runner(config.rootpath / folder, is_worker=is_worker)
    try:
        config.stash[BASELINE] = Baseline.read(config.rootpath / config.getini("gostlab_baseline"))
    except BadInput as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Any:
    """Return a lab whose runs belong to the test: lab.run(cc="bbr", rate="20mbit")."""
    return request.config.stash[RUNNER].of_test(request.node)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "lab" in getattr(item, "fixturenames", ()):
            item.add_marker("gostlab")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not file_path.name.endswith(ENDING):
        return None
    from gostlab.pytest_plugin.experiment_file import ExperimentTests

    tests: pytest.Collector = ExperimentTests.from_parent(parent, path=file_path)
    return tests


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Compare a test's runs with the baseline after it passed."""
    result = yield
    runs: list[CheckedRun] = item.stash.get(RUNS, [])
    baseline = item.config.stash[BASELINE]
    if item.config.getoption("--gostlab-update"):
        baseline.add(item.nodeid, runs)
        return result
    is_needed = item.get_closest_marker("gostlab_exact") is not None
    if differences := baseline.differences(item.nodeid, runs, is_needed=is_needed):
        pytest.fail("\n".join(differences), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Add path, command and page of each run to the report of a failed test."""
    report = yield
    runs = item.stash.get(RUNS, [])
    if report.when == "call":
        item.user_properties.extend(("gostlab_run", str(run.folder)) for run in runs)
        if report.failed:
            report.sections.extend((f"gostlab run {run.name}", describe_run(run)) for run in runs)
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what an xdist worker adds to the baseline."""
    added = getattr(node, "workeroutput", {}).get(WORKER_OUTPUT, {})
    node.config.stash[BASELINE].added.update(added)


def pytest_sessionfinish(session: pytest.Session) -> None:
    session.config.stash[RUNNER].close()
    baseline = session.config.stash[BASELINE]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[WORKER_OUTPUT] = baseline.added
    else:
        baseline.write()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if added := config.stash[BASELINE].added:
        path = config.stash[BASELINE].path
        terminalreporter.write_line(f"gostlab: {len(added)} tests' exact results are in {path}")
