"""What holds for every test: marks by folder, no kernel no sandbox, and what each folder took."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

from gostlab.setup import gosts as gosts_of_setup
from gostlab.setup.parts import (
    MissingPart,
    TunnelBinary,
    file_sha256,
    find_gosts,
    find_parts,
    require_kernel,
    what_gost_says,
)
from tests.sandboxed import Lab

TESTS = Path(__file__).resolve().parent
# Where a machine that cannot reach GOST's releases may have them.
PACKED_GOSTS = TESTS.parents[1] / "shared" / "gost"


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The sandbox as tests use it."""
    return Lab(tmp_path_factory.mktemp("lab"))


def folder_of(path: Path) -> str:
    """The folder of tests/ that a test stands in."""
    return (*path.resolve().relative_to(TESTS).parts[:-1], "whole")[0]


@pytest.fixture(scope="session")
def gosts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TunnelBinary]:
    """Real GOSTs by version: those beside the checkout, in the cache, or that GOSTLAB_GOST names.
    A test that asks for one is marked `real_gost`, and skipped where it is not there.
    """
    found = dict(find_gosts())
    named = os.environ.get("GOSTLAB_GOST")
    for packed in [*sorted(PACKED_GOSTS.glob("*.xz")), *([Path(named)] if named else [])]:
        if any(f"gost-{version}-" in packed.name for version in found):
            continue
        program = gosts_of_setup.unpacked(packed, tmp_path_factory.mktemp("gost"))
        said = what_gost_says(program)
        if said is not None:
            binary = TunnelBinary(program, "gost", str(said), file_sha256(program))
            found.setdefault(said.version, binary)
    return found


def why_no_kernel() -> str | None:
    """Why the sandbox cannot boot here, in a sentence; None if it can."""
    try:
        require_kernel(find_parts())
    except MissingPart as missing:
        return str(missing)
    return None


def pytest_configure(config: pytest.Config) -> None:
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


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what each folder took: set-up, call and tear-down of its tests, added up; and how many
    tests ran with a real GOST.
    """
    with_gost = {
        outcome: sum(
            "real_gost" in each.keywords for each in terminalreporter.stats.get(outcome, ())
        )
        for outcome in ("passed", "failed", "skipped")
    }
    if any(with_gost.values()):
        ran = with_gost["passed"] + with_gost["failed"]
        terminalreporter.write_line(
            f"with a real GOST: {ran} tests ran, {with_gost['skipped']} could not"
        )
    took_s: dict[str, float] = defaultdict(float)
    count: dict[str, int] = defaultdict(int)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = folder_of(Path(config.rootpath, report.nodeid.split("::")[0]))
                took_s[folder] += report.duration
                count[folder] += report.when == "call"
    if took_s:
        terminalreporter.section("time by folder")
    for folder in sorted(took_s, key=lambda name: -took_s[name]):
        terminalreporter.write_line(f"{took_s[folder]:8.1f} s  {folder} ({count[folder]} tests)")
