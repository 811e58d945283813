"""Find the importers: a file each in gostlab/importers, with a FORMAT."""

from gostlab.errors import BadInput
from gostlab.importers.base import Format
from gostlab.registry.folders import FORMATS as FOLDER
from gostlab.registry.folders import from_root
from gostlab.registry.plugins import import_file


def find_formats() -> dict[str, Format]:
    """Return every format by name, those that match other formats' files last. Raises BadInput."""
    formats: list[Format] = []
    for path in sorted(set(FOLDER.glob("[!_]*.py")) - {FOLDER / "base.py"}):
        declared = getattr(import_file(path), "FORMAT", None)
        if not isinstance(declared, Format):
            raise BadInput(f"{from_root(path)}: no FORMAT = Format(...) (base.py says how)")
        formats.append(declared)
    return {one.name: one for one in sorted(formats, key=lambda one: one.vague)}


FORMATS = find_formats()
