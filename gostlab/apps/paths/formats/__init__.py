"""The formats: a file each, with a FORMAT. Those that others may look like are tried last."""

from importlib import import_module

from gostlab.apps.paths.recordings import Format
from gostlab.declared.folders import FORMATS as FOLDER
from gostlab.declared.source import check_written, parse_source


def found() -> dict[str, Format]:
    """Every format, as they are tried. Raises BadInput for one that is still to be written."""
    formats: list[Format] = []
    for path in sorted(FOLDER.glob("[!_]*.py")):
        check_written(path, parse_source(path).body)
        formats.append(import_module(f"{__name__}.{path.stem}").FORMAT)
    return {each.name: each for each in sorted(formats, key=lambda each: each.vague)}


FORMATS = found()
