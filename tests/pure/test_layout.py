"""Who may import whom (docs/architecture.md draws it), lazy imports included."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Every room and the rooms that its modules may import from. A room is a package, or a module that
# stands beside the packages; what is imported stands above.
ROOMS: dict[str, set[str]] = {
    "topo": {"gostlab.declared"},
    "gostlab": set(),  # the version
    "gostlab.declared": set(),
    "gostlab.setup": {"gostlab.declared"},
    "gostlab.ask": {"gostlab.setup", "gostlab.declared"},
    "gostlab.results": {"gostlab", "gostlab.result_format", "gostlab.ask", "gostlab.declared"},
    "gostlab.result_format": {"gostlab.declared", "gostlab.ask"},
    "gostlab.result_check": {"gostlab.result_format"},
    "gostlab.measures": {"gostlab.results", "gostlab.ask", "gostlab.declared"},
    "gostlab.guest": {
        "gostlab",
        "gostlab.measures",
        "gostlab.results",
        "gostlab.ask",
        "gostlab.declared",
        "gostlab.setup",
        "topo",
    },
    "gostlab.machine": {"gostlab.ask", "gostlab.declared", "gostlab.setup"},
    "gostlab.matrix": {
        "gostlab.machine",
        "gostlab.measures",
        "gostlab.results",
        "gostlab.setup",
        "gostlab.ask",
        "gostlab.declared",
    },
    "gostlab.recording": {"gostlab.ask", "gostlab.declared"},
    "gostlab.course": {
        "gostlab.measures",
        "gostlab.results",
        "gostlab.ask",
        "gostlab.declared",
    },
    "gostlab.classroom": {
        "gostlab.api",
        "gostlab.course",
        "gostlab.matrix",
        "gostlab.machine",
        "gostlab.measures",
        "gostlab.results",
        "gostlab.ask",
        "gostlab.declared",
        "gostlab.setup",
    },
    "gostlab.importing": {"gostlab.recording", "gostlab.ask", "gostlab.declared"},
    "gostlab.bench": {
        "gostlab.matrix",
        "gostlab.machine",
        "gostlab.results",
        "gostlab.ask",
        "gostlab.declared",
        "gostlab.setup",
    },
    "gostlab.doctor": {"gostlab.machine", "gostlab.declared", "gostlab.setup"},
    "analysis.read": {"gostlab.measures", "gostlab.results", "gostlab.ask", "gostlab.declared"},
    "analysis.judge": {"analysis.read", "gostlab.measures", "gostlab.ask", "gostlab.declared"},
    "analysis.draw": {
        "analysis.judge",
        "analysis.read",
        "gostlab.measures",
        "gostlab.results",
        "gostlab.ask",
        "gostlab.declared",
    },
    "analysis.page": {
        "analysis.draw",
        "analysis.judge",
        "analysis.read",
        "gostlab.results",
        "gostlab.ask",
        "gostlab.declared",
    },
    "gostlab.api": {
        "analysis.page",
        "analysis.judge",
        "analysis.read",
        "gostlab.matrix",
        "gostlab.machine",
        "gostlab.measures",
        "gostlab.results",
        "gostlab.ask",
        "gostlab.declared",
        "gostlab.setup",
    },
    "gostlab.fitting": {
        "analysis.draw",
        "gostlab",
        "gostlab.api",
        "gostlab.matrix",
        "gostlab.machine",
        "gostlab.measures",
        "gostlab.results",
        "gostlab.ask",
    },
    "gostlab.cli": {
        "gostlab.api",
        "gostlab.fitting",
        "gostlab.classroom",
        "gostlab.bench",
        "gostlab.doctor",
        "gostlab.importing",
        "gostlab.recording",
        "gostlab.matrix",
        "gostlab.machine",
        "gostlab.results",
        "gostlab.ask",
        "gostlab.declared",
        "gostlab.setup",
    },
    "gostlab.__main__": {"gostlab.cli"},
}


def modules() -> dict[str, Path]:
    """Every module of the lab by its dotted name."""
    found = {}
    for path in [ROOT / "topo.py", *ROOT.glob("gostlab/**/*.py"), *ROOT.glob("analysis/**/*.py")]:
        words = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    return found


MODULES = modules()


@cache
def parsed(source: str) -> ast.Module:
    """A text's syntax tree."""
    return ast.parse(source)


def imported(source: str, known: dict[str, Path]) -> set[str]:
    """The lab's modules that a text imports, wherever in it."""
    found = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else str(node.module) for name in full}
    return found & set(known)


def room_of(module: str) -> str:
    """The room that a module stands in."""
    return ".".join(module.split(".")[:2])


def forbidden(graph: dict[str, set[str]]) -> Iterator[str]:
    """Every import against the direction, in words."""
    for module, others in sorted(graph.items()):
        for other in sorted(others):
            room, reached = room_of(module), room_of(other)
            if room != reached and reached not in ROOMS.get(room, set()):
                yield f"{module} imports {other}: {room} may import {sorted(ROOMS.get(room, ()))}"


@cache
def graph() -> dict[str, set[str]]:
    """What each of the lab's modules imports of the others: two seconds of reading, for who asks."""
    return {name: imported(path.read_text("utf-8"), MODULES) for name, path in MODULES.items()}


def test_every_module_stands_in_a_room() -> None:
    assert {room_of(name) for name in MODULES} - {"analysis"} == set(ROOMS)


def test_imports_go_in_one_direction() -> None:
    assert list(forbidden(graph())) == []


def test_the_rooms_themselves_have_no_circle() -> None:
    TopologicalSorter(ROOMS).prepare()


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(graph()).prepare()


@pytest.mark.parametrize(
    "source",
    ["import gostlab.cli", "from gostlab.cli import main", "def f():\n    from gostlab import cli"],
)
def test_an_import_against_the_direction_is_seen(source: str) -> None:
    spoilt = {**graph(), "gostlab.ask.units": imported(source, MODULES)}

    assert [line.split(":")[0] for line in forbidden(spoilt)] == [
        "gostlab.ask.units imports gostlab.cli"
    ]
    with pytest.raises(CycleError):
        TopologicalSorter(spoilt).prepare()


def test_the_command_line_and_what_it_asks_need_no_mininet() -> None:
    """Mininet's modules load a tool that asks the machine; a laptop that only reads has none."""
    script = (
        "import sys; sys.modules['mininet'] = None\n"
        "import gostlab.cli, gostlab.api, analysis.page.report"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_pure_tests_need_no_mininet() -> None:
    needing = [
        f"{path.name} imports {name}"
        for path in sorted(Path(__file__).parent.glob("*.py"))
        for name in imported_anywhere(path.read_text("utf-8"))
        if name.split(".")[0] == "mininet"
    ]
    assert needing == [], "what the guest does is tested in tests/lab"


def imported_anywhere(source: str) -> set[str]:
    """What a text imports, and what the lab's modules that it imports import in turn at their
    top.
    """
    waiting, seen, outside = [source], set(), set()
    while waiting:
        text = waiting.pop()
        for module in imported(text, MODULES) - seen:
            seen.add(module)
            waiting.append(MODULES[module].read_text("utf-8"))
        for node in parsed(text).body:
            if isinstance(node, ast.Import):
                outside |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                outside.add(str(node.module))
    return outside
