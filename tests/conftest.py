# SPDX-License-Identifier: MIT
"""What holds for every test: marks by folder, no kernel no sandbox, and what each folder took."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, Any

import pytest

from gostlab.cli.main import main
from gostlab.install import gost_versions
from gostlab.install.locate import (
    MissingPart,
    TunnelBinary,
    file_sha256,
    find_gosts,
    find_parts,
    read_gost_version,
    require_kernel,
)
from tests import skips
from tests.lab_command import Gost, Refused, Typed
from tests.sandboxed import Lab

if TYPE_CHECKING:
    from tests.analysis.browser import Browser

TESTS = Path(__file__).resolve().parent
PACKED_GOSTS = TESTS.parents[1] / "shared" / "gost"
BEGAN = pytest.StashKey[float]()
CPU_S = "cpu_s"
LONG_S = 3.0

os.environ["GOSTLAB_CONFIG"] = ""  # a developer's own defaults
os.environ.pop("COLUMNS", None)  # a newer pytest-xdist says 80, and tables are wider
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # more spin for work on a few numbers
gc.set_threshold(50_000)  # what looks for garbage looks at all the tests: an eighth of the time


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The sandbox as tests use it."""
    return Lab(tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module", autouse=True)
def no_process_left() -> Iterator[None]:
    """A module whose tests leave a process running fails itself, and not the tests after it."""
    if find_spec("psutil") is None:
        yield
        return
    from tests.offspring import adopt_orphans, all_gone, offspring

    adopt_orphans()
    before = {process.pid for process in offspring()}
    yield
    left = all_gone(besides=before)
    assert not left, [(process, process.cmdline()) for process in left]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, which the test stands in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """What `./lab WORDS` comes to, in this process."""

    def type_in(*words: object) -> CompletedProcess[str]:
        capsys.readouterr()
        status = main([str(word) for word in words])
        printed, told = capsys.readouterr()
        return CompletedProcess(words, status, printed, told)

    return type_in


@pytest.fixture
def refused(typed: Typed) -> Refused:
    """The one line that some words are refused with, and exit code 2."""

    def say(*words: object) -> str:
        done = typed(*words)
        assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        return done.stderr

    return say


@pytest.fixture
def no_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a machine needs is asked of none: a test makes its runs' workers up."""
    for needed in ("sandbox.require_programs", "sandbox.require_kernels", "api.run.run_starter"):
        monkeypatch.setattr(f"gostlab.{needed}", lambda *_: None)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One Chromium for all that is looked at."""
    pytest.importorskip("selenium", reason="no selenium")
    from tests.analysis.browser import Browser

    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("no chromium")
    with Browser(chromium, chromedriver, tmp_path_factory.mktemp("chromium")) as started:
        yield started


@cache
def folder_of(path: Path) -> str:
    """The folder of tests/ that a test stands in."""
    return (*path.resolve().relative_to(TESTS).parts[:-1], "whole")[0]


@pytest.fixture(scope="session")
def gost(tmp_path_factory: pytest.TempPathFactory) -> Gost:
    """A real GOST by its version: beside the checkout, in the cache, or that GOSTLAB_GOST names.
    A test that asks for one is marked `real_gost`, and skipped where it is not there.
    """
    found = dict(find_gosts())
    named = os.environ.get("GOSTLAB_GOST")
    for packed in [*sorted(PACKED_GOSTS.glob("*.xz")), *([Path(named)] if named else [])]:
        if any(f"gost-{version}-" in packed.name for version in found):
            continue
        program = gost_versions.unpack_program(packed, tmp_path_factory.mktemp("gost"))
        said = read_gost_version(program)
        if said is not None:
            binary = TunnelBinary(program, "gost", str(said), file_sha256(program))
            found.setdefault(said.version, binary)

    def of_version(version: str) -> TunnelBinary:
        if version not in found:
            skips.skip_without_gost(version)
        return found[version]

    return of_version


def why_no_kernel() -> str | None:
    """Why the sandbox cannot boot here, in a sentence; None if it can."""
    try:
        require_kernel(find_parts())
    except MissingPart as missing:
        return str(missing)
    return None


def pytest_configure(config: pytest.Config) -> None:
    # A shell ignores SIGINT in what it runs in the background, and programs inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(skips)
    folders = {folder_of(test) for test in TESTS.glob("**/test_*.py")}
    for folder in sorted(folders):
        config.addinivalue_line("markers", f"{folder}: stands in tests/{folder}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(folder_of(item.path))
    needing = [item for item in items if item.get_closest_marker("sandbox")]
    reason = why_no_kernel() if needing else None
    for item in needing if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))
    # A file is one worker's: those with the most long tests come first, so that no long one is
    # last.
    long = Counter(
        item.path
        for item in items
        if any(map(item.get_closest_marker, ("sandbox", "slow", "real_gost")))
    )
    items.sort(key=lambda item: -long[item.path])


def pytest_collection_finish() -> None:
    gc.freeze()


def spent_s() -> float:
    """The CPU time of this process and of all that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    item.stash[BEGAN] = spent_s()
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With the last part of a test comes the CPU time of all of it."""
    outcome: Any = yield
    report = outcome.get_result()
    if report.when == "teardown":
        report.user_properties.append((CPU_S, spent_s() - item.stash[BEGAN]))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what each folder took: set-up, call and tear-down of its tests, added up, and its CPU
    time, which other work on the machine does not change; the tests that took the most of it; and
    how many tests ran with a real GOST.
    """
    say = terminalreporter.write_line
    reports = [
        each
        for found in terminalreporter.stats.values()
        for each in found
        if isinstance(each, pytest.TestReport)
    ]
    ran = [each for each in reports if each.when == "call" and not each.skipped]
    with_gost = sum("real_gost" in each.keywords for each in ran)
    if with_gost:
        say(f"with a real GOST: {with_gost} tests ran")
    took_s, cpu_s, count = Counter[str](), Counter[str](), Counter[str]()
    by_test: Counter[str] = Counter()
    for report in reports:
        folder = folder_of(Path(config.rootpath, report.nodeid.split("::")[0]))
        took_s[folder] += report.duration
        count[folder] += report.when == "call"
        for name, value in report.user_properties:
            if name == CPU_S and report.when == "teardown":
                cpu_s[folder] += value
                by_test[report.nodeid] = value
    if took_s:
        terminalreporter.section("time and CPU time by folder")
    for folder, seconds in took_s.most_common():
        say(f"{seconds:8.1f} s {cpu_s[folder]:8.1f} s  {folder} ({count[folder]} tests)")
    slow = [(name, seconds) for name, seconds in by_test.most_common(20) if seconds > LONG_S]
    if slow:
        terminalreporter.section(f"tests of more than {LONG_S:g} s of CPU time")
    for name, seconds in slow:
        say(f"{seconds:8.1f} s  {name}")
