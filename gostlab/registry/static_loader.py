"""Declarations: what a tunnel or a topology says of itself, read without running its file.

A tunnel's file and topo.py import Mininet or what runs beside it; an experiment must be readable
without either. So what they declare is written as literals, and read here from the syntax tree.
Python's own library alone: the set-up reads declarations before any package is there.
"""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from gostlab.errors import BadInput
from gostlab.registry.folders import CODE, from_root

DECLARED: dict[str, list[dict[str, Any]]] = {}
with suppress(
    ImportError
):  # in a guest (gostlab.sandbox.module_bundle), where parsing is a tenth of a short run
    from gostlab.registry.kept import DECLARED  # type: ignore[no-redef]

T = TypeVar("T")
# Two threads in Python 3.11's parser: SystemError (python/cpython#106905).
PARSING = Lock()


def parse_source(path: Path) -> ast.Module:
    """The syntax tree of a file. Raises BadInput."""
    try:
        with PARSING:
            return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise BadInput(f"{from_root(path)}: cannot be read: {error}") from None


def assigned(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """The plain assignments of a module or a class by name: `name = value`."""
    found = {}
    for statement in body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name):
            found[target.id] = value
    return found


def functions(body: list[ast.stmt]) -> set[str]:
    """The names of the functions that a module or a class defines."""
    return {statement.name for statement in body if isinstance(statement, ast.FunctionDef)}


def literal_of(path: Path, name: str, value: ast.expr) -> Any:
    """What a literal stands for. Raises BadInput naming its line."""
    try:
        return ast.literal_eval(value)
    except ValueError:
        raise BadInput(
            f"{from_root(path)}:{value.lineno}: {name}: not a literal (a declaration is read,"
            " not run)"
        ) from None


def declared_in(
    folder: Path, constant: str, kind: type[T], function: str, names: Mapping[str, Any]
) -> dict[str, T]:
    """What a folder's modules declare, by each of its names; `names`: what declarations may use.
    Raises BadInput for half a declaration, or two of one name.
    """
    found: dict[str, Any] = {}
    declared: Iterable[Any] = declarations(folder, constant, kind, function, names)
    for each in sorted(declared, key=lambda each: each.name):  # however they share files
        for name in (each.name, *getattr(each, "spellings", ())):
            if name in found:
                raise BadInput(
                    f"{from_root(folder)}: {each.module}.py and {found[name].module}.py are both"
                    f" called {name}"
                )
            found[name] = each
    return found


def declarations(
    folder: Path, constant: str, kind: type[T], function: str, names: Mapping[str, Any]
) -> Iterator[T]:
    """What the modules of a folder declare, as `CONSTANT = Kind(...)`, or a tuple of several,
    beside a function of that name; a module with neither only helps others. Raises BadInput for a
    file with one of the two.
    """
    if constant in DECLARED:
        yield from (kind(**values) for values in DECLARED[constant])
        return
    declaring = re.compile(rf"^(?:{constant}|(?:def )?{function})\b", re.MULTILINE)
    for path in sorted(folder.glob("*.py")):
        if not declaring.search(path.read_text(encoding="utf-8", errors="replace")):
            continue  # parsing what only helps others is half of what this takes, in every run
        body, origin = parse_source(path).body, from_root(path)
        values_by_name = assigned(body)
        declaration = values_by_name.get(constant)
        has_function = function in functions(body) or function in values_by_name
        if declaration is None and not has_function:
            continue
        if declaration is None:
            raise BadInput(
                f"{origin}: {function}() without {constant} = {kind.__name__}(...): nobody can ask"
                " for it"
            )
        if not has_function:
            raise BadInput(f"{origin}: {constant} without a function {function}()")
        several = declaration.elts if isinstance(declaration, ast.Tuple) else [declaration]
        for each in several:
            where = f"{origin}:{each.lineno}: {constant}"
            values = keywords_of(path, where, kind, each, names)
            yield declared_as(kind, where, {**values, "module": path.stem})
        check_written(path, body)


def module_of(folder: Path, name: str) -> Any:
    """A kind's module, to be run: nothing else imports one, and nothing names one."""
    return import_module(".".join((*folder.relative_to(CODE).parts, name)))


def keywords_of(
    path: Path, where: str, kind: type, declaration: ast.expr, names: Mapping[str, Any]
) -> dict[str, Any]:
    """The keywords that `Kind(...)` has in a file, or that another of `names` makes a Kind of."""
    if not isinstance(declaration, ast.Call) or declaration.args:
        raise BadInput(f"{where} is not {kind.__name__}(name=..., ...)")
    values = {
        str(word.arg): names[word.value.id]
        if isinstance(word.value, ast.Name) and word.value.id in names
        else literal_of(path, str(word.arg), word.value)
        for word in declaration.keywords
    }
    maker = names.get(declaration.func.id) if isinstance(declaration.func, ast.Name) else None
    if maker in (None, kind):
        return values
    try:
        return dict(vars(maker(**values)))
    except TypeError as error:
        raise BadInput(f"{where}: {error}") from None


def records(folder: Path, file: str, read: Callable[[Path, Any], T]) -> Iterator[T]:
    """What the JSON files of a name in a folder's folders say; one that is half there is none."""
    for path in sorted(folder.glob(f"*/{file}")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            yield read(path, json.loads(path.read_text(encoding="utf-8")))


def one_called(name: str, known: Mapping[str, T], what: str) -> T:
    """The one of a name. Raises BadInput if there is none."""
    if name not in known:
        raise BadInput(f"no such {what}: {name} (there are {', '.join(known)})")
    return known[name]


def check_written(path: Path, body: list[ast.stmt]) -> None:
    """Raises BadInput for a function that `./lab new` left to be written."""
    for node in body:
        last = node.body[-1] if isinstance(node, ast.FunctionDef) else None
        if isinstance(last, ast.Raise) and isinstance(last.exc, ast.Call):
            call = last.exc
            if isinstance(call.func, ast.Name) and call.func.id == "NotImplementedError":
                what = literal_of(path, "NotImplementedError", call.args[0])
                raise BadInput(f"{from_root(path)}:{last.lineno}: still to be written: {what}")


def meaning_of(kind: type, name: str) -> str:
    """What a dataclass's docstring says of a field, as one line."""
    rest = re.search(rf"^ {{4}}{name}  +(.+(?:\n {{8,}}\S.*)*)", kind.__doc__ or "", re.MULTILINE)
    return " ".join(rest[1].split()) if rest else "see the class"


def declared_as(kind: type[T], origin: str, values: Mapping[str, Any]) -> T:
    """A declaration as a dataclass. Raises BadInput for a missing, unknown or mistyped key, and for
    what the dataclass itself finds wrong.
    """
    known = {item.name: item for item in fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise BadInput(f"{origin}: {name}: no such declaration ({', '.join(sorted(known))})")
    for name, item in known.items():
        if values.get(name, item.default) in (MISSING, "") and item.default is MISSING:
            state = "is empty" if name in values else "is missing"
            raise BadInput(f"{origin}: {name} {state}: write {name}=…, {meaning_of(kind, name)}")
        if name not in values:
            continue
        wanted = str if item.default is MISSING or item.default is None else type(item.default)
        if not isinstance(values[name], wanted):
            raise BadInput(f"{origin}: {name}: {values[name]!r} is not a {wanted.__name__}")
    made: Any = kind(**values)
    if wrong := made.wrong:
        raise BadInput(f"{origin}: {wrong}")
    declared: T = made
    return declared
