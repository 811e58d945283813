"""Bundle the modules that a run imports in one file.

A guest reads the bundle at once, before its virtual clock is reset, and no module file after that.
Each module file would take a dozen system calls, each of which costs virtual time: the samples
would depend on the lab's list of files.

    python3 -m gostlab.sandbox.module_bundle FILE     with the Python of a guest's root, on the host

FILE has the length of the index in eight bytes, then the index and the byte code of all modules, as
`marshal` writes them. The index has for each name whether it is a package, and the position of its
code; or the file of an extension module. The entry GENERATED has no source file: it is what
`dataclasses` generates for the lab's classes.
gostlab/sandbox/guest_init.py imports from FILE.
"""

import marshal
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from types import CodeType

from gostlab import lazy
from gostlab.registry.folders import CODE, NODE_PROGRAMS, RUN_PLUGINS, TOPOLOGY_FILE

LAB = "/run/host/lab"  # the lab's path in a guest
WHOLE_FOLDERS = (NODE_PROGRAMS, *RUN_PLUGINS, TOPOLOGY_FILE)  # bundled completely
INIT_IMPORTS = (
    "gostlab.guest.run",
    "mininet.net",
    "runpy",
    "site",
)  # imported by guest_init, with their dependencies
GENERATED = "(dataclasses)"
PYC_HEADER_BYTES = 16
BundleEntry = tuple[str, bool, bytes | str]  # name, is it a package, code or file of an extension


def lab_modules() -> Iterator[BundleEntry]:
    """Yield the lab's modules; those that do not compile are left to their importer."""
    for path in (*(CODE / "gostlab").rglob("*.py"), TOPOLOGY_FILE):
        inside = path.relative_to(CODE)
        parts = inside.with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        if name in sys.modules or any(map(path.is_relative_to, WHOLE_FOLDERS)):
            try:
                code = compile(path.read_bytes(), f"{LAB}/{inside}", "exec", dont_inherit=True)
            except (OSError, SyntaxError, ValueError):
                continue
            yield name, is_package, marshal.dumps(code)


def imported_modules() -> Iterator[BundleEntry]:
    """Yield the imported modules of Python and Mininet with their paths in the root."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        loader = spec and type(spec.loader)
        if spec and loader is ExtensionFileLoader:
            yield spec.name, False, f"/usr{str(spec.origin).removeprefix(sys.prefix)}"
        elif spec and loader is SourceFileLoader and Path(spec.cached or "").is_file():
            code = Path(str(spec.cached)).read_bytes()[PYC_HEADER_BYTES:]
            yield spec.name, spec.submodule_search_locations is not None, code


def main(file: str) -> None:
    generated: dict[str, CodeType] = {}
    lazy.execute_written(generated)
    for name in INIT_IMPORTS:
        import_module(name)
    lazy.read_all()
    entries = [*imported_modules(), *lab_modules()]
    entries.append((GENERATED, False, marshal.dumps(generated)))
    index: dict[str, tuple[bool, int, int] | str] = {}
    codes: list[bytes] = []
    position = 0
    for name, is_package, code in entries:
        if isinstance(code, str):
            index[name] = code
            continue
        index[name] = is_package, position, len(code)
        position += len(code)
        codes.append(code)
    index_bytes = marshal.dumps(index)
    lazy.replace(
        Path(file), b"".join([len(index_bytes).to_bytes(8, "little"), index_bytes, *codes])
    )


if __name__ == "__main__":
    main(sys.argv[1])
