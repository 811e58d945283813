# SPDX-License-Identifier: MIT
"""The compiler of a kernel's build (kernel/precompiled/cc), on a tree of two files."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gostlab.registry import folders
from tests.lab_command import said_by

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
OPTIONS = ["-nostdinc", "-D__KERNEL__", "-O2", "-I./include", '-DKBUILD_MODNAME="own"']
HEADER = """#ifndef ONE
#define ONE
#ifdef LOUD
static inline const char *volume(void) { return "loud"; }
#else
static inline const char *volume(void) { return "quiet"; }
#endif
#define NAME KBUILD_MODNAME
#endif
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree whose files include one header, with the compiler in it."""
    place = tmp_path / "compiler"
    place.mkdir()
    shutil.copy(folders.ROOT / "kernel/precompiled/cc", place)
    (place / "core.h").write_text('#include <one.h>\n#define HELD "held"\n')
    (place / "net.h").write_text("#include <not_there.h>\n")
    for name in ("include", "net", "lib"):
        (tmp_path / name).mkdir()
    (tmp_path / "include/one.h").write_text(HEADER)
    return tmp_path


def compiled(tree: Path, file: str, text: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Compile a text as a file of the tree, and run it as a program that prints what it returns."""
    (tree / file).write_text(text)
    words = [*OPTIONS, *more, f"-Wp,-MMD,{file}.d", "-c", "-o", f"{file}.o", file]
    done = said_by(tree / "compiler/cc", *words, cwd=tree)
    if done.returncode != 0:
        return done
    main = "#include <stdio.h>\nextern const char *f(void);\nint main(void) { puts(f()); }\n"
    (tree / "main.c").write_text(main)
    subprocess.run(["gcc", "-no-pie", "main.c", f"{file}.o", "-o", "program"], cwd=tree, check=True)
    return said_by(tree / "program")


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("lib/a.c", "#include <one.h>\nconst char *f(void) { return NAME; }\n", "own"),
        ("lib/a.c", "#include <one.h>\nconst char *f(void) { return volume(); }\n", "quiet"),
        # A word for the header; a precompiled header that could not be made: as they stand.
        (
            "lib/a.c",
            "#define LOUD\n#include <one.h>\nconst char *f(void) { return volume(); }",
            "loud",
        ),
        ("net/a.c", "#include <one.h>\nconst char *f(void) { return NAME; }\n", "own"),
    ],
)
def test_a_file_means_what_it_would_without(tree: Path, file: str, text: str, said: str) -> None:
    assert compiled(tree, file, text).stdout == f"{said}\n"
    assert sorted(path.name for path in (tree / "compiler/made").glob("*.gch")) in (
        ["core.h.gch"],
        [],
    )


def test_headers_are_read_once(tree: Path) -> None:
    text = "#include <one.h>\nconst char *f(void) { return HELD; }\n"
    assert compiled(tree, "lib/a.c", text).stdout == "held\n"
    assert (tree / "lib/a.c.d").read_text() == "lib/a.c.o: lib/a.c\n"
    # By an option that a header looks at, gcc takes none that was made without.
    assert "HELD" in compiled(tree, "lib/b.c", text, "-DLOUD").stderr


def test_a_file_that_hardly_runs_is_optimised_less(tree: Path) -> None:
    (tree / "compiler/hot").write_text("lib/hot.c\nnet/hot.c\n", encoding="utf-8")
    text = "#include <one.h>\nconst char *f(void) { return NAME; }\n"
    for file, is_less in (("lib/hot.c", False), ("lib/hot.c.c", True), ("lib/cold.c", True)):
        assert compiled(tree, file, text, "-frecord-gcc-switches").stdout == "own\n"
        assert (b"-O1" in (tree / f"{file}.o").read_bytes()) is is_less


def test_a_files_fault_is_told(tree: Path) -> None:
    done = compiled(tree, "lib/a.c", "#include <one.h>\nconst char *f(void) { return 1 }\n")
    assert done.returncode != 0
    assert "lib/a.c:2" in done.stderr
