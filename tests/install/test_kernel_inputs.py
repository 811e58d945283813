# SPDX-License-Identifier: MIT
"""What the sandbox's kernel is built from: its options, and build.sh on a pretended source."""

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from gostlab.install import kernel_build
from gostlab.registry import folders
from tests.install.programs import program, script
from tests.lab_command import said_by

KERNEL = folders.ROOT / "kernel"
# `make` that takes A and B of the options, and builds at once.
MAKE = """#!/bin/sh
case "$*" in
*allnoconfig*) grep -xE 'CONFIG_(A|B)=.*' .gostlab-asked >.config; echo '# CONFIG_C is not set' >>.config ;;
*kernelversion*) echo 9.9.1 ;;
*linux*) echo "$*" >called; echo built >linux && echo symbols >vmlinux.symvers ;;
esac
"""
STRIP = """#!/bin/sh
for last; do :; done
out=$(printf '%s\\n' "$@" | sed -n 's/^--output-file=//p')
cp "$last" "$out"
"""
PATCH = """Subject: a new file

--- /dev/null
+++ b/new
@@ -0,0 +1 @@
+content
"""


@pytest.fixture
def pretended(tmp_path: Path) -> Path:
    """A folder with a kernel/ of its own, an empty source, and programs that pretend."""
    for name in ("kernel/src/lib", "kernel/profiles", "kernel/versions/7.3", "source", "bin"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("include", "scripts", "kernel", "os-Linux"):
        (tmp_path / "source/arch/um" / name).mkdir(parents=True)
    for name in ("include", "scripts", "arch/x86/um"):
        (tmp_path / "source" / name).mkdir(parents=True)
    (tmp_path / "source/Makefile").write_text("all:\n", encoding="utf-8")
    (tmp_path / "kernel/src/lib/added.c").write_text("int added;\n", encoding="utf-8")
    for name in ("include/asm/page.h", "include/generated/asm/unistd.h", "um/asm/elf.h"):
        header = tmp_path / "source/arch/x86" / name
        header.parent.mkdir(parents=True)
        header.touch()
    shutil.copy(KERNEL / "build.sh", tmp_path / "kernel")
    shutil.copytree(KERNEL / "precompiled", tmp_path / "kernel/precompiled")
    (tmp_path / "kernel/versions/7.3/series").write_text("7.3/one.patch\n", encoding="utf-8")
    (tmp_path / "kernel/versions/7.3/one.patch").write_text(PATCH, encoding="utf-8")
    for name, text in (("make", MAKE), ("strip", STRIP)):
        script(tmp_path / "bin" / name, text)
    return tmp_path


def build(folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    (folder / "source/.gostlab-options").unlink(missing_ok=True)
    (folder / "kernel/kconfig.fragment").write_text(options, encoding="utf-8")
    environ = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    argv = [folder / "kernel/build.sh", folder / "source", folder / "linux", "1"]
    return said_by(*argv, env=environ)


def test_every_option_is_named_once() -> None:
    lines = (KERNEL / "kconfig.fragment").read_text(encoding="utf-8").splitlines()
    options = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"CONFIG_[A-Z0-9_]+=\S+", option) for option in options)
    names = [option.partition("=")[0] for option in options]
    assert len(names) == len(set(names)) > 50


def test_a_source_that_takes_all_options_is_built_and_goes_on_where_it_was(pretended: Path) -> None:
    for _ in range(2):  # the second time the patch is in already
        done = build(pretended, "# what it needs\nCONFIG_A=y\nCONFIG_B=250\n")
        assert done.returncode == 0, done.stderr
    assert (pretended / "linux").read_text() == "built\n"
    assert (pretended / "source/new").read_text() == "content\n"
    assert (pretended / "source/lib/added.c").is_file()


def test_the_machines_rust_and_pahole_leave_no_trace_in_a_kernel(tmp_path: Path) -> None:
    """Linux's Makefile names them so, and its Kconfig asks for their versions."""
    makefile = "RUSTC = rustc\nPAHOLE = pahole\nall:\n\t@$(RUSTC) || $(PAHOLE) || echo neither\n"
    (tmp_path / "Makefile").write_text(makefile, encoding="utf-8")
    for name in ("rustc", "pahole"):
        program(tmp_path / name, "1.99")
    around = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for environ, said in (
        (around, "1.99\n"),
        (kernel_build.build_environment(around), "neither\n"),
    ):
        assert said_by("make", cwd=tmp_path, env=environ).stdout == said


def test_the_headers_that_modules_need_are_kept_beside_the_kernel(pretended: Path) -> None:
    made = set()
    for _ in range(2):
        assert build(pretended, "CONFIG_A=y\n").returncode == 0
        made.add((pretended / "headers.tar.xz").read_bytes())
    assert len(made) == 1  # made again, the archive is the same to the byte
    with tarfile.open(pretended / "headers.tar.xz") as archive:
        held = {name.removeprefix("./") for name in archive.getnames()}
    headers = {f"arch/x86/{n}.h" for n in ("include/asm/page", "um/asm/elf")}
    assert {"Makefile", "arch/x86/include/generated/asm/unistd.h", *headers} <= held
    assert (pretended / "source/Module.symvers").read_text() == "symbols\n"


@pytest.mark.slow
def test_a_profile_is_taken_where_it_fits_version_and_compiler_alone(pretended: Path) -> None:
    done = build(pretended, "CONFIG_A=y\n")
    assert done.returncode == 0, done.stderr
    assert (pretended / "profile").read_text().startswith("none: ")
    assert "-fprofile-use" not in (pretended / "source/called").read_text()

    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True)
    name = f"linux-9.9.1-gcc-{gcc.stdout.strip()}"
    (pretended / "net#route.gcda").write_text("counts", encoding="utf-8")
    with tarfile.open(pretended / f"kernel/profiles/{name}.tar.xz", "w:xz") as archive:
        archive.add(pretended / "net#route.gcda", "./net#route.gcda")
        archive.add(pretended / "net#route.gcda", "./hot")
    for _ in range(2):
        assert build(pretended, "CONFIG_A=y\n").returncode == 0
        assert (pretended / "profile").read_text() == f"{name}\n"
        assert "-fprofile-use=" in (pretended / "source/called").read_text()
    (counts,) = (pretended / "source/.gostlab-profile").iterdir()
    assert (pretended / "source/.gostlab-precompiled/hot").read_text() == "counts"
    # As gcc asks for what it compiles in this folder.
    assert counts.name.replace("#", "/") == f"{pretended}/source/net/route.gcda"


def test_an_option_that_the_source_does_not_take_is_named(pretended: Path) -> None:
    done = build(pretended, "CONFIG_A=y\nCONFIG_C=y\nCONFIG_B=250\n")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].endswith("does not take the options: CONFIG_C=y")
    assert not (pretended / "linux").exists()


def test_a_patch_that_does_not_fit_is_named(pretended: Path) -> None:
    (pretended / "source/new").write_text("other content\n", encoding="utf-8")
    done = build(pretended, "CONFIG_A=y\n")
    assert done.returncode == 3 and "7.3/one.patch does not apply" in done.stderr


FUZZY = """--- a/one
+++ b/one
@@ -1 +1 @@
-old
+new
--- a/two
+++ b/two
@@ -1,7 +1,7 @@
 1
 2
 3
-old
+new
 5
 6
 7
"""


def test_a_patch_whose_context_has_changed_is_not_applied_nor_any_part_of_it(
    pretended: Path,
) -> None:
    """By default patch(1) would ignore that the first line is another."""
    versions = pretended / "kernel/versions"
    (versions / "7.3/two.patch").write_text(FUZZY, encoding="utf-8")
    (versions / "7.3/series").write_text("7.3/one.patch\n7.3/two.patch\n", encoding="utf-8")
    (pretended / "source/one").write_text("old\n", encoding="utf-8")
    (pretended / "source/two").write_text("other\n2\n3\nold\n5\n6\n7\n", encoding="utf-8")
    done = build(pretended, "CONFIG_A=y\n")
    assert done.returncode == 3 and "7.3/two.patch does not apply" in done.stderr
    assert (pretended / "source/one").read_text() == "old\n"

    (pretended / "source/two").write_text("1\n2\n3\nold\n5\n6\n7\n", encoding="utf-8")
    assert build(pretended, "CONFIG_A=y\n").returncode == 0
    assert (pretended / "source/one").read_text() == "new\n"
