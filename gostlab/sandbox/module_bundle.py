"""What a run's Python imports, in one file: a guest reads it once, before its clock begins anew,
and no module after that. With a file of its own each takes a dozen calls, and every call some of
the clock: which files the lab has would be in the samples.

    python3 -m gostlab.sandbox.module_bundle FILE     by the Python of a guest's root, on the host

FILE has, behind the length of the index in eight bytes, the index and the byte code of all modules,
as `marshal` writes them. The index has for each name whether it is a package, and where its code
is; or where an extension's file is. Two have no other file: WRITTEN is what `dataclasses` writes
for the lab's classes, DECLARED what the kinds declare. gostlab/sandbox/guest_init.py imports from
it.
"""

import marshal
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from types import CodeType

from gostlab import lazy
from gostlab.registry.folders import CODE, NODE_PROGRAMS, ROOT, TOPOLOGY_FILE, TUNNELS
from gostlab.registry.qdiscs import qdisc_kinds
from gostlab.registry.topologies import topologies
from gostlab.registry.traffic import traffic_kinds
from gostlab.registry.tunnels import tunnel_kinds

LAB = "/run/host/lab"  # where a guest sees the lab
WHOLE = (NODE_PROGRAMS, TUNNELS.parent)  # the folders of which all is there
OF_INIT = ("gostlab.guest.run", "runpy", "site")  # what it imports itself, with all that follows
WRITTEN, DECLARED = "(dataclasses)", "gostlab.registry.kept"
PYC_HEADER_BYTES = 16
Kept = tuple[str, bool, bytes | str]  # name, is a package, code or an extension's file


def of_the_lab() -> Iterator[Kept]:
    """The lab's modules. What does not compile is left to what imports it."""
    for path in (*(CODE / "gostlab").rglob("*.py"), TOPOLOGY_FILE):
        inside = path.relative_to(CODE)
        words = (path.relative_to(ROOT) if path == TOPOLOGY_FILE else inside).with_suffix("").parts
        is_package = words[-1] == "__init__"
        name = ".".join(words[:-1] if is_package else words)
        if name in sys.modules or any(map(path.is_relative_to, WHOLE)):
            try:
                code = compile(path.read_bytes(), f"{LAB}/{inside}", "exec", dont_inherit=True)
            except (OSError, SyntaxError, ValueError):
                continue
            yield name, is_package, marshal.dumps(code)


def of_others() -> Iterator[Kept]:
    """Python's own and Mininet's modules that are imported here, as they lie in the root."""
    for module in list(sys.modules.values()):
        spec = getattr(module, "__spec__", None)
        loader = spec and type(spec.loader)
        if spec and loader is ExtensionFileLoader:
            yield spec.name, False, f"/usr{str(spec.origin).removeprefix(sys.prefix)}"
        elif spec and loader is SourceFileLoader and Path(spec.cached or "").is_file():
            code = Path(str(spec.cached)).read_bytes()[PYC_HEADER_BYTES:]
            yield spec.name, spec.submodule_search_locations is not None, code


def declared() -> bytes:
    """What the kinds declare, as a module."""
    kinds: dict[str, Mapping[str, object]] = {
        "TUNNEL": tunnel_kinds(),
        "QDISC": qdisc_kinds(),
        "TRAFFIC": traffic_kinds(),
        "TOPOLOGY": topologies(),
    }
    # Some have several names.
    once = {name: {id(kind): vars(kind) for kind in of.values()} for name, of in kinds.items()}
    values = {name: list(of.values()) for name, of in once.items()}
    return marshal.dumps(compile(f"DECLARED = {values!r}", DECLARED, "exec"))


def main(file: str) -> None:
    written: dict[str, CodeType] = {}
    lazy.execute_written(written)
    for name in OF_INIT:
        import_module(name)
    lazy.read_all()
    kept = [*of_others(), *of_the_lab(), (DECLARED, False, declared())]
    kept.append((WRITTEN, False, marshal.dumps(written)))
    index: dict[str, tuple[bool, int, int] | str] = {}
    codes: list[bytes] = []
    at = 0
    for name, is_package, code in kept:
        if isinstance(code, str):
            index[name] = code
            continue
        index[name] = is_package, at, len(code)
        at += len(code)
        codes.append(code)
    head = marshal.dumps(index)
    lazy.replace(Path(file), b"".join([len(head).to_bytes(8, "little"), head, *codes]))


if __name__ == "__main__":
    main(sys.argv[1])
