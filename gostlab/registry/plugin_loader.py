# SPDX-License-Identifier: MIT
"""Import plugins, and collect what they declare.

A plugin is one file, or a module of another package (registry.installed). It declares
`CONSTANT = Kind(...)`, or a tuple of several, and defines a function that the kind of plugin
requires. Whatever goes wrong in the file is reported in one line that names it: this module is
where the files of users are first imported.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from gostlab.errors import BadInput
from gostlab.registry.folders import CODE, from_root
from gostlab.registry.installed_plugins import (
    InstalledPlugin,
    UsedPlugin,
    all_installed,
    installed,
    record_use,
)

T = TypeVar("T", bound="PluginDeclaration")
Value = TypeVar("Value")


class PluginDeclaration:
    """Check the types of a plugin's declaration, and what its class rejects."""

    name: str
    module: str

    def __post_init__(self) -> None:
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            expected_type = str if item.default is MISSING else type(item.default)
            if not isinstance(value, expected_type):
                raise BadInput(f"{item.name}: {value!r} is not a {expected_type.__name__}")
            if item.default is MISSING and not value:
                raise BadInput(f"{item.name} is empty")
        if self.wrong:
            raise BadInput(self.wrong)

    @property
    def wrong(self) -> str:
        """Return a contradiction in the declaration, or ""."""
        return ""


def plugin_module(declaration: PluginDeclaration) -> ModuleType:
    """Return the module of a plugin, which no other code names. Raises what it raises."""
    return import_module(declaration.module)


def origin_of(declaration: PluginDeclaration) -> str:
    """Return the file of a plugin, or its package, for messages."""
    for plugin in all_installed():
        if plugin.module == declaration.module:
            return str(plugin)
    return f"{declaration.module.replace('.', '/')}.py"


def plugin_of(group: str, module: str) -> InstalledPlugin | None:
    """Return the plugin of another package that a module is, or None for one of the lab's own."""
    return next((plugin for plugin in installed(group) if plugin.module == module), None)


def plugins_used(declarations: Iterable[tuple[str, str]]) -> list[UsedPlugin]:
    """Return other packages' plugins among modules, each given with its group. Raises BadInput."""
    candidates = (plugin_of(group, module) for group, module in dict.fromkeys(declarations))
    return [record_use(plugin) for plugin in candidates if plugin is not None]


def import_installed(plugin: InstalledPlugin) -> ModuleType:
    """Import a plugin of another package. Raises BadInput with its line for what it raises."""
    try:
        return import_module(plugin.module)
    except (Exception, SystemExit) as error:
        reason = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        line = last_line(error)
        raise BadInput(f"plugin {plugin}{line}: {reason}: mend or uninstall it") from error


def import_file(path: Path) -> ModuleType:
    """Import a plugin's file. Raises BadInput with its line for whatever the file raises."""
    try:
        if path.is_relative_to(CODE):
            return import_module(module_name(path))
        from importlib.util import module_from_spec, spec_from_file_location

        spec: Any = spec_from_file_location(path.stem, path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        reason = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        raise BadInput(f"{from_root(path)}{error_line_suffix(path, error)}: {reason}") from error
    return module


def last_line(error: BaseException) -> str:
    """Return the file and line in which an exception was raised, like " (plugin.py:12)"."""
    if isinstance(error, SyntaxError):
        return f" ({Path(error.filename or '?').name}:{error.lineno})"
    frame, where = error.__traceback__, ""
    while frame is not None:
        file = frame.tb_frame.f_code.co_filename
        where = where if file.startswith("<frozen") else f" ({Path(file).name}:{frame.tb_lineno})"
        frame = frame.tb_next
    return where


def module_name(path: Path) -> str:
    """Return the module of a plugin's file; outside the lab it is the file's stem."""
    if not path.is_relative_to(CODE):
        return path.stem
    return ".".join(path.relative_to(CODE).with_suffix("").parts)


def error_line_suffix(path: Path, error: BaseException) -> str:
    """Return the line of a file in which an exception was raised, like ":12", or ""."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f":{error.lineno}"
    line, frame = "", error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(path):
            line = f":{frame.tb_lineno}"
        frame = frame.tb_next
    return line


def declarations_by_name(folder: Path, constant: str, kind: type[T], function: str) -> dict[str, T]:
    """Return the declarations of a folder's modules by each of their names.

    The lab's own folder has those of other packages besides. Raises BadInput for an incomplete
    declaration, or two of one name.
    """
    modules = [
        (module_name(path), import_file(path), from_root(path))
        for path in sorted(folder.glob("[!_]*.py"))
    ]
    if folder.is_relative_to(CODE):
        modules += [
            (plugin.module, import_installed(plugin), f"plugin {plugin}")
            for plugin in installed(folder.name)
        ]
    by_name: dict[str, T] = {}
    declarations = [
        replace(declaration, module=name)  # type: ignore[type-var]
        for name, module, origin in modules
        for declaration in iter_declarations(module, origin, constant, kind, function)
    ]
    # The order does not depend on the files.
    for declaration in sorted(declarations, key=lambda declaration: declaration.name):
        for name in (declaration.name, *getattr(declaration, "spellings", ())):
            if name in by_name:
                raise BadInput(
                    f"{from_root(folder)}: {origin_of(declaration)} and"
                    f" {origin_of(by_name[name])} are both called {name}"
                )
            by_name[name] = declaration
    return by_name


def iter_declarations(
    imported: ModuleType, origin: str, constant: str, kind: type[T], function: str
) -> Iterator[T]:
    """Yield the declarations of a module. Raises BadInput for an incomplete one.

    A module with neither the constant nor the function is a helper of others.
    """
    module = vars(imported)
    if constant not in module and function not in module:
        return
    if constant not in module:
        raise BadInput(
            f"{origin}: {function}() without {constant} = {kind.__name__}(...): nobody can ask"
            " for it"
        )
    if not callable(module.get(function)):
        raise BadInput(f"{origin}: {constant} without a function {function}()")
    declared = module[constant]
    for declaration in declared if isinstance(declared, tuple) else (declared,):
        if not isinstance(declaration, kind):
            raise BadInput(f"{origin}: {constant} is not {kind.__name__}(name=..., ...)")
        yield declaration


def read_records(folder: Path, file: str, read: Callable[[Path, Any], Value]) -> Iterator[Value]:
    """Yield what `read` makes of each record in the subfolders, without incomplete records."""
    for path in sorted(folder.glob(f"*/{file}")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            yield read(path, json.loads(path.read_text(encoding="utf-8")))


def find_by_name(name: str, known: Mapping[str, Value], what: str) -> Value:
    """Return the item of a name. Raises BadInput if there is none."""
    if name not in known:
        raise BadInput(f"no such {what}: {name} (there are {', '.join(known)})")
    return known[name]
