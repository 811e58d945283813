# SPDX-License-Identifier: MIT
"""Find the importers: a file each in gostlab/importers, or a module of another package."""

from gostlab.errors import BadInput
from gostlab.importers.base import ImportFormat
from gostlab.registry.folders import FORMATS as FOLDER
from gostlab.registry.folders import from_root
from gostlab.registry.installed_plugins import installed
from gostlab.registry.plugin_loader import import_file, import_installed


def find_formats() -> dict[str, ImportFormat]:
    """Return every format by name, those that match other formats' files last. Raises BadInput."""
    files = sorted(set(FOLDER.glob("[!_]*.py")) - {FOLDER / "base.py"})
    modules = [(from_root(path), import_file(path)) for path in files]
    modules += [(f"plugin {one}", import_installed(one)) for one in installed(FOLDER.name)]
    origins: dict[str, str] = {}
    formats: list[ImportFormat] = []
    for origin, module in modules:
        declared = getattr(module, "FORMAT", None)
        if not isinstance(declared, ImportFormat):
            raise BadInput(f"{origin}: no FORMAT = Format(...) (base.py says how)")
        if (other := origins.setdefault(declared.name, origin)) != origin:
            raise BadInput(f"{origin} and {other} are both called {declared.name}")
        formats.append(declared)
    return {one.name: one for one in sorted(formats, key=lambda one: one.vague)}


def reader_package_notes(format: ImportFormat) -> list[str]:
    """Return a profile's sentence on the package that read it, none for the lab itself."""
    plugins = installed(FOLDER.name)
    plugin = next((one for one in plugins if import_installed(one).FORMAT is format), None)
    return [f"Read by {plugin}, SHA-256 {plugin.provide()}."] if plugin else []


FORMATS = find_formats()
