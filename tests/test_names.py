"""Names that a reader meets out of context."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("gostlab", "analysis", "tools", "labs", "netem_profiles")
SOURCES = [ROOT / "topo.py", *(file for name in FOLDERS for file in (ROOT / name).rglob("*.py"))]


def test_a_class_name_occurs_once() -> None:
    files = defaultdict(list)
    for file in SOURCES:
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                files[node.name].append(file.relative_to(ROOT).as_posix())
    assert {name: found for name, found in files.items() if len(found) > 1} == {}
