"""Load declarations of plugins and topologies without running their files.

A tunnel's file and topo.py import Mininet or further programs' modules; an experiment must be
readable without them. Declarations are therefore literals, which are read from the syntax tree.
Only the standard library is used: the installation reads declarations before any package is
installed.
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
# A guest has cached declarations (gostlab.sandbox.module_bundle), as parsing takes a tenth of a
# short run.
with suppress(ImportError):
    from gostlab.registry.kept import DECLARED  # type: ignore[no-redef]

T = TypeVar("T")
# Two threads in Python 3.11's parser cause a SystemError (python/cpython#106905).
PARSING = Lock()


def parse_source(path: Path) -> ast.Module:
    """Return the syntax tree of a file. Raises BadInput."""
    try:
        with PARSING:
            return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise BadInput(f"{from_root(path)}: cannot be read: {error}") from None


def assigned(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """Return the assignments `name = value` of a module or a class by name."""
    assignments = {}
    for statement in body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            target, value = statement.target, statement.value
        else:
            continue
        if isinstance(target, ast.Name):
            assignments[target.id] = value
    return assignments


def functions(body: list[ast.stmt]) -> set[str]:
    """Return the names of the functions that a module or a class defines."""
    return {statement.name for statement in body if isinstance(statement, ast.FunctionDef)}


def literal_of(path: Path, name: str, value: ast.expr) -> Any:
    """Return the value of a literal. Raises BadInput naming its line."""
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
    """Return the declarations of a folder's modules by each of their names.

    `names` are the names that declarations may use. Raises BadInput for an incomplete declaration,
    or two of one name.
    """
    by_name: dict[str, Any] = {}
    declared: Iterable[Any] = declarations(folder, constant, kind, function, names)
    # The order does not depend on the files.
    for declaration in sorted(declared, key=lambda declaration: declaration.name):
        for name in (declaration.name, *getattr(declaration, "spellings", ())):
            if name in by_name:
                raise BadInput(
                    f"{from_root(folder)}: {declaration.module}.py and {by_name[name].module}.py"
                    " are both"
                    f" called {name}"
                )
            by_name[name] = declaration
    return by_name


def declarations(
    folder: Path, constant: str, kind: type[T], function: str, names: Mapping[str, Any]
) -> Iterator[T]:
    """Yield the declarations of a folder's modules. Raises BadInput for an incomplete one.

    A declaration is `CONSTANT = Kind(...)`, or a tuple of several, together with a function of the
    given name; a module with neither is a helper of others.
    """
    if constant in DECLARED:
        yield from (kind(**values) for values in DECLARED[constant])
        return
    declaring = re.compile(rf"^(?:{constant}|(?:def )?{function})\b", re.MULTILINE)
    for path in sorted(folder.glob("*.py")):
        if not declaring.search(path.read_text(encoding="utf-8", errors="replace")):
            # Parsing helper modules would take half of this function's time, in every run.
            continue
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
        items = declaration.elts if isinstance(declaration, ast.Tuple) else [declaration]
        for item in items:
            position = f"{origin}:{item.lineno}: {constant}"
            values = keywords_of(path, position, kind, item, names)
            yield declared_as(kind, position, {**values, "module": path.stem})
        check_written(path, body)


def module_of(folder: Path, name: str) -> Any:
    """Import and return a plugin's module, which no other code imports or names."""
    return import_module(".".join((*folder.relative_to(CODE).parts, name)))


def keywords_of(
    path: Path, position: str, kind: type, declaration: ast.expr, names: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the keywords of `Kind(...)` in a file, or of another function in `names`.

    Such a function returns a Kind.
    """
    if not isinstance(declaration, ast.Call) or declaration.args:
        raise BadInput(f"{position} is not {kind.__name__}(name=..., ...)")
    values = {
        str(keyword.arg): names[keyword.value.id]
        if isinstance(keyword.value, ast.Name) and keyword.value.id in names
        else literal_of(path, str(keyword.arg), keyword.value)
        for keyword in declaration.keywords
    }
    factory = names.get(declaration.func.id) if isinstance(declaration.func, ast.Name) else None
    if factory in (None, kind):
        return values
    try:
        return dict(vars(factory(**values)))
    except TypeError as error:
        raise BadInput(f"{position}: {error}") from None


def records(folder: Path, file: str, read: Callable[[Path, Any], T]) -> Iterator[T]:
    """Yield what `read` makes of each record in the subfolders, without incomplete records."""
    for path in sorted(folder.glob(f"*/{file}")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            yield read(path, json.loads(path.read_text(encoding="utf-8")))


def one_called(name: str, known: Mapping[str, T], what: str) -> T:
    """Return the item of a name. Raises BadInput if there is none."""
    if name not in known:
        raise BadInput(f"no such {what}: {name} (there are {', '.join(known)})")
    return known[name]


def check_written(path: Path, body: list[ast.stmt]) -> None:
    """Reject a function that `./lab new` left to be written. Raises BadInput."""
    for node in body:
        last_statement = node.body[-1] if isinstance(node, ast.FunctionDef) else None
        if isinstance(last_statement, ast.Raise) and isinstance(last_statement.exc, ast.Call):
            call = last_statement.exc
            if isinstance(call.func, ast.Name) and call.func.id == "NotImplementedError":
                what = literal_of(path, "NotImplementedError", call.args[0])
                raise BadInput(
                    f"{from_root(path)}:{last_statement.lineno}: still to be written: {what}"
                )


def meaning_of(kind: type, name: str) -> str:
    """Return the description of a field in a dataclass's docstring, as one line."""
    match = re.search(rf"^ {{4}}{name}  +(.+(?:\n {{8,}}\S.*)*)", kind.__doc__ or "", re.MULTILINE)
    return " ".join(match[1].split()) if match else "see the class"


def declared_as(kind: type[T], origin: str, values: Mapping[str, Any]) -> T:
    """Return a declaration as a dataclass.

    Raises BadInput for a missing, unknown or mistyped key, and for what the dataclass itself
    rejects.
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
        expected_type = (
            str if item.default is MISSING or item.default is None else type(item.default)
        )
        if not isinstance(values[name], expected_type):
            raise BadInput(f"{origin}: {name}: {values[name]!r} is not a {expected_type.__name__}")
    instance: Any = kind(**values)
    if problem := instance.wrong:
        raise BadInput(f"{origin}: {problem}")
    declared: T = instance
    return declared
