"""Find the importers: a file each in gostlab/importers, with a FORMAT."""

from importlib import import_module

from gostlab.importers.base import Format
from gostlab.registry.folders import FORMATS as FOLDER
from gostlab.registry.static_loader import check_written, parse_source


def find_formats() -> dict[str, Format]:
    """Return every format by name, those that match other formats' files last.

    Raises BadInput for a template that is not filled in yet.
    """
    formats: list[Format] = []
    for path in sorted(set(FOLDER.glob("[!_]*.py")) - {FOLDER / "base.py"}):
        check_written(path, parse_source(path).body)
        formats.append(import_module(f"gostlab.importers.{path.stem}").FORMAT)
    return {one.name: one for one in sorted(formats, key=lambda one: one.vague)}


FORMATS = find_formats()
