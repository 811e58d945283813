# SPDX-License-Identifier: MIT
"""Names and comments that a reader meets out of context."""

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("gostlab", "analysis", "tools", "labs", "netem_profiles")
# A run's clock counts how this program is read: its text stays.
READ_ON_A_NODE = ROOT / "gostlab/guest/rtt_echo.py"
SOURCES = [ROOT / "topo.py", *(file for name in FOLDERS for file in (ROOT / name).rglob("*.py"))]
FRAGMENT = re.compile(r"#\s*(of|what|as|the same|so|where)\b", re.IGNORECASE)


def test_a_class_name_occurs_once() -> None:
    files = defaultdict(list)
    for file in SOURCES:
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                files[node.name].append(file.relative_to(ROOT).as_posix())
    assert {name: found for name, found in files.items() if len(found) > 1} == {}


def test_a_trailing_comment_is_no_fragment() -> None:
    fragments = []
    for file in set(SOURCES) - {READ_ON_A_NODE}:
        for token in tokenize.generate_tokens(io.StringIO(file.read_text("utf-8")).readline):
            code = token.line[: token.start[1]].strip() if token.type == tokenize.COMMENT else ""
            if code and FRAGMENT.match(token.string):
                fragments.append(f"{file.relative_to(ROOT)}:{token.start[0]} {token.string}")
    assert fragments == []
