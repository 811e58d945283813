# SPDX-License-Identifier: MIT
"""Bundle the modules that a run imports in one folder of byte code.

A guest imports from the bundle before its virtual clock is reset. Reading the modules where they
are would take system calls that depend on the folders of the lab and of Python, and on their
contents. A zip file would take a fifth more of a guest's start: zipimport reads each module twice.

    python3 -m gostlab.sandbox.python_bundle FOLDER   with the Python of a guest's root, on the host

FOLDER gets the byte code of gostlab's modules, and of those of Python and Mininet that they import.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER
from marshal import dumps
from pathlib import Path

from gostlab.errors import LAB_IN_GUEST
from gostlab.registry.folders import CODE, TOPOLOGY_FILE

# What a guest imports (gostlab/sandbox/guest_init.py), with all that these import.
IMPORTED = ("gostlab.guest.run", "mininet.net", "runpy", "site")
# The header of byte code that is never compared with a source file.
HEADER = MAGIC_NUMBER + bytes(12)


def modules() -> Iterator[tuple[Path, Path, str]]:
    """Yield a file of each module, with its path in the bundle, and the folder of that in a guest.

    A bundled package has no modules elsewhere: all of each is bundled.
    """
    for path in (*(CODE / "gostlab").rglob("*.py"), TOPOLOGY_FILE):
        yield path, path.relative_to(CODE), LAB_IN_GUEST
    for name in sorted({name.partition(".")[0] for name in sys.modules} - {"gostlab", "__main__"}):
        spec = getattr(sys.modules[name], "__spec__", None)
        if spec is None or type(spec.loader) is not SourceFileLoader:
            continue
        file = Path(str(spec.origin))
        is_package = file.name == "__init__.py"
        folder = file.parent.parent if is_package else file.parent
        for path in file.parent.rglob("*.py") if is_package else [file]:
            yield path, path.relative_to(folder), f"/usr{str(folder).removeprefix(sys.prefix)}"


def main(bundle: Path) -> None:
    for imported in IMPORTED:
        import_module(imported)
    for path, name, folder in modules():
        with suppress(SyntaxError, ValueError):  # it is left to its importer
            code = compile(path.read_bytes(), f"{folder}/{name}", "exec", dont_inherit=True)
            file = bundle / name.with_suffix(".pyc")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(HEADER + dumps(code))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
