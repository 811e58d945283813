"""Execute gostlab's modules at their first use instead of at their import.

`from gostlab.scheduler import queue` and `import gostlab.analysis.report.report` cost nothing until
an attribute of the module is read, so that imports stand at the top of a file and `./lab --help`
loads no pandas. `from gostlab.scheduler.queue import Finished` uses the module, and executes it at
once.
"""

import builtins
import dataclasses
import marshal
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

PREFIXES = ("gostlab.",)
OTHERS = {"yaml", "tomllib", "urllib.request"}  # other modules that no run needs
# Attributes that Python's import reads on every import; they exist without executing the module.
OF_THE_IMPORT = {"__spec__", "__path__", "__name__", "__file__", "__loader__", "__package__"}
MAX_WRITTEN = 800  # maximum number of cached code objects; gostlab has fewer than 500
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Unread(ModuleType):
    """Represent a module that has not been executed yet."""

    def __getattribute__(self, name: str) -> Any:
        if name not in OF_THE_IMPORT:
            read(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, ModuleType):  # an import sets a submodule as an attribute
            read(self)  # executing the module would overwrite the attribute
        ModuleType.__setattr__(self, name, value)


@contextmanager
def signals_wait() -> Iterator[Callable[[], object]]:
    """Block signals within a `with` block.

    Python drops an exception that is raised in its own callbacks, as those of an import and of a
    fork. Gives a function that unblocks the signals in a forked child.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    let_through = partial(signal.pthread_sigmask, signal.SIG_SETMASK, before)
    try:
        yield let_through
    finally:
        let_through()


def read(module: ModuleType) -> None:
    """Execute a module's code once, whichever thread comes first, with signals blocked."""
    loader: Any = ModuleType.__getattribute__(module, "__spec__").loader
    with loader.lock:
        if loader.begun:  # by another thread, or by this one in a cyclic import
            return
        loader.begun = True
        try:
            with signals_wait():
                loader.real.exec_module(module)
                module.__class__ = ModuleType
        except BaseException:
            loader.begun = False
            raise


class WhenUsed:
    """Load a module by its real loader at its first use."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.lock = threading.RLock()
        self.begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)  # `python3 -m` needs get_code and get_source

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return the module that the real loader creates, or None for Python's default."""
        module: ModuleType | None = self.real.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Mark the module as not executed yet."""
        module.__class__ = Unread


class LazyFinder:
    """Find gostlab's modules as Python does, and defer executing them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Any:
        """Return a spec with a deferring loader, or None for most third-party modules."""
        if not name.startswith(PREFIXES) and name not in OTHERS:
            return None
        later_finders: Any = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in later_finders)
        spec = next((found_spec for found_spec in specs if found_spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = WhenUsed(spec.loader)
        return spec


def read_all() -> None:
    """Execute all of gostlab's modules that have been imported so far, and their imports.

    A run needs this because its clock advances while a module is read, by an amount that depends on
    the length of gostlab's path.
    """
    while unread := [
        module
        for module in list(sys.modules.values())
        if type(module) is Unread and module.__name__ not in OTHERS
    ]:
        for module in unread:
            read(module)


def execute_written(codes: dict[str, CodeType]) -> None:
    """Have `dataclasses` take the byte code of its generated source from a cache.

    Missing entries are added. Compiling the source is a third of the time to import gostlab's
    modules.
    """

    def execute(text: str, *scopes: dict[str, Any]) -> None:
        if text not in codes:
            codes[text] = compile(text, "<dataclass>", "exec")
        builtins.exec(codes[text], *scopes)

    vars(dataclasses)["exec"] = execute


def replace(file: Path, content: bytes) -> None:
    """Write a file atomically, by rename. Raises OSError."""
    temporary = Path(f"{file}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(file)


@cache
def written_in(file: Path) -> dict[str, CodeType]:
    """Return the byte code cached in a file; empty if most entries are of other versions."""
    codes: dict[str, CodeType] = {}
    with suppress(OSError, ValueError, EOFError, TypeError):
        codes = marshal.loads(file.read_bytes())
    return codes if len(codes) <= MAX_WRITTEN else {}


@contextmanager
def written_once(folder: Path) -> Iterator[None]:
    """Cache the code that `dataclasses` generates in a folder, if the folder exists.

    The first command compiles it. The cache saves a tenth of the run time of a short `./lab try`.
    """
    file = folder / f"dataclasses.{sys.implementation.cache_tag}"
    codes = written_in(file)
    known = len(codes)
    execute_written(codes)
    try:
        yield
    finally:
        if len(codes) > known and folder.is_dir():
            with suppress(OSError):
                replace(file, marshal.dumps(codes))


def install() -> None:
    """Install the lazy finder in this process."""
    sys.meta_path.insert(0, LazyFinder())
