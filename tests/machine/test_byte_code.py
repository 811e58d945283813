"""The lab's byte code, for guests that can write none."""

import importlib.util
import sys
from pathlib import Path

import pytest

from gostlab.machine import byte_code

SEEN_AT = "/somewhere/in/a/guest"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A checkout with a package of two modules."""
    package = tmp_path / "code/package"
    for name in ("one", "apps/two", "tunnels/three"):
        file = package / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("def here():\n    return __file__\n", encoding="utf-8")
    return tmp_path / "code"


def compiled(code: Path, folder: Path) -> dict[str, float]:
    """Compile a checkout; when each module's byte code was written, by its name."""
    byte_code.compile_new(folder, code, SEEN_AT, byte_code.sources_in(code / "package"))
    found = folder.rglob(f"*.{sys.implementation.cache_tag}.pyc")
    return {file.name.partition(".")[0]: file.stat().st_mtime_ns for file in found}


def test_byte_code_lies_where_a_python_looks_that_sees_the_sources_elsewhere(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(code, tmp_path / "compiled")

    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "compiled"))
    looked_for = Path(importlib.util.cache_from_source(f"{SEEN_AT}/package/one.py"))
    assert looked_for.is_file()
    assert f"{SEEN_AT}/package/one.py".encode() in looked_for.read_bytes()


def test_what_no_guest_imports_is_not_compiled(code: Path, tmp_path: Path) -> None:
    assert compiled(code, tmp_path / "compiled").keys() == {"one", "three"}


def test_a_source_is_compiled_again_when_it_changes_and_only_then(
    code: Path, tmp_path: Path
) -> None:
    first = compiled(code, tmp_path / "compiled")
    assert compiled(code, tmp_path / "compiled") == first

    (code / "package/one.py").write_text("ANOTHER = 1\n", encoding="utf-8")
    assert compiled(code, tmp_path / "compiled")["one"] > first["one"]


@pytest.mark.parametrize("broken", ["def", "\0"])
def test_what_cannot_be_compiled_is_left_to_who_imports_it(
    broken: str, code: Path, tmp_path: Path
) -> None:
    (code / "package/four.py").write_text(broken, encoding="utf-8")
    assert compiled(code, tmp_path / "compiled").keys() == {"one", "three"}


def test_a_folder_that_cannot_be_written_is_no_error(code: Path, tmp_path: Path) -> None:
    (tmp_path / "compiled").write_text("a file")
    byte_code.compile_new(
        tmp_path / "compiled", code, SEEN_AT, byte_code.sources_in(code / "package")
    )
    assert (tmp_path / "compiled").is_file()
