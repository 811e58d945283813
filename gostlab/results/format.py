# SPDX-License-Identifier: MIT
"""Describe the format of a result folder as data: every file, key and column, with its unit.

docs/reference/result-format.md is generated from format.toml, and tests check real folders against
it. SCHEMA tells readers which format a folder has: it grows when a field changes its meaning or is
removed, not when one is added.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# 1: one flow, no flows.json. 2: flows and changes. 3: status.json has this number. 4: hosts are
# machines: hosts.jsonl and the verdict give the CPU time of the busiest host and the TCP memory of
# the fullest one.
SCHEMA = 4

TABLES = Path(__file__).with_name("format.toml")
NAME = "[A-Za-z0-9_.-]+"  # the name of a flow or a node


@dataclass(frozen=True)
class FormatField:
    """Represent a key or a column of a result file."""

    path: str
    # text, number, …; "or null": unknown or not applicable; "may be absent"
    kind_words: str
    unit: str
    says: str


@dataclass(frozen=True)
class FormatFile:
    """Represent one file of a result folder, or several files with a common name pattern."""

    name: str
    pattern: str
    form: str  # JSON | JSON lines | CSV, gzip | text
    when: str
    says: str
    needed: bool
    fields: tuple[FormatField, ...]


@cache
def files() -> tuple[FormatFile, ...]:
    """Return every file that a result folder may have."""
    import tomllib

    tables = tomllib.loads(TABLES.read_text(encoding="utf-8"))["file"]
    result_files = []
    for table in tables:
        rows = table.get("fields", "").splitlines()
        fields = tuple(FormatField(*(cell.strip() for cell in row.split("|", 3))) for row in rows)
        pattern = table.get("pattern", re.escape(table["name"])).replace("NAME", NAME)
        form, when, says = (table[key] for key in ("form", "when", "says"))
        needed = table.get("needed", False)
        result_files.append(FormatFile(table["name"], pattern, form, when, says, needed, fields))
    return tuple(result_files)


@cache
def name_pattern() -> re.Pattern[str]:
    """Return a pattern of the names of all these files."""
    return re.compile("|".join(f"(?:{entry.pattern})" for entry in files()))
