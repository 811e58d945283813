# SPDX-License-Identifier: MIT
"""The lab's Python environments: what root's and an ordinary user's lab, and its tests, import."""

import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from gostlab.install import rootfs, venvs
from gostlab.install.build_env import InstallContext


@pytest.mark.parametrize(("user", "groups"), [(0, ["test"]), (12345, []), (12345, ["test"])])
def test_a_users_tests_have_the_mininet_of_the_guests_root(
    user: int, groups: Sequence[str], bench: InstallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is none of PyPI's, and only root can install Debian's."""
    dist_packages = "tree/usr/lib/python3/dist-packages"
    own = bench.cache / "root" / rootfs.inputs_hash() / dist_packages / "mininet"
    own.mkdir(parents=True)
    (own / "__init__.py").touch()
    monkeypatch.setattr(venvs.os, "geteuid", lambda: user)
    monkeypatch.setattr(venvs, "run_logged", run_but_pip)
    monkeypatch.setattr(venvs, "find_spec", lambda _: find_spec("json"))  # ensurepip is there

    venvs.provide_python(bench, groups)

    script = "from importlib.util import find_spec; print(find_spec('mininet'))"
    python = bench.cache / venvs.PYTHON / "bin/python"
    said = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert (str(own) in said.stdout) is (user != 0 and groups == ["test"])


def run_but_pip(argv: Sequence[str | Path], _log: Path) -> None:
    if "venv" in argv:
        subprocess.run(argv, check=True)


def test_groups_that_were_installed_stay_and_nothing_is_installed_twice(
    bench: InstallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed: list[list[str]] = []
    monkeypatch.setattr(
        venvs, "install_files", lambda *words: installed.append([file.name for file in words[2]])
    )
    (bench.cache / venvs.PYTHON).mkdir()
    venvs.packages_in(bench.cache / venvs.PYTHON).mkdir(parents=True)

    venvs.provide_python(bench)
    venvs.provide_python(bench, ["site"])
    assert "installed before" in venvs.provide_python(bench)
    venvs.provide_python(bench, ["test"])

    own, test, site = (f"python{name}.txt" for name in ("", "-test", "-site"))
    assert installed == [[own], [own, site], [own, test, site]]


def test_every_package_is_pinned_by_hash_and_the_readers_are_among_the_labs() -> None:
    for suffix in ("", "-tools", *(f"-{name}" for name in venvs.GROUPS)):
        text = venvs.pinned_file(suffix).read_text("utf-8")
        packages = text.split("\n    --hash=sha256:")[:-1]
        assert packages and all("==" in line or len(line) == 66 for line in packages[:1])
    names = {line.partition("==")[0] for line in venvs.pinned_file("").read_text().splitlines()}
    assert set(venvs.READERS) < names


@pytest.mark.slow
@pytest.mark.network
def test_an_environment_has_pip_where_this_python_has_no_ensurepip(
    bench: InstallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venvs, "find_spec", lambda _: None)
    python = venvs.make_environment(bench, bench.cache / "environment")
    words = [python, "-m", "pip", "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True)
    assert str(bench.cache / "environment") in said.stdout
