# SPDX-License-Identifier: MIT
"""Packages import each other only as docs/explanation/architecture.md draws it."""

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
# Rooms that any other may use: the errors, a run's specification, and the one reader of files that
# anybody may have written.
SPEC = {
    "gostlab.tcpmodel",
    "gostlab.spec",
    "gostlab.registry",
    "gostlab.errors",
    "gostlab.safe_read",
    "gostlab.text_safety",
    "gostlab.atomic_write",
}
READ = {"gostlab.analysis.plotting", "gostlab.analysis.stats", "gostlab.analysis.load"}
BELOW_RUNS = {
    f"gostlab.{name}" for name in "console sandbox results install terminal_escape".split()
} | SPEC
RUNS = {"gostlab.scheduler", *BELOW_RUNS}
CORE = {"gostlab", "gostlab.startup", "gostlab.api", *READ, *RUNS}
# Plugins: a file each, which is found by what it declares. No other room may import or name one.
PLUGINS = {"gostlab.tunnels", "gostlab.qdiscs", "gostlab.traffic", "gostlab.analysis.plots"}
# What stands on the core, and the other features that each may import from.
FEATURES = {
    "apply": "cli.common importers profile_import",
    "profile_import": "cli.common importers",
    "importers": "",
    "search": "cli.common profile_import",
    "cc_cases": "cli.common",
    "classroom": "cli.common",
    "cluster": "cli.common",
    "bench": "cli.common",
    "packetdrill": "cli.common",
    "pytest_plugin": "",
    "plugin_check": "cli.common importers profile_import",
    "reproduce": "",
    "serve": "apply classroom cli cli.common cluster",
    "shell": "",
    "cli": "apply bench cc_cases cli.common cluster classroom packetdrill plugin_check"
    " profile_import reproduce search shell",
}
# Features with a part that runs in a guest and needs what is there.
IN_GUEST = {"cc_cases", "plugin_check", "reproduce", "shell"}
ROOMS: dict[str, set[str]] = {
    "topo": {"gostlab.registry"},
    "gostlab": set(),  # the version
    "gostlab.startup": set(),
    "gostlab.errors": set(),
    "gostlab.safe_read": set(),
    "gostlab.text_safety": set(),
    "gostlab.atomic_write": set(),
    "gostlab.terminal_escape": {"gostlab.text_safety"},
    "gostlab.console": {"gostlab.terminal_escape", "gostlab.text_safety"},
    "gostlab.registry": {"gostlab.errors", "gostlab.safe_read"},
    "gostlab.tcpmodel": {"gostlab.errors"},
    "gostlab.spec": SPEC - {"gostlab.spec"},
    "gostlab.install": {
        "gostlab.atomic_write",
        "gostlab.errors",
        "gostlab.registry",
        "gostlab.startup",
        "gostlab.terminal_escape",
    },
    "gostlab.results": {"gostlab", *SPEC},
    "gostlab.guest": {"gostlab", "gostlab.results", "gostlab.install", "topo", *SPEC},
    "gostlab.tunnels": {"gostlab.guest", "gostlab.install", *SPEC},
    "gostlab.qdiscs": {"gostlab.guest", "gostlab.install", *SPEC},
    "gostlab.traffic": {"gostlab.guest", "gostlab.install", *SPEC},
    "gostlab.sandbox": {"gostlab.install", *SPEC},
    "gostlab.scheduler": BELOW_RUNS,
    "gostlab.analysis": set(),
    "gostlab.analysis.load": {"gostlab.results", *SPEC},
    "gostlab.analysis.stats": {"gostlab.analysis.load", "gostlab.results", *SPEC},
    "gostlab.analysis.plotting": {
        "gostlab.analysis.stats",
        "gostlab.analysis.load",
        "gostlab.results",
        *SPEC,
    },
    "gostlab.analysis.plots": {"gostlab.results", *READ, *SPEC},
    "gostlab.analysis.report": {"gostlab.results", *READ, *SPEC},
    "gostlab.api": {"gostlab.analysis.report", *READ, *RUNS},
    "gostlab.cli.common": {"gostlab.spec", "gostlab.errors"},
    **{
        f"gostlab.{feature}": {f"gostlab.{other}" for other in others.split()}
        | CORE
        | ({"gostlab.guest"} if feature in IN_GUEST else set())
        for feature, others in FEATURES.items()
    },
    "gostlab.__main__": {"gostlab.cli", "gostlab.startup"},
}


def modules() -> dict[str, Path]:
    """Every module of the lab by its dotted name."""
    found = {}
    # A glob does not follow gostlab/analysis, a symbolic link to the folder at the top.
    files = {path: path for path in [ROOT / "topo.py", *ROOT.glob("gostlab/**/*.py")]}
    files |= {
        path: ROOT / "gostlab" / path.relative_to(ROOT) for path in ROOT.glob("analysis/**/*.py")
    }
    for path, name in files.items():
        words = name.relative_to(ROOT).with_suffix("").parts
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
    return inner if inner in ROOMS else ".".join(words[:2])


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
    assert {room_of(name) for name in MODULES} == set(ROOMS)


def test_imports_go_in_one_direction() -> None:
    assert list(forbidden(graph())) == []


# The public part of the core: features may use this, and of the rest only what is named below.
PUBLIC = (
    "gostlab.analysis.",
    "gostlab",  # its version
    "gostlab.console",  # tables and progress
    "gostlab.errors",
    "gostlab.terminal_escape",  # foreign text
    "gostlab.api",  # plan, run, execute, report, compare
    "gostlab.registry.",  # what plugins declare
    "gostlab.spec.",
    "gostlab.tcpmodel.",  # formulas
    "gostlab.sandbox",  # which there is, and what is wrong with it
    "gostlab.safe_read",  # files of others
    "gostlab.text_safety",
    "gostlab.atomic_write",
    "gostlab.results",  # a run's folder
    "gostlab.results.capture_files",  # where its packets are
    "gostlab.results.coexistence",
    "gostlab.results.metrics",
    "gostlab.results.rows",
    "gostlab.results.run_result",
    "gostlab.scheduler.progress",
    "gostlab.scheduler.executor",
    "gostlab.scheduler.cell_result",
    "gostlab.scheduler.summary",
    "gostlab.install.locate",  # the programs that there are
    "gostlab.install.parts_json",
)
# Features that measure the machine, look after it or run a guest otherwise reach further in.
INSIDE = {
    "bench": "sandbox.uml",
    "cc_cases": "api.expectations guest.probes.cc_state guest.reset_clock install.kernel_modules sandbox.cpu_claims"
    " sandbox.rootfs sandbox.uml",
    "cli": "startup install.main install.build_env install.rootfs install.shared_install"
    " sandbox.host_limits sandbox.rootfs sandbox.uml scheduler.experiment_result scheduler.eta",
    "cluster": "sandbox.uml install.rootfs",
    "packetdrill": "sandbox.cpu_claims sandbox.rootfs sandbox.uml install.apt install.build_env",
    "plugin_check": "guest.flow_result results.duplicate_runs",
    "pytest_plugin": "api.experiment results.duplicate_runs results.run_result sandbox.cpu_claims"
    " sandbox.host_limits scheduler.shard",
    "reproduce": "guest.reset_clock guest.traffic_plugins guest.host_config guest.flow_result"
    " sandbox.cpu_claims sandbox.rootfs sandbox.uml",
    "search": "install.venvs",
    "serve": "results.capture_files",
    "shell": "guest.environment guest.host_config guest.baseline_rtt guest.network guest.shaping"
    " sandbox.uml",
}
FURTHER = {
    feature: {f"gostlab.{name}" for name in names.split()} for feature, names in INSIDE.items()
}
ROOMS_OF_FEATURES = {f"gostlab.{feature}" for feature in FEATURES} | {"gostlab.cli.common"}


# The part of the core that a tunnel, a queueing discipline or a kind of traffic is written with.
PLUGINS_PUBLIC = (
    "gostlab.errors",
    "gostlab.registry.",
    "gostlab.tcpmodel.",
    "gostlab.spec.flow",
    "gostlab.guest.delay_line",
    "gostlab.guest.host_config",  # those that a leg joins
    "gostlab.guest.tunnel_context",  # a tunnel's start
    "gostlab.guest.network",
    "gostlab.guest.load_context",  # a flow's commands
    "gostlab.guest.qdisc",
    "gostlab.guest.flow_result",  # a flow's figures
    "gostlab.install.locate",  # a program's version
)


def is_public(module: str, public: Sequence[str] = PUBLIC) -> bool:
    """Whether a module is named as public, or stands in a package that is."""
    return any(
        module == each or (each.endswith(".") and module.startswith(each)) for each in public
    )


def test_plugins_are_written_with_the_public_part_of_the_guest() -> None:
    assert [
        f"{module} imports {other}"
        for module, others in graph().items()
        if room_of(module) in PLUGINS - {"gostlab.analysis.plots"}
        for other in others
        if room_of(other) not in PLUGINS and not is_public(other, PLUGINS_PUBLIC)
    ] == []


def code_strings(tree: ast.Module) -> Iterator[str]:
    """The strings in a text, but for what stands there for people: docstrings."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.value


def test_no_other_room_names_a_plugin() -> None:
    """Nor by a string: one module has the folders, and one function runs what is found there."""
    assert not any(PLUGINS & others for others in ROOMS.values())
    named = re.compile(r"\b(plots|tunnels|qdiscs|traffic)/|^plots$")
    core = {
        name: parsed(path.read_text("utf-8"))
        for name, path in MODULES.items()
        if room_of(name) not in PLUGINS | ROOMS_OF_FEATURES
    }
    assert {name for name, tree in core.items() if any(map(named.search, code_strings(tree)))} == {
        "gostlab.registry.folders"
    }
    assert {
        name
        for name, tree in core.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and "import_module" in ast.unparse(node)
    } == {"gostlab", "gostlab.registry.plugin_loader", "gostlab.sandbox.python_bundle"}


def test_features_use_the_public_api_and_no_more_than_is_named() -> None:
    assert [
        f"{module} imports {other}"
        for module, others in graph().items()
        if room_of(module) in ROOMS_OF_FEATURES
        for other in others - FURTHER.get(module.split(".")[1], set())
        if room_of(other) not in ROOMS_OF_FEATURES and not is_public(other)
    ] == []


def test_the_rooms_themselves_have_no_circle() -> None:
    TopologicalSorter(ROOMS).prepare()


def test_no_modules_import_each_other_in_a_circle() -> None:
    TopologicalSorter(graph()).prepare()


@pytest.mark.parametrize(
    "source",
    [
        "import gostlab.cli.main",
        "from gostlab.cli.main import main",
        "def f():\n    from gostlab.cli import main",
    ],
)
def test_an_import_against_the_direction_is_seen(source: str) -> None:
    spoilt = {**graph(), "gostlab.spec.units": imported(source, MODULES)}

    assert [line.split(":")[0] for line in forbidden(spoilt)] == [
        "gostlab.spec.units imports gostlab.cli.main"
    ]
    with pytest.raises(CycleError):
        TopologicalSorter(spoilt).prepare()


# An import within a run would take some of its time: these are done before its clock is reset.
LATE_IN_GUEST = {
    "gostlab.guest.environment": {"mininet.net"},
    "gostlab.guest.network": {"mininet.log", "mininet.net", "mininet.util"},
    "gostlab.guest.run": {"mininet.net"},
}


def test_a_run_imports_everything_at_its_start() -> None:
    late: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        if room_of(module) not in {"gostlab.guest", *PLUGINS - {"gostlab.analysis.plots"}}:
            continue
        for function in ast.walk(parsed(path.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef):
                for node in ast.walk(function):
                    if isinstance(node, ast.Import):
                        late.setdefault(module, set()).update(each.name for each in node.names)
                    elif isinstance(node, ast.ImportFrom):
                        late.setdefault(module, set()).add(str(node.module))
    assert late == LATE_IN_GUEST


@pytest.mark.slow
def test_the_command_line_and_what_it_asks_need_no_mininet() -> None:
    """Mininet's modules load a tool that asks the machine; a laptop that only reads has none."""
    script = (
        "import sys; sys.modules['mininet'] = None\n"
        "from gostlab.cli import main\n"
        "for entry in main.VERBS: entry.declared()\n"
        "import gostlab.api, gostlab.analysis.report.report\n"
        "from gostlab.registry import qdiscs, topologies, traffic, tunnels\n"
        "tunnels.tunnel_kinds(), qdiscs.qdisc_kinds(), topologies.topologies()\n"
        "traffic.traffic_kinds()"
    )
    done = said_by(sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr


def test_a_guest_parses_no_settings() -> None:
    """A run has its numbers: the parsers would take a fifth of a guest's start."""
    script = (
        "import sys, gostlab.guest.run\n"
        "parsers = ('settings', 'value_types', 'yaml_source', 'experiment')\n"
        "print([name for name in parsers if f'gostlab.spec.{name}' in sys.modules])"
    )
    done = said_by(sys.executable, "-c", script)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


# What a grader's runner and the guest's root have not got; these rooms run on the lab's own Python.
HEAVY = set(
    "distributed jinja2 markupsafe matplotlib msgspec numpy optuna pandas psutil rich scipy"
    " starlette uvicorn".split()
)
ON_THE_LABS_PYTHON = "analysis bench cluster console.py profile_import search serve".split()


def test_a_grader_and_a_native_run_need_no_more_than_yaml() -> None:
    """A heavy library is imported in the functions that need it."""
    found = []
    for file in sorted((ROOT / "gostlab").rglob("*.py")):
        if file.relative_to(ROOT / "gostlab").parts[0] in ON_THE_LABS_PYTHON:
            continue
        for node in ast.parse(file.read_text("utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [
                f"{file.relative_to(ROOT)}:{node.lineno} {name}"
                for name in names
                if name.partition(".")[0] in HEAVY or name == "gostlab.console"
            ]
    assert found == []
