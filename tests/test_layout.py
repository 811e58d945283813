"""Who may import whom (docs/explanation/architecture.md draws it), lazy imports included."""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.lab_command import said_by

ROOT = Path(__file__).resolve().parents[1]

# Every room and the rooms that its modules may import from. A room is a package, or a module that
# stands beside the packages; what is imported stands above.
# A description has three rooms of its own, each of which knows those above it here alone: pure
# formulas; the file as people write it; every number of a run, decided once.
DESCRIBE = {
    "gostlab.describe.physics": set(),
    "gostlab.describe.file": {"gostlab.describe.physics", "gostlab.declared"},
    "gostlab.describe.resolve": {
        "gostlab.describe.file",
        "gostlab.describe.physics",
        "gostlab.declared",
    },
}
# What any room may use: a description, and the one reader of files that anybody may have written.
WORDS = {"gostlab.describe", *DESCRIBE, "gostlab.declared", "gostlab.reader"}
READ = {"analysis.draw", "analysis.judge", "analysis.read"}
BELOW_RUNS = {f"gostlab.{name}" for name in "console machine results setup visible".split()} | WORDS
RUNS = {"gostlab.runs", *BELOW_RUNS}
CORE = {"gostlab", "gostlab.startup", "gostlab.lazy", "gostlab.api", *READ, *RUNS}
# A file each, which stands on the core and is found by what it declares: no other room may import
# one, nor name it.
KINDS = {"gostlab.kinds", "analysis.drawings"}
# What stands on the core, and the others of it that each may import from.
APPS = {
    "new": "command course",
    "paths": "command",
    "fit": "command paths",
    "worst": "command fit paths",
    "course": "command",
    "cluster": "command",
    "bench": "command cluster",
    "validate": "command",
    "conform": "command verbs",
    "replay": "",
    "shell": "",
    "manual": "",
    "catalogue": "",
    "doctor": "",
    "completion": "command",
    "verbs": "catalogue cluster command manual replay shell",
    "cli": "bench command completion conform course doctor fit new paths validate verbs worst",
    "reference": "cli command manual",
}
# Those with a part that runs in a guest and needs what is there.
IN_GUEST = {"replay", "shell"}
ROOMS: dict[str, set[str]] = {
    "topo": {"gostlab.declared"},
    "gostlab": {"gostlab.lazy"},  # the version
    "gostlab.startup": set(),
    "gostlab.lazy": set(),
    "gostlab.reader": set(),
    "gostlab.kept": {"gostlab.lazy", "gostlab.declared"},
    "gostlab.visible": set(),
    "gostlab.console": {"gostlab.visible"},
    "gostlab.declared": {"gostlab.reader"},
    "gostlab.setup": {"gostlab.declared", "gostlab.startup", "gostlab.visible"},
    **DESCRIBE,
    "gostlab.describe": {*DESCRIBE, "gostlab.declared"},
    "gostlab.results": {"gostlab", *WORDS},
    "gostlab.guest": {
        "gostlab",
        "gostlab.lazy",
        "gostlab.results",
        "gostlab.setup",
        "topo",
        *WORDS,
    },
    "gostlab.kinds": {"gostlab.guest", "gostlab.setup", *WORDS},
    "gostlab.machine": {"gostlab.kept", "gostlab.lazy", "gostlab.setup", *WORDS},
    "gostlab.runs": BELOW_RUNS,
    "analysis.read": {"gostlab.results", *WORDS},
    "analysis.judge": {"analysis.read", "gostlab.results", *WORDS},
    "analysis.draw": {"analysis.judge", "analysis.read", "gostlab.results", *WORDS},
    "analysis.drawings": {"gostlab.results", *READ, *WORDS},
    "analysis.page": {"gostlab.results", *READ, *WORDS},
    "gostlab.api": {"analysis.page", *READ, *RUNS},
    "gostlab.apps": set(),
    "gostlab.apps.command": {"gostlab.describe.file"},
    **{
        f"gostlab.apps.{app}": {f"gostlab.apps.{each}" for each in others.split()}
        | CORE
        | ({"gostlab.guest"} if app in IN_GUEST else set())
        for app, others in APPS.items()
    },
    "gostlab.__main__": {"gostlab.apps.cli", "gostlab.startup"},
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
    words = module.split(".")
    inner = ".".join(words[:3])
    return inner if words[1:2] == ["apps"] or inner in DESCRIBE else ".".join(words[:2])


def forbidden(graph: dict[str, set[str]]) -> Iterator[str]:
    """Every import against the direction, in words."""
    for module, others in sorted(graph.items()):
        for other in sorted(others):
            room, reached = room_of(module), room_of(other)
            if room != reached and reached not in ROOMS.get(room, set()):
                yield f"{module} imports {other}: {room} may import {sorted(ROOMS.get(room, ()))}"


@cache
def graph() -> dict[str, set[str]]:
    """What each of the lab's modules imports of the others: two seconds of reading, once asked."""
    return {name: imported(path.read_text("utf-8"), MODULES) for name, path in MODULES.items()}


def test_every_module_stands_in_a_room() -> None:
    assert {room_of(name) for name in MODULES} - {"analysis"} == set(ROOMS)


def test_imports_go_in_one_direction() -> None:
    assert list(forbidden(graph())) == []


# What of the core is public: all that stands on it in gostlab.apps may use this, and of the rest
# only what is named below.
PUBLIC = (
    "analysis.",
    "gostlab",  # its version
    "gostlab.console",  # tables and progress
    "gostlab.visible",  # foreign text
    "gostlab.api",  # plan, run, execute, report, compare
    "gostlab.declared.",  # what kinds say of themselves
    "gostlab.describe.file.",  # units, documents, profiles, experiments, settings
    "gostlab.describe.physics.",  # formulas
    "gostlab.describe.resolve.expand",
    "gostlab.describe.resolve.flows",
    "gostlab.describe.resolve.run_description",
    "gostlab.machine",  # which there is, and what is wrong with it
    "gostlab.reader",  # files of others
    "gostlab.results",  # a run's folder
    "gostlab.results.contest",
    "gostlab.results.measures",
    "gostlab.runs.progress",
    "gostlab.runs.schedule",
    "gostlab.runs.summary",
    "gostlab.setup.parts",  # the programs that there are
)
# Who measures the machine, looks after it or makes a run otherwise reaches further in.
INSIDE = {
    "bench": "describe.resolve.cpu_model machine.own_root machine.sandbox runs.pace setup.root setup.workbench",
    "catalogue": "runs.pace",
    "cli": "startup lazy setup.steps setup.workbench",
    "cluster": "machine.sandbox setup.root",
    "conform": "describe.resolve.cpu_model machine.cpus machine.own_root machine.sandbox setup.archive setup.workbench",
    "doctor": "startup describe.resolve.cpu_model machine.allowance machine.own_root machine.sandbox setup.root setup.steps setup.system",
    "fit": "describe.guards describe.resolve.run describe.resolve.windows",
    "reference": "results.format",
    "replay": "describe.resolve.cpu_model guest.anew guest.carriers guest.ethtool guest.hosts guest.namespaces guest.reports guest.watch.netlink guest.watch.probes lazy machine.cpus machine.own_root machine.sandbox",
    "shell": "guest.environment guest.hosts guest.idle guest.network guest.shaping machine.sandbox",
    "validate": "machine.cpus",
    "worst": "describe.guards setup.pinned",
    "verbs": "describe.resolve.windows runs.outcome",
}
FURTHER = {app: {f"gostlab.{name}" for name in names.split()} for app, names in INSIDE.items()}


# And what of it a tunnel, a queueing discipline or a kind of traffic is written with.
KINDS_PUBLIC = (
    "gostlab.declared.",
    "gostlab.describe.physics.",
    "gostlab.describe.resolve.flows",
    "gostlab.guest.delay_line",
    "gostlab.guest.hosts",  # those that a leg joins
    "gostlab.guest.launch",  # a tunnel's start
    "gostlab.guest.network",
    "gostlab.guest.order",  # a flow's commands
    "gostlab.guest.qdisc",
    "gostlab.guest.reports",  # a flow's figures
    "gostlab.setup.parts",  # a program's version
)


def is_public(module: str, public: Sequence[str] = PUBLIC) -> bool:
    """Whether a module is named as public, or stands in a package that is."""
    return any(
        module == each or (each.endswith(".") and module.startswith(each)) for each in public
    )


def test_kinds_are_written_with_the_public_part_of_the_guest() -> None:
    assert [
        f"{module} imports {other}"
        for module, others in graph().items()
        if room_of(module) == "gostlab.kinds"
        for other in others
        if room_of(other) != "gostlab.kinds" and not is_public(other, KINDS_PUBLIC)
    ] == []


def code_strings(tree: ast.Module) -> Iterator[str]:
    """The strings in a text, but for what stands there for people: docstrings."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def test_nothing_but_their_folders_place_names_a_kind() -> None:
    """Nor by a string: one module has the folders, and one function runs what is found there."""
    assert not any(KINDS & others for others in ROOMS.values())
    named = re.compile(r"\b(kinds|drawings)[./]|^(kinds|drawings)$")
    core = {
        name: parsed(path.read_text("utf-8"))
        for name, path in MODULES.items()
        if room_of(name) not in KINDS and not name.startswith("gostlab.apps.")
    }
    assert {name for name, tree in core.items() if any(map(named.search, code_strings(tree)))} == {
        "gostlab.declared.folders"
    }
    assert {
        name
        for name, tree in core.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and "import_module" in ast.unparse(node)
    } == {"gostlab", "gostlab.declared.source", "gostlab.kept"}


def test_what_stands_on_the_core_uses_its_public_api_and_no_more_than_is_named() -> None:
    assert [
        f"{module} imports {other}"
        for module, others in graph().items()
        if module.startswith("gostlab.apps.")
        for other in others - FURTHER.get(module.split(".")[2], set())
        if not other.startswith("gostlab.apps") and not is_public(other)
    ] == []


def test_the_rooms_themselves_have_no_circle() -> None:
    TopologicalSorter(ROOMS).prepare()


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(graph()).prepare()


@pytest.mark.parametrize(
    "source",
    [
        "import gostlab.apps.cli",
        "from gostlab.apps.cli import main",
        "def f():\n    from gostlab.apps import cli",
    ],
)
def test_an_import_against_the_direction_is_seen(source: str) -> None:
    spoilt = {**graph(), "gostlab.describe.file.units": imported(source, MODULES)}

    assert [line.split(":")[0] for line in forbidden(spoilt)] == [
        "gostlab.describe.file.units imports gostlab.apps.cli"
    ]
    with pytest.raises(CycleError):
        TopologicalSorter(spoilt).prepare()


# Imports within functions are for what may not be installed, what only this folder's sys.path can
# tell, and process 1 of the guest. All others stand at the top: gostlab.lazy makes them free.
LATE = {
    "gostlab.machine.init": {"fcntl", "runpy", "termios"},
    "gostlab.apps.cluster.dask_cluster": {"distributed", "distributed.security"},
    "gostlab.apps.bench.cluster": {"distributed"},
    "gostlab.apps.completion": {"argcomplete"},
    "gostlab.apps.worst.worst": {"optuna"},
    "gostlab.apps.course.coursework": {"jinja2"},
    "topo": {"itertools", "os", "sys", "gostlab.declared"},
}


def test_imports_stand_at_the_top() -> None:
    late: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        for function in ast.walk(parsed(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Import):
                        late.setdefault(module, set()).update(each.name for each in node.names)
                    elif isinstance(node, ast.ImportFrom):
                        late.setdefault(module, set()).add(str(node.module))
    assert late == LATE


@pytest.mark.slow
def test_the_command_line_and_what_it_asks_need_no_mininet() -> None:
    """Mininet's modules load a tool that asks the machine; a laptop that only reads has none."""
    script = (
        "import sys; sys.modules['mininet'] = None\n"
        "import gostlab.apps.cli, gostlab.api, analysis.page.report\n"
        "from gostlab.lazy import Unread, read\n"
        "while found := [each for each in sys.modules.values() if type(each) is Unread]:\n"
        "    for each in found: read(each)"
    )
    done = said_by(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr


def test_a_guest_reads_no_words() -> None:
    """A run has its numbers; who reads files and settings would take a fifth of a guest's start."""
    script = (
        "import sys, gostlab.guest.run; dir(gostlab.guest.run)\n"
        "from gostlab.lazy import Unread\n"
        "read = [n for n, module in sys.modules.items() if type(module) is not Unread]\n"
        "print([name for name in read if name.startswith('gostlab.describe.file')])"
    )
    done = said_by(sys.executable, "-c", script)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
