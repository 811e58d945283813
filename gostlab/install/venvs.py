"""Install Python packages of the lab's own in environments beside the machine's Python.

Each wheel is pinned by version and SHA-256. The environments have packages that a part of the lab
needs and Debian lacks, and all packages that an ordinary user's lab imports.
"""

import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from gostlab.install import apt as archive
from gostlab.install.build_env import Workbench, run_logged
from gostlab.install.locate import MissingPart, cache_folder
from gostlab.install.rootfs import inputs_hash

# Packages that an ordinary user's lab imports, and further ones that its tests import.
LIBRARIES = Path(__file__).with_name("python.txt")
TEST_LIBRARIES = Path(__file__).with_name("python-test.txt")
PYTHON = "python"  # their environment in the cache
# Environments of some verbs: a description, and the argument of ./lab setup --with.
SITE_TOOLS, SEARCH_TOOLS = "site-tools", "search-tools"
EXTRAS = {
    SITE_TOOLS: ("the site's generator", "site"),  # Sphinx with MyST's Markdown
    SEARCH_TOOLS: ("the optimiser (Optuna)", "worst"),
}
# Debian's pip, if ensurepip's package is not installed: suite, package, file.
PIP = ("trixie", "python3-pip-whl", "usr/share/python-wheels/pip-*.whl")


def provide_libraries(bench: Workbench, *, with_tests: bool = False) -> str:
    """Install all packages that the lab (and its tests) import, apart from the machine's."""
    complete, both = bench.cache / PYTHON / "complete", (LIBRARIES, TEST_LIBRARIES)
    with_tests |= complete.is_file() and complete.read_text(encoding="utf-8") == text_of(both)
    summary = provide_environment(bench, PYTHON, both if with_tests else (LIBRARIES,), alone=True)
    if with_tests:
        # The tests import guest modules, which import Mininet; it is in the guest's own root.
        modules = bench.cache / "root" / inputs_hash() / "tree/usr/lib/python3/dist-packages"
        (packages_in(bench.cache / PYTHON) / "guest.pth").write_text(f"{modules}\n")
    return summary


def own_python() -> str:
    """Return the Python of that environment, or this one if there is none."""
    folder = cache_folder() / PYTHON
    return str(folder / "bin/python") if (folder / "complete").is_file() else sys.executable


def text_of(files: Sequence[Path]) -> str:
    return "".join(file.read_text(encoding="utf-8") for file in files)


def provide_environment(
    bench: Workbench, name: str, pinned: Sequence[Path] = (), *, alone: bool = False
) -> str:
    """Install the packages pinned in files (default: NAME.txt) and return their names.

    `alone`: the environment does not see the machine's packages.
    """
    pinned = pinned or [Path(__file__).with_name(f"{name}.txt")]
    wanted = text_of(pinned)
    lines = [line.split()[0] for line in wanted.splitlines() if line[:1].isalpha()]
    names = f"{len(lines)} Python packages" if alone else ", ".join(lines)
    args: list[str | Path] = ["--no-deps", "--require-hashes", "--only-binary", ":all:"]
    args += [word for file in pinned for word in ("--requirement", file)]
    options = [] if alone else ["--system-site-packages"]
    return install(bench, name, wanted, names, args, *options)


def install(
    bench: Workbench, name: str, wanted: str, names: str, words: Sequence[str | Path], *how: str
) -> str:
    """Install what pip's arguments name into an environment; `how`: arguments of venv."""
    folder = bench.cache / name
    complete = folder / "complete"
    if complete.is_file() and complete.read_text(encoding="utf-8") == wanted:
        return f"{names} (installed before)"
    bench.say(f"installing {names}")
    pip = make_environment(bench, folder, *how)
    log = bench.log(name)
    run_logged([pip, "install", "--quiet", "--disable-pip-version-check", *words], log)
    complete.write_text(wanted, encoding="utf-8")
    return names


def make_environment(bench: Workbench, folder: Path, *options: str) -> Path:
    """Create a new Python environment and return its pip. Raises SetupError."""
    log = bench.log(folder.name)
    shutil.rmtree(folder, ignore_errors=True)
    venv = [base_python(), "-m", "venv", *options]
    ensurepip = find_spec("ensurepip")
    if ensurepip is not None and ensurepip.origin is not None:
        run_logged([*venv, folder], log)
        return folder / "bin/pip"
    run_logged([*venv, "--without-pip", folder], log)
    suite, package, wheel = PIP
    apt = archive.private_apt(bench.apt_folder, "pip", ": install this Python's venv")
    apt.read_suites([suite])
    [file] = apt.download_current([package], folder / "pip")
    run_logged(["dpkg-deb", "--extract", file, folder / "pip"], log)
    [pip] = (folder / "pip").glob(wheel)
    run_logged([folder / "bin/python", pip / "pip", "install", "--no-index", pip], log)
    return folder / "bin/pip"


def base_python() -> str:
    """Return the Python that creates environments, which is in none itself."""
    return getattr(sys, "_base_executable", "") or sys.executable


def find_environment(name: str) -> Path:
    """Return the folder of one of EXTRAS. Raises MissingPart."""
    folder, (description, extra) = cache_folder() / name, EXTRAS[name]
    if not (folder / "complete").is_file():
        raise MissingPart(f"{description} is not there: run ./lab setup --with {extra}")
    return folder


def let_import(name: str) -> None:
    """Append the packages of one of EXTRAS to sys.path. Raises MissingPart."""
    folder = str(packages_in(find_environment(name)))
    if folder not in sys.path:
        sys.path.append(folder)


def packages_in(folder: Path) -> Path:
    """Return the site-packages folder of an environment."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return folder / "lib" / version / "site-packages"
