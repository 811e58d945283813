"""Modules are read when they are first used (gostlab/lazy.py)."""

import sys
import threading
from pathlib import Path

import pytest

from gostlab import lazy
from tests.lab_command import said_by

ROOT = Path(__file__).resolve().parents[1]


def said(script: str) -> str:
    """What a Python of its own prints of a script."""
    done = said_by(sys.executable, "-c", script, check=True)
    return done.stdout.strip()


def test_what_is_imported_as_a_module_is_not_read_before_it_is_used() -> None:
    script = (
        "import sys; from gostlab.scheduler import queue\n"
        "print('tempfile' in sys.modules, type(queue).__name__)\n"
        "queue.run_all; print(type(queue).__name__)"
    )
    assert said(script).split() == ["False", "Unread", "module"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "spared"),
    [
        ("from gostlab.cli.main import main; main(['--help'])", "pandas numpy matplotlib"),
        (
            "from gostlab.spec.experiment import load_experiment as load;"
            " load('thesis-tunnel'); load('li2018')",
            "matplotlib pandas gostlab.analysis",
        ),
        (
            "import gostlab.analysis.report.report",
            "mininet gostlab.guest gostlab.sandbox gostlab.scheduler gostlab.install",
        ),
    ],
)
def test_what_needs_no_library_and_no_other_room_imports_none(does: str, spared: str) -> None:
    found = f"[name for name in sys.modules if name.startswith({tuple(spared.split())})]"
    assert said(f"import sys\n{does}\nprint({found})").endswith("[]")


@pytest.fixture
def unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Makes a module of some source, and imports it unread."""

    def make(source: str):  # type: ignore[no-untyped-def]
        (tmp_path / "read_late.py").write_text(source, encoding="utf-8")
        monkeypatch.setattr(lazy, "OTHERS", {"read_late"})
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "read_late", raising=False)
        return __import__("read_late")

    return make


def test_a_module_is_read_once_however_many_threads_ask(unread) -> None:  # type: ignore[no-untyped-def]
    module = unread(
        "import time\ntime.sleep(0.05)\nimport sys\nme = sys.modules[__name__].__name__"
    )
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(module.me)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["read_late"] * 8


def test_what_is_set_on_a_module_stays_although_it_is_read_later(unread) -> None:  # type: ignore[no-untyped-def]
    module = unread("limit = 1\ndef ask(): return limit")
    module.limit = 2
    assert (module.ask(), module.limit) == (2, 2)


def test_a_module_that_cannot_be_read_says_so_each_time(unread) -> None:  # type: ignore[no-untyped-def]
    module = unread("import no_such_module_at_all")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError):
            _ = module.anything


def test_a_signal_waits_until_the_module_is_read(tmp_path: Path) -> None:
    """In a Python of its own, as the signal would end the tests' own."""
    late = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nlast = 1"
    (tmp_path / "read_late.py").write_text(late, encoding="utf-8")
    script = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"sys.path.insert(0, {str(tmp_path)!r}); from gostlab import lazy\n"
        "lazy.OTHERS.add('read_late'); import read_late\n"
        "try:\n    read_late.last\nexcept KeyboardInterrupt:\n    print('after', read_late.last)"
    )
    assert said(script) == "after 1"


def test_a_command_compiles_what_dataclasses_writes_once_and_keeps_it(tmp_path: Path) -> None:
    """Where there is a place for it; what is broken there is made anew."""
    script = (
        "import pathlib; from gostlab import lazy\n"
        f"with lazy.written_once(pathlib.Path({str(tmp_path / 'kept')!r})):\n"
        "    from gostlab.spec.run_spec import RunSpec\n"
        "print(RunSpec.__init__.__name__)"
    )
    assert said(script) == "__init__" and not (tmp_path / "kept").exists()
    (tmp_path / "kept").mkdir()
    assert said(script) == "__init__"
    [file] = (tmp_path / "kept").iterdir()
    first = file.read_bytes()
    assert said(script) == "__init__" and file.read_bytes() == first
    file.write_bytes(first[:100])
    assert said(script) == "__init__" and file.read_bytes() == first
