"""Byte code of the lab for Pythons that cannot write it: byte_code.py FOLDER CODE SEEN_AT FILE…

A root's own Python runs this file, too: of the lab it imports nothing.
"""

import contextlib
import os
import py_compile
import struct
import sys
from collections.abc import Iterable, Iterator
from importlib.util import MAGIC_NUMBER
from pathlib import Path

NOT_IMPORTED = {"analysis", "api", "apps", "data", "__pycache__"}  # by a guest


def compile_new(folder: Path, code: Path, seen_at: str, sources: Iterable[Path]) -> None:
    """Compile what has changed of some sources below `code`, which a Python sees below `seen_at`,
    to where it looks with `folder` as its `sys.pycache_prefix`. What cannot be compiled or written
    is left to what imports it.
    """
    for source in sources:
        seen = Path(seen_at, source.relative_to(code))
        compiled = Path(
            folder, *seen.parent.parts[1:], f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        )
        with contextlib.suppress(OSError, py_compile.PyCompileError):
            if not is_new(source, compiled):
                py_compile.compile(str(source), str(compiled), str(seen), doraise=True)


def sources_in(package: Path) -> Iterator[Path]:
    """The sources of a package that guests import."""
    for place, below, names in os.walk(package):
        below[:] = sorted(set(below) - NOT_IMPORTED)
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def is_new(source: Path, compiled: Path) -> bool:
    """Whether byte code is of a source as it is now, by what Python itself looks at."""
    found = source.stat()
    size, changed_s = found.st_size & 0xFFFFFFFF, int(found.st_mtime) & 0xFFFFFFFF
    try:
        with compiled.open("rb") as file:
            return file.read(16) == MAGIC_NUMBER + struct.pack("<III", 0, changed_s, size)
    except OSError:
        return False


if __name__ == "__main__":
    compile_new(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], map(Path, sys.argv[4:]))
