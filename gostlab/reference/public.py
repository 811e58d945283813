"""The package's public names as a page: their signatures, and what they say of themselves."""

import inspect
from collections.abc import Iterator
from typing import Any

import gostlab
from gostlab.registry import folders

# What of a public class is public. A name that leaves is said to leave one version before.
PARTS = {
    "Experiment": "from_file of run name runs levels",
    "Progress": "done total left_s running",
    "Result": "name folder levels repetition outcome verdict error counts goodput_mbit samples",
    "Results": "name runs cells samples drawings figures draw to_parquet",
    "Run": "description run",
    "Running": "cancel wait outcome",
}


def to_markdown() -> str:
    """What the package says of itself, and a section for each name."""
    names = sorted(gostlab.PUBLIC, key=str.lower)
    return "\n\n".join([inspect.getdoc(gostlab) or "", *map(section, names)])


def section(name: str) -> str:
    return "\n\n".join([f"## {name}", *blocks(f"gostlab.{name}", getattr(gostlab, name), name)])


def blocks(called: str, what: Any, name: str) -> Iterator[str]:
    """Its call and its docstring, as they stand in the code; the same of its parts."""
    if not callable(what) and not isinstance(what, property):
        yield f"    {called} = {what!r}"
        return
    yield indented(f"{called}{signature(what)}\n\n{inspect.getdoc(what) or ''}")
    for part in PARTS.get(name, "").split() if inspect.isclass(what) else ():
        found = inspect.getattr_static(what, part, None)
        own = getattr(found, "func", None) or getattr(found, "fget", None)  # an attribute's
        if own is not None:
            yield indented(f"{name}.{part}\n\n{inspect.getdoc(own) or ''}")
        elif found is not None:
            yield from blocks(f"{name}.{part}", getattr(what, part), "")


def signature(what: Any) -> str:
    """Its arguments and defaults, without types, a line for each where they are many."""
    if inspect.isclass(what) and (issubclass(what, Exception) or what.__name__ != "Run"):
        return ""
    given = [each for each in inspect.signature(what).parameters.values() if each.name != "self"]
    bare = [str(each.replace(annotation=inspect.Parameter.empty)) for each in given]
    # A folder of this checkout is elsewhere in another.
    words = [word.replace(f"{folders.ROOT}/", "") for word in bare]
    kinds = [each.kind for each in given]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        words.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    line = f"({', '.join(words)})"
    return line if len(line) < 70 else "(\n    " + ",\n    ".join(words) + ",\n)"


def indented(text: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in text.strip().splitlines())
