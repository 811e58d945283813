# SPDX-License-Identifier: MIT
"""Generate the page of the package's public names from their signatures and docstrings."""

import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

import gostlab
from gostlab.registry import folders

# The public members of public classes. A name is announced one version before its removal.
PARTS = {
    "Experiment": "from_file of run name runs levels",
    "Lab": "run execute close",
    "Progress": "done total left_s running",
    "Result": "name folder levels repetition outcome verdict error counts goodput_mbit samples",
    "Results": "name factors runs full_runs cells full_cells samples drawings figures draw"
    " to_parquet",
    "Run": "description run",
    "Running": "cancel wait outcome",
}


def to_markdown() -> str:
    """Return the package's docstring and a section for each name."""
    names = sorted(gostlab.PUBLIC, key=str.lower)
    return "\n\n".join([inspect.getdoc(gostlab) or "", *map(section, names)])


def section(name: str) -> str:
    return "\n\n".join([f"## {name}", *blocks(f"gostlab.{name}", getattr(gostlab, name), name)])


def blocks(called: str, what: Any, name: str) -> Iterator[str]:
    """Yield the signature and docstring of an object and of its public members."""
    if not callable(what) and not isinstance(what, property):
        value = f"{called} = {what!r}"
        wrapped = textwrap.wrap(value, 96, initial_indent="    ", subsequent_indent="        ")
        yield "\n".join(wrapped)
        return
    yield indented(f"{called}{signature(what)}\n\n{inspect.getdoc(what) or ''}")
    for part in PARTS.get(name, "").split() if inspect.isclass(what) else ():
        member = inspect.getattr_static(what, part, None)
        # A property is documented by its function.
        function = getattr(member, "func", None) or getattr(member, "fget", None)
        if function is not None:
            yield indented(f"{name}.{part}\n\n{inspect.getdoc(function) or ''}")
        elif member is not None:
            yield from blocks(f"{name}.{part}", getattr(what, part), "")


def signature(what: Any) -> str:
    """Return arguments and defaults without types, one per line if there are many."""
    if inspect.isclass(what) and (issubclass(what, Exception) or what.__name__ != "Run"):
        return ""
    given = [
        parameter
        for parameter in inspect.signature(what).parameters.values()
        if parameter.name != "self"
    ]
    bare = [str(parameter.replace(annotation=inspect.Parameter.empty)) for parameter in given]
    # A folder of this checkout has another path elsewhere.
    texts = [word.replace(f"{folders.ROOT}/", "") for word in bare]
    kinds = [parameter.kind for parameter in given]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        texts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    line = f"({', '.join(texts)})"
    return line if len(line) < 70 else "(\n    " + ",\n    ".join(texts) + ",\n)"


def indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.strip().splitlines())
