# SPDX-License-Identifier: MIT
"""Reasons to skip a test, one text per cause, and a pytest plugin that counts them.

The plugin prints a line per reason. With GOSTLAB_ALLOWED_SKIPS=FILE a session fails if a test was
skipped for a reason that no line of the file matches; `.ci/allowed-skips` is that file for CI.
GOSTLAB_WRITE_SKIPPED=FILE writes the names of the skipped tests, and GOSTLAB_ONLY_TESTS=FILE runs
the tests named there alone.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from gostlab.install.locate import built_version
from gostlab.install.rootfs import GuestRoot, find_root

ALLOWED_SKIPS = "GOSTLAB_ALLOWED_SKIPS"
WRITE_SKIPPED = "GOSTLAB_WRITE_SKIPPED"
ONLY_TESTS = "GOSTLAB_ONLY_TESTS"
NO_GOST = "no GOST "
PATTERNS = pytest.StashKey[list[re.Pattern[str]] | None]()
NOBODY = 65534


def is_root() -> bool:
    """Return whether this process is root, and not the only user of its user namespace."""
    uid_map = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    ranges = [(int(first), int(count)) for first, _, count in map(str.split, uid_map)]
    return os.geteuid() == 0 and any(first <= NOBODY < first + count for first, count in ranges)


NEEDS_ROOT = pytest.mark.skipif(not is_root(), reason="needs root")


def skip_without_gost(version: str) -> NoReturn:
    pytest.skip(f"{NO_GOST}{version}: ./lab gost add FILE")


def require_programs(*programs: str, path: str | None = None) -> None:
    """Skip a test unless all the programs are on the search path."""
    for name in programs:
        if shutil.which(name, path=path) is None:
            pytest.skip(f"no {name}")


def require_mounts() -> None:
    """Skip a test unless this process may mount in a mount namespace, as root mostly may."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    argv = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    if subprocess.run(argv, capture_output=True).returncode:
        pytest.skip("no mount namespaces")


def require_kernel(name: str) -> None:
    """Skip a test unless a kernel is built; a run that names one would build it for minutes."""
    if built_version(name) is None:
        pytest.skip(f"kernel {name} is not built: ./lab kernel add {name}")


def require_root_tree() -> GuestRoot:
    """Return the root file system that guests boot on, or skip the test."""
    return find_root() or pytest.skip("no root file system for guests: ./lab setup --only root")


def require_image_tests() -> None:
    """Skip a test that installs a whole Debian unless it is requested and possible."""
    if os.environ.get("GOSTLAB_TEST_IMAGE") != "1":
        pytest.skip("takes minutes: GOSTLAB_TEST_IMAGE=1 requests it")
    if os.geteuid() != 0:
        pytest.skip("needs root")
    require_programs("debootstrap")


def read_patterns(file: Path) -> list[re.Pattern[str]]:
    """Read a list of regular expressions, one per line; blank lines and # lines are comments."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise pytest.UsageError(f"{ALLOWED_SKIPS}: {file}: {error.strerror}") from error
    patterns = []
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            try:
                patterns.append(re.compile(line.strip()))
            except re.error as error:
                raise pytest.UsageError(f"{file}:{number}: {line}: {error}") from error
    return patterns


def skip_reports(config: pytest.Config) -> list[pytest.TestReport]:
    """Return the reports of skipped tests; empty in a worker of pytest-xdist."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    return terminal.stats.get("skipped", []) if terminal else []


def count_reasons(config: pytest.Config) -> Counter[str]:
    """Count the skipped tests by reason."""
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skip_reports(config))


def unlisted_reasons(config: pytest.Config) -> list[str]:
    """Return the reasons that no pattern matches in full."""
    patterns = config.stash[PATTERNS]
    if patterns is None:
        return []
    reasons = sorted(count_reasons(config))
    return [reason for reason in reasons if not any(each.fullmatch(reason) for each in patterns)]


def pytest_configure(config: pytest.Config) -> None:
    file = os.environ.get(ALLOWED_SKIPS)
    config.stash[PATTERNS] = read_patterns(Path(file)) if file else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that ONLY_TESTS does not list, by their own name or their file's."""
    file = os.environ.get(ONLY_TESTS)
    if not file:
        return
    listed = set(Path(file).read_text(encoding="utf-8").splitlines())
    selected = [item for item in items if {item.nodeid, item.nodeid.partition("::")[0]} & listed]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(selected)])
    items[:] = selected


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    reasons = count_reasons(config)
    if reasons:
        terminalreporter.section("skipped tests by reason")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"skipped: {count}: {reason}")


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail the session for an unlisted reason; print what to know of skips behind pytest's last
    line.
    """
    config = session.config
    unlisted = unlisted_reasons(config)
    file = os.environ.get(WRITE_SKIPPED)
    if file and config.pluginmanager.has_plugin("terminalreporter"):
        names = sorted({report.nodeid for report in skip_reports(config)})
        Path(file).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    if unlisted and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    yield
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    for reason in unlisted:
        terminal.write_line(f"skipped for a reason not in {os.environ[ALLOWED_SKIPS]}: {reason}")
    gost = sum(n for reason, n in count_reasons(config).items() if reason.startswith(NO_GOST))
    if gost:
        tests = "test of a real GOST was" if gost == 1 else "tests of a real GOST were"
        terminal.write_line(f"{gost} {tests} skipped: ./lab gost add FILE brings one")
