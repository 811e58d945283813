"""Python packages of the lab's own: what an ordinary user's lab and its tests import."""

import subprocess
from pathlib import Path

import pytest

from gostlab.install import rootfs, venvs
from gostlab.install.build_env import Workbench


@pytest.mark.parametrize("with_tests", [True, False])
def test_a_users_tests_have_the_mininet_of_the_guests_root(
    with_tests: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is none of PyPI's, and is not installed; the lab itself imports none on the host."""
    own = tmp_path / "root" / rootfs.inputs_hash() / "tree/usr/lib/python3/dist-packages/mininet"
    own.mkdir(parents=True)
    (own / "__init__.py").touch()

    def made(bench: Workbench, name: str, *_: object, alone: bool) -> str:
        words = [venvs.base_python(), "-m", "venv", "--without-pip", bench.cache / name]
        subprocess.run(words, check=True)
        return name

    monkeypatch.setattr(venvs, "provide_environment", made)
    venvs.provide_libraries(Workbench(tmp_path, 1, print, -1), with_tests=with_tests)

    script = "from importlib.util import find_spec; print(find_spec('mininet'))"
    python = tmp_path / venvs.PYTHON / "bin/python"
    said = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    assert (str(own) in said.stdout) is with_tests


def test_what_only_tests_import_is_listed_beside_the_rest_and_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [venvs.LIBRARIES, venvs.TEST_LIBRARIES]
    lists = [set(file.read_text(encoding="utf-8").splitlines()) for file in both]
    asked: list[object] = []
    monkeypatch.setattr(venvs, "install", lambda *words: asked.extend(words[4]) or "")
    venvs.packages_in(tmp_path / venvs.PYTHON).mkdir(parents=True)

    for installed in (venvs.text_of(both), venvs.text_of(both[:1])):
        (tmp_path / venvs.PYTHON / "complete").write_text(installed, encoding="utf-8")
        venvs.provide_libraries(Workbench(tmp_path, 1, print, -1))

    assert not lists[0] & lists[1]
    assert [each for each in asked if each in both] == [*both, venvs.LIBRARIES]


@pytest.mark.slow
@pytest.mark.network
def test_an_environment_has_pip_where_this_python_has_no_ensurepip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(venvs, "find_spec", lambda _: None)
    (tmp_path / "log").mkdir()
    pip = venvs.make_environment(Workbench(tmp_path, 1, print, -1), tmp_path / "environment")
    said = subprocess.run([pip, "--version"], capture_output=True, text=True, check=True)
    assert str(tmp_path / "environment") in said.stdout
