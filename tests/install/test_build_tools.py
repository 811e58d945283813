# SPDX-License-Identifier: MIT
"""Who may not install a compiler: what compiles finds the unpacked ones, and nothing else does."""

import os
import subprocess
from functools import partial
from pathlib import Path

import pytest

from gostlab.install import build_tools, landlock
from gostlab.install.build_env import InstallContext, SetupError
from tests.asked import refusal


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /usr with a gcc, on a machine that has none."""
    usr = tmp_path / build_tools.FOLDER / "tree/usr"
    for name in ("bin", "local"):
        (usr / name).mkdir(parents=True)
    (usr / "bin/gcc").write_text("the unpacked one")
    monkeypatch.setenv("GOSTLAB_CACHE", str(tmp_path))
    monkeypatch.setattr(build_tools, "find_missing_programs", list)
    return usr


def test_what_compiles_finds_them_as_the_user_that_it_is(unpacked: Path) -> None:
    try:
        build_tools.check_namespaces(["gcc"])
    except SetupError:
        pytest.skip("no user namespaces")
    before, user = Path("/usr/bin/gcc").exists(), os.geteuid()
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        build_tools.enter_build_namespace()
        os.write(tell, f"{Path('/usr/bin/gcc').read_text()}, {os.geteuid()}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(told, 100).decode() == f"the unpacked one, {user}"
    assert Path("/usr/bin/gcc").exists() == before


def test_without_namespaces_one_line_says_what_to_install(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_kinds: int) -> None:
        raise OSError

    monkeypatch.setattr(landlock, "enter_namespaces", refused)
    bench = InstallContext(unpacked, 1, lambda _: None, -1)
    provide = partial(build_tools.provide_build_tools, bench, with_go=False)
    assert "have the packages gcc" in refusal(provide, SetupError)


def test_a_machine_with_compilers_keeps_its_own(
    unpacked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_tools, "find_missing_programs", lambda _: [])
    monkeypatch.setattr(landlock, "enter_namespaces", lambda _: pytest.fail("it needs none"))
    build_tools.enter_build_namespace()
    assert subprocess.run(["true"], preexec_fn=build_tools.enter_build_namespace).returncode == 0
