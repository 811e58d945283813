"""What holds for every test: marks by folder, no kernel no sandbox, and what each folder took."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from gostlab.setup.parts import MissingPart, find_parts, require_kernel

TESTS = Path(__file__).resolve().parent
# The folders whose tests boot the sandbox's kernel.
NEEDS_KERNEL = ("integration",)


def folder_of(path: Path) -> str:
    """The folder of tests/ that a test stands in."""
    return path.resolve().relative_to(TESTS).parts[0]


def why_no_kernel() -> str | None:
    """Why the sandbox cannot boot here, in a sentence; None if it can."""
    try:
        require_kernel(find_parts())
    except MissingPart as missing:
        return str(missing)
    return None


def pytest_configure(config: pytest.Config) -> None:
    for folder in sorted(each.name for each in TESTS.iterdir() if any(each.glob("test_*.py"))):
        config.addinivalue_line("markers", f"{folder}: stands in tests/{folder}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = folder_of(item.path)
        item.add_marker(folder)
        if folder in NEEDS_KERNEL:
            item.add_marker("sandbox")
    needing = [item for item in items if item.get_closest_marker("sandbox")]
    reason = why_no_kernel() if needing else None
    for item in needing if reason else ():
        item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what each folder took: set-up, call and tear-down of its tests, added up."""
    took_s: dict[str, float] = defaultdict(float)
    count: dict[str, int] = defaultdict(int)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = Path(report.nodeid.split("::")[0]).parent.name
                took_s[folder] += report.duration
                count[folder] += report.when == "call"
    if took_s:
        terminalreporter.section("time by folder")
    for folder in sorted(took_s, key=lambda name: -took_s[name]):
        terminalreporter.write_line(f"{took_s[folder]:8.1f} s  {folder} ({count[folder]} tests)")
