"""The format of a result folder, as data: every file, every key, every column, with its unit.

docs/reference/result-format.md is made from format.toml, and tests check real folders against it.
SCHEMA counts what a reader must know: it grows when a field changes its meaning or goes, not when
one is added.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# 1: one flow, no flows.json. 2: flows and changes. 3: status.json says this number. 4: hosts are
# machines: CPU and TCP memory of hosts.jsonl and of the verdict are the busiest and fullest host's.
SCHEMA = 4

TABLES = Path(__file__).with_name("format.toml")
NAME = "[A-Za-z0-9_.-]+"  # of a flow or a node


@dataclass(frozen=True)
class FormatField:
    path: str
    kind_words: str  # text, number, …; "or null": not known, not applicable; it may be absent
    unit: str
    says: str


@dataclass(frozen=True)
class FormatFile:
    """One file of a folder, or several of one kind: what format.toml says of it."""

    name: str
    pattern: str
    form: str  # JSON | JSON lines | CSV, gzip | text
    when: str
    says: str
    needed: bool
    fields: tuple[FormatField, ...]


@cache
def files() -> tuple[FormatFile, ...]:
    """Every file that a folder may have."""
    tables = tomllib.loads(TABLES.read_text(encoding="utf-8"))["file"]
    found = []
    for table in tables:
        rows = table.get("fields", "").splitlines()
        fields = tuple(FormatField(*(cell.strip() for cell in row.split("|", 3))) for row in rows)
        pattern = table.get("pattern", re.escape(table["name"])).replace("NAME", NAME)
        form, when, says = (table[key] for key in ("form", "when", "says"))
        needed = table.get("needed", False)
        found.append(FormatFile(table["name"], pattern, form, when, says, needed, fields))
    return tuple(found)
