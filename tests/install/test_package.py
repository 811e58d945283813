# SPDX-License-Identifier: MIT
"""The lab as an installed package, in an environment away from any checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

from gostlab.install.venvs import packages_in
from gostlab.registry import folders
from tests.lab_command import said_by

ROOT = folders.ROOT
# In a package these are gostlab/data; nothing but gostlab is importable from outside.
DATA = "cc experiments kernel labs machines measurements netem_profiles schemas tunnel".split()

pytestmark = [pytest.mark.slow, pytest.mark.network]


def pip(*words: object) -> None:
    program = folders.cache_folder() / "tools/bin/python"
    if not program.exists():
        pytest.skip("no test tools: ./lab setup --with test")
    done = said_by(program, "-m", "pip", "--disable-pip-version-check", *words)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def hatchling(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """What the package says that it is built by, and nothing else."""
    tools = tmp_path_factory.mktemp("tools")
    built_by = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]
    pip("install", "--quiet", "--no-compile", "--target", tools, *built_by["requires"])
    environ = {**os.environ, "PYTHONPATH": str(tools)}

    def build(target: str, source: Path, into: Path) -> Path:
        command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", into]
        done = said_by(*command, cwd=source, env=environ)
        assert done.returncode == 0, done.stderr
        [made] = into.glob("gostlab-*-py3-none-any.whl" if target == "wheel" else "*.tar.gz")
        return made

    return build


@pytest.fixture(scope="module")
def source(hatchling: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This checkout's source distribution, unpacked."""
    place = tmp_path_factory.mktemp("source")
    shutil.unpack_archive(hatchling("sdist", ROOT, place), place / "unpacked")
    [unpacked] = (place / "unpacked").iterdir()
    return unpacked


@pytest.fixture(scope="module")
def wheel(
    hatchling: Callable[..., Path], source: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The package of this checkout, by way of its source distribution."""
    return hatchling("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the package, and this one's libraries."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, system_site_packages=True)
    (packages_in(place) / "libraries.pth").write_text(f"{packages_in(Path(sys.prefix))}\n")
    words = ("install", "--quiet", "--no-compile", "--no-deps", wheel)
    pip("--python", place / "bin/python", *words)
    return place / "bin" / "gostlab"


def said(installed: Path, here: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """What the installed command says in a folder."""
    environ = {**os.environ, "GOSTLAB_CACHE": str(folders.cache_folder())}
    environ.pop("PYTHONPATH", None)
    return said_by(installed, *words, cwd=here, env=environ)


def test_its_metadata_have_the_licences_and_links_that_hold_anywhere(wheel: Path) -> None:
    archive = ZipFile(wheel)
    [metadata] = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
    fields, _, description = archive.read(metadata).decode().partition("\n\n")
    assert "License-Expression: MIT AND GPL-2.0-only" in fields
    assert {"Author", "Classifier", "Keywords", "Project-URL"} <= set(
        re.findall(r"^([\w-]+):", fields, re.MULTILINE)
    )
    licences = {name.rpartition("/")[2] for name in archive.namelist() if "licenses/" in name}
    assert licences == {"LICENSE", "MIT.txt", "GPL-2.0-only.txt"}
    links = re.findall(r"\]\(([^)]+)\)", description)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_it_has_what_people_write_and_no_tests_of_it(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    [page] = [name for name in names if name.endswith(".data/data/share/man/man1/gostlab.1")]
    names.remove(page)
    assert {name.split("/")[2] for name in names if "/data/" in name} == {*DATA, "topo.py", "lab"}
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {"gostlab"}
    assert len(names) == len(set(names)) and "gostlab/analysis/report/report.py" in names
    assert not any(name.endswith(("_test.go", ".pyc")) for name in names)
    for folder in ("experiments", "netem_profiles"):
        there = {path.name for path in (ROOT / folder).glob("*.yaml")}
        assert there == {name.split("/")[-1] for name in names if name.endswith(".yaml")} & there


def test_a_checkout_builds_the_same_wheel(
    wheel: Path, hatchling: Callable[..., Path], tmp_path: Path
) -> None:
    built = hatchling("wheel", ROOT, tmp_path)
    assert sorted(ZipFile(built).namelist()) == sorted(ZipFile(wheel).namelist())


def test_an_editable_install_puts_gostlab_alone_on_the_path(source: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "environment")
    python = tmp_path / "environment/bin/python"
    for name in ("tests", "docs"):  # as in a checkout
        (source / name).mkdir(exist_ok=True)
    pip("--python", python, "install", "--quiet", "--no-deps", "--editable", source)
    script = (
        "import gostlab, gostlab.analysis, importlib.util\n"
        "names = 'analysis cc docs gostlab kernel labs tests topo tunnel'.split()\n"
        "print(*[name for name in names if importlib.util.find_spec(name)])"
    )
    done = said_by(python, "-c", script, cwd=tmp_path)
    assert done.stdout == "gostlab\n", done.stderr


def test_it_finds_its_files_and_is_called_by_its_own_name(installed: Path, tmp_path: Path) -> None:
    words = ("run", "download", "--quick", "--dry-run")
    listed, here = said(installed, tmp_path, *words), said_by(ROOT / "lab", *words)
    assert listed.stdout == here.stdout and listed.returncode == 0
    first = said(installed, tmp_path)
    assert "  gostlab try " in first.stdout and "./lab" not in first.stdout
    wrong = said(installed, tmp_path, "run", "no-such")
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1
    lesson = said(installed, tmp_path, "lab", "start", "0", "--student", "alice")
    assert lesson.returncode == 0, lesson.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["coursework"]


def test_another_package_called_analysis_stays_somebody_elses(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "analysis").mkdir()
    (tmp_path / "analysis/__init__.py").write_text("from analysis import mine\n")
    (tmp_path / "analysis/mine.py").write_text("NAME = 'mine'\n")
    script = (
        "import gostlab, analysis; from gostlab.analysis.plotting.plot_registry import find_drawing\n"
        "from gostlab.analysis.load import series\n"
        "print(analysis.mine.NAME, find_drawing('goodput').word)"
    )
    done = said_by(installed.with_name("python"), "-c", script, cwd=tmp_path)
    assert done.stdout == "mine goodput\n", done.stderr


def test_a_profile_of_ones_own_goes_into_the_current_folder(
    installed: Path, tmp_path: Path
) -> None:
    (tmp_path / "netem_profiles").mkdir()
    plain = (ROOT / "netem_profiles/plain-100ms.yaml").read_text("utf-8")
    mine = tmp_path / "netem_profiles/mine.yaml"
    mine.write_text(plain.replace("plain-100ms", "mine"), encoding="utf-8")
    done = said(installed, tmp_path, "try", "--profile", "mine", "--dry-run")
    assert done.returncode == 0, done.stderr


def test_without_a_kernel_it_says_in_a_line_what_to_do(installed: Path, tmp_path: Path) -> None:
    environ = {"PATH": "/usr/bin:/bin", "GOSTLAB_CACHE": str(tmp_path), "GOSTLAB_SYSTEM": ""}
    script = "import gostlab; gostlab.Run(cc='bbr', machine='sandbox').run()"
    done = said_by(installed.with_name("python"), "-c", script, cwd=tmp_path, env=environ)
    last = done.stderr.strip().splitlines()[-1]
    assert "MissingPart" in last and "gostlab setup" in last


@pytest.mark.sandbox
def test_it_makes_the_run_that_the_checkout_makes(installed: Path, tmp_path: Path) -> None:
    words = ["try", "--cc", "bbr", "--for", "1s", "--loss", "1%", "--machine", "sandbox", "--json"]
    done = said(installed, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    made = Path(json.loads(done.stdout)["runs"][0]["folder"])
    here = said_by(ROOT / "lab", *words, "--results", tmp_path / "checkout")
    again = Path(json.loads(here.stdout)["runs"][0]["folder"])
    for name in ("flows.json", "sockets.jsonl", "queues.jsonl"):
        assert (tmp_path / made / name).read_bytes() == again.joinpath(name).read_bytes(), name
