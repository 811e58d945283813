"""The lab's modules are read when they are first used.

`from gostlab.scheduler import queue` and `import gostlab.analysis.report.report` cost nothing until
something of the module is read, so that imports stand at the top of a file and `./lab --help`
reads no pandas. `from gostlab.scheduler.queue import Finished` uses the module, and reads it at
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
OTHERS = {"yaml", "tomllib", "urllib.request"}  # a run reads none; what reads and fetches does
# What Python asks of a module each time that it is imported; this is there without reading it.
OF_THE_IMPORT = {"__spec__", "__path__", "__name__", "__file__", "__loader__", "__package__"}
MAX_WRITTEN = 800  # the lab's own are fewer than 500
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class Unread(ModuleType):
    """A module that nobody has asked anything yet."""

    def __getattribute__(self, name: str) -> Any:
        if name not in OF_THE_IMPORT:
            read(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if not isinstance(value, ModuleType):  # as a package is given what is imported from it
            read(self)  # which would set it anew
        ModuleType.__setattr__(self, name, value)


@contextmanager
def signals_wait() -> Iterator[Callable[[], object]]:
    """Signals wait until the end: Python drops an exception that is raised in its own callbacks, as
    those of an import and of a fork. Gives what lets them through again, for a fork's child.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    let_through = partial(signal.pthread_sigmask, signal.SIG_SETMASK, before)
    try:
        yield let_through
    finally:
        let_through()


def read(module: ModuleType) -> None:
    """Execute a module's code once, whichever thread asks first; signals wait until then."""
    loader: Any = ModuleType.__getattribute__(module, "__spec__").loader
    with loader.lock:
        if loader.begun:  # by another thread, or by this one: the module asks for itself
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
    """Loads a module by its own loader, later."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.lock = threading.RLock()
        self.begun = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)  # get_code and get_source, which `python3 -m` asks for

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module that the real loader makes, or Python's own."""
        module: ModuleType | None = self.real.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet."""
        module.__class__ = Unread


class LazyFinder:
    """Finds the lab's modules as Python does, and puts off reading them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> Any:
        """None for most of other people's modules."""
        if not name.startswith(PREFIXES) and name not in OTHERS:
            return None
        behind: Any = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(name, path, target) for finder in behind)
        spec = next((each for each in specs if each is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = WhenUsed(spec.loader)
        return spec


def read_all() -> None:
    """Read every module of the lab's that has been imported so far, and what these import: for a
    run, whose clock goes on while a module is read, by more the longer the lab's own path is.
    """
    while unread := [
        each
        for each in list(sys.modules.values())
        if type(each) is Unread and each.__name__ not in OTHERS
    ]:
        for module in unread:
            read(module)


def execute_written(codes: dict[str, CodeType]) -> None:
    """Have `dataclasses` execute what it writes from its byte code; what is missing is added.
    Compiling it is a third of what it takes to read the lab's modules.
    """

    def execute(text: str, *scopes: dict[str, Any]) -> None:
        if text not in codes:
            codes[text] = compile(text, "<dataclass>", "exec")
        builtins.exec(codes[text], *scopes)

    vars(dataclasses)["exec"] = execute


def replace(file: Path, content: bytes) -> None:
    """Write a file whole or not at all. Raises OSError."""
    whole = Path(f"{file}.{os.getpid()}")
    whole.write_bytes(content)
    whole.replace(file)


@cache
def written_in(file: Path) -> dict[str, CodeType]:
    """The byte code that a file keeps; none of a file that is mostly of other versions."""
    codes: dict[str, CodeType] = {}
    with suppress(OSError, ValueError, EOFError, TypeError):
        codes = marshal.loads(file.read_bytes())
    return codes if len(codes) <= MAX_WRITTEN else {}


@contextmanager
def written_once(folder: Path) -> Iterator[None]:
    """What `dataclasses` writes is compiled by the first command, and kept in a folder if that is
    there: a tenth of what `./lab try` takes to say what it knows.
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
    """From here on, in this process."""
    sys.meta_path.insert(0, LazyFinder())
    for finder in sys.meta_path:
        if written := getattr(finder, "written", None):  # in a guest: gostlab/sandbox/guest_init.py
            execute_written(written)
