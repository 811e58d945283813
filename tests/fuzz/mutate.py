# SPDX-License-Identifier: MIT
"""Mutations of texts, JSON values and files: what breaks readers."""

import copy
import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# What breaks readers: YAML's own signs, numbers at every edge, words of other types, control
# characters.
SPLINTERS = [
    *"""{ } [ ] : *a ' " # % , ~ null true yes 0 -1 1e999 0x1F 1_000 .inf .nan - + µs mbit bdp
    1e-99bdp 1e99ms 100%% "\\UFFFFFFFF" unlimited auto ../../etc/passwd /dev/zero \\ ! @ ` ٣
    2026-11-21 !!python/name:os.system""".split(),
    *("- ", "&a ", "!!int ", "<<: ", "? ", "| ", "> ", "---\n", "...\n", "\t", "\n", "  "),
    *("%YAML 9.9\n", "\u2028", "\x00", "\x1b[2J", "\ufeff", "\ud7ff"),
    *("9" * 5000, "{" * 50, "[" * 2000, "a: " * 300),
]
# As a program's JSON may have them: Python reads all of these.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 10**400, -(10**400), 2**63, 1e308, -0.0, 5e-324),
    *(float("nan"), float("inf"), "", "x", "0", "nan", "\0", "\ud800", "../../etc", "x" * 70_000),
    *([], {}, [[]], [{}], {"": None}, [None] * 300, {"t_s": {}}, "١", "\x1b[2J"),
)
BYTES = (b"", b"\n", b"\0" * 64, b"\xff\xfe{}", b"\x1f\x8b\x08\x00", b"{", b"null", b"[]", b"1e999")
SPARSE_BYTES, MAX_BYTES = 2**40, 2**20


def spoil(text: str, chance: random.Random) -> str:
    """The text with one to four injuries: splinters, lost, doubled, swapped or other pieces."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        stop = min(len(text), start + chance.choice((0, 1, 1, 3, 10, 60)))
        piece = text[start:stop]
        injury = chance.randrange(6)
        if injury == 0:
            text = text[:start] + chance.choice(SPLINTERS) + text[start:]
        elif injury == 1:
            text = text[:start] + chance.choice(SPLINTERS) + text[stop:]
        elif injury == 2:
            text = text[:start] + text[stop:]
        elif injury == 3:
            text = text[:stop] + piece + text[stop:]
        elif injury == 4:
            lines = text.split("\n")
            one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            text = "\n".join(lines)
        elif piece:
            flipped = (chr(ord(char) ^ (1 << chance.randrange(7))) for char in piece)
            text = text[:start] + "".join(flipped) + text[stop:]
    return text


def mutate_json(value: Any, chance: random.Random) -> Any:
    """Return the value with one to three of its nodes replaced, removed, doubled or wrapped."""
    for _ in range(chance.randint(1, 3)):
        holders = list(_holders(value))
        if not holders:
            return copy.deepcopy(chance.choice(VALUES))
        holder, key = chance.choice(holders)
        match chance.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder[key:key] = [
                    copy.deepcopy(holder[key]) for _ in range(chance.choice((1, 50)))
                ]
            case 1:
                holder[f"{key}'"] = holder.pop(key)
            case 2:
                holder[key] = [holder[key]]
            case 3 if isinstance(holder[key], int | float):
                factor = chance.choice((-1, 0, 1e-9, 0.5, 1e3, 1e30))
                holder[key] = holder[key] * factor if abs(holder[key]) < 1e250 else 0
            case _:
                holder[key] = copy.deepcopy(chance.choice(VALUES))
    return value


def _holders(value: Any) -> Sequence[tuple[Any, Any]]:
    """Return each container within a value with each of its keys."""
    found: list[tuple[Any, Any]] = []
    left = [value] if isinstance(value, dict | list) else []
    while left:
        each = left.pop()
        keys = each if isinstance(each, dict) else range(len(each))
        found += [(each, key) for key in keys]
        children = each.values() if isinstance(each, dict) else each
        left += [child for child in children if isinstance(child, dict | list)]
    return found


def nested(depth: int, chance: random.Random) -> str:
    """Return JSON that is nested so deep."""
    opening, closing = chance.choice((("[", "]"), ('{"a":', "}")))
    return opening * depth + "1" + closing * depth


def spoil_json(path: Path, chance: random.Random) -> None:
    """Mutate a file of JSON, or of JSON lines, unless it has become something else."""
    if path.stat().st_size > MAX_BYTES:
        return
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text.splitlines() if path.suffix == ".jsonl" else [text]
    if not lines:
        return
    at = chance.randrange(len(lines))
    match chance.randrange(8):
        case 0:
            lines[at] = spoil(lines[at], chance)
        case 1:
            lines[at] = nested(chance.choice((30, 2000, 100_000)), chance)
        case 2:
            lines[at] = json.dumps(chance.choice(VALUES))
        case _:
            try:
                lines[at] = json.dumps(mutate_json(json.loads(lines[at]), chance))
            except (ValueError, RecursionError):  # spoilt before
                lines[at] = spoil(lines[at], chance)
    with path.open("w", encoding="utf-8", errors="surrogatepass") as file:
        file.write("\n".join(lines) + "\n")


def spoil_file(path: Path, chance: random.Random) -> None:
    """Make a file anything but what it was: gone, cut, a folder, a FIFO, a device, endless."""
    data = b"" if path.stat().st_size > MAX_BYTES else path.read_bytes()
    path.unlink()
    makers: Sequence[Callable[[], object]] = (
        lambda: None,
        path.mkdir,
        lambda: os.mkfifo(path),
        lambda: path.symlink_to(chance.choice(("/dev/zero", "/dev/full", path.name, "/", "/etc"))),
        lambda: path.write_bytes(chance.choice(BYTES)),
        lambda: path.write_bytes(data[: chance.randrange(len(data) + 1)]),
        lambda: path.write_bytes(_flipped(data, chance)),
        lambda: path.write_bytes(data * chance.choice((2, 100))),
        lambda: _sparse(path),
        lambda: path.write_text(spoil(data.decode("utf-8", "replace"), chance), "utf-8", "replace"),
    )
    chance.choice(makers)()


def _flipped(data: bytes, chance: random.Random) -> bytes:
    """Return the data with some bits flipped."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8) if data else 0):
        changed[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _sparse(path: Path) -> None:
    """Make a file of 1 TiB that takes no room."""
    with path.open("wb") as file:
        file.truncate(SPARSE_BYTES)


def a_word(chance: random.Random) -> str:
    """Return a word as a shell may pass it: anything but NUL."""
    pieces = [*SPLINTERS, *WORDS, *WORDS]
    return as_word("".join(chance.choices(pieces, k=chance.choice((1, 1, 1, 2, 3)))))


def as_word(text: str) -> str:
    """Return a text as a shell can pass it."""
    return os.fsdecode(text.encode("utf-8", "surrogatepass").replace(b"\0", b"")[:100_000])


WORDS = (
    *("", "-", "--", "-1", "0", "1", "1e9", "99999999999999999999", "1.5", "nan", "inf", "-h"),
    *("a", ",", "a,b", "a=b", "=", "a=", "=a", "a..b", "1..", "5ms", "10mbit", "1%", "cubic"),
    *("cubic,bbr", "gost+ws", "direct", "sandbox", "auto", "shipped", "5.10", "la-hamina"),
    *("thesis-tunnel", "tunnel-rates", "/", ".", "..", "/dev/null", "/dev/full", "/nowhere/at/all"),
    *(
        "/etc/passwd",
        "/proc/self/mem",
        "~",
        "$HOME",
        "%s",
        "{}",
        "\udcff",
        "\n",
        "\t",
        "é",
        "x" * 300,
    ),
    *(
        "no such file",
        "out",
        "file.txt",
        "file.yaml",
        "folder",
        "fifo",
        "fifo",
        "results",
        "run.json",
    ),
)
