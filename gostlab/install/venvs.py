# SPDX-License-Identifier: MIT
"""Make the Python environments from wheels that are pinned by version and SHA-256.

`python` has what the lab imports, for root and ordinary users alike. It sees the machine's packages
as well: Mininet is Debian's, and not on PyPI. `tools` has the checkers of `make test`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from gostlab.install import apt as archive
from gostlab.install.build_env import InstallContext, run_logged
from gostlab.install.rootfs import inputs_hash
from gostlab.install.shared_install import system_folder

PYTHON, TOOLS = "python", "tools"  # environments, by their folders in the cache
GROUPS = ("dask", "test", "site")  # further packages of PYTHON, for `./lab setup --with`
READERS = ("msgspec", "pyyaml")  # packages that read an experiment's file
# Debian's pip, if ensurepip's package is not installed: suite, package, file.
PIP = ("trixie", "python3-pip-whl", "usr/share/python-wheels/pip-*.whl")


def provide_python(bench: InstallContext, groups: Sequence[str] = ()) -> str:
    """Install all packages that the lab imports, and those of some groups. Raises SetupError."""
    installed = _read(bench.cache / PYTHON / "complete").partition("\n")[0].split()
    groups = [name for name in GROUPS if name in (*groups, *installed)]
    summary = install_into_environment(bench, PYTHON, ["", *(f"-{name}" for name in groups)])
    if "test" in groups and os.geteuid() != 0:
        # The tests import guest modules, which import Mininet; the guest's root has it.
        modules = bench.cache / "root" / inputs_hash() / "tree/usr/lib/python3/dist-packages"
        (packages_in(bench.cache / PYTHON) / "guest.pth").write_text(f"{modules}\n")
    return summary


def provide_tools(bench: InstallContext) -> str:
    """Install the checkers. Raises SetupError."""
    return install_into_environment(bench, TOOLS, ["-tools"])


def provide_readers(bench: InstallContext) -> str:
    """Install what reads an experiment's file, which takes seconds. Raises SetupError."""
    python = bench.cache / PYTHON / "bin/python"
    check: list[str | Path] = [python, "-c", "import msgspec, yaml"]
    if not python.exists() or subprocess.run(check, capture_output=True).returncode != 0:
        packages = re.split(r"\n(?=\w)", pinned_file("").read_text(encoding="utf-8"))
        file = bench.cache / "build" / "readers.txt"
        wanted = [lines for lines in packages if lines.partition("==")[0] in READERS]
        file.write_text("\n".join(wanted), encoding="utf-8")
        install_files(bench, PYTHON, [file])
        file.unlink()
    return ", ".join(READERS)


def install_into_environment(bench: InstallContext, name: str, suffixes: Sequence[str]) -> str:
    """Install the packages of some files into an environment, unless they are there."""
    files = [pinned_file(suffix) for suffix in suffixes]
    texts = [file.read_text(encoding="utf-8") for file in files]
    count = len(set(re.findall(r"^([\w.-]+)==", "".join(texts), re.MULTILINE)))
    complete = bench.cache / name / "complete"
    # The first line names the groups and this Python; another Python needs other wheels.
    wanted = "\n".join([" ".join([*(s[1:] for s in suffixes if s), sys.version[:4]]), *texts])
    if _read(complete) == wanted:
        return f"{count} Python packages (installed before)"
    bench.say(f"installing {count} Python packages")
    complete.unlink(missing_ok=True)
    install_files(bench, name, files)
    complete.write_text(wanted, encoding="utf-8")
    return f"{count} Python packages"


def install_files(bench: InstallContext, name: str, files: Sequence[Path]) -> None:
    """Install the packages that requirement files pin. Raises SetupError.

    Without byte code this takes a third of the CPU time: Python writes that of what is imported,
    unless the environment is read-only.
    """
    python = make_environment(bench, bench.cache / name)
    pip: list[str | Path] = [python, "-m", "pip", "install", "--no-deps", "--quiet"]
    pip.append("--disable-pip-version-check")
    pip += ["--require-hashes", "--only-binary", ":all:"]
    pip += [word for file in files for word in ("--requirement", file)]
    pip += [] if bench.cache == system_folder() else ["--no-compile"]
    run_logged(pip, bench.log(name))


def make_environment(bench: InstallContext, folder: Path) -> Path:
    """Make a Python environment with pip unless it exists; return its Python. Raises SetupError."""
    log, python = bench.log(folder.name), folder / "bin/python"
    base = getattr(sys, "_base_executable", "") or sys.executable  # not that of an environment
    # The checkers are to find no package of the machine's.
    options = ["--system-site-packages"] if folder.name == PYTHON else []
    run_logged([base, "-m", "venv", *options, "--without-pip", folder], log)
    if (packages_in(folder) / "pip").is_dir():
        return python
    ensurepip = find_spec("ensurepip")
    if ensurepip is not None and ensurepip.origin is not None:
        run_logged([python, "-m", "ensurepip"], log)
        return python
    suite, package, wheel = PIP
    apt = archive.private_apt(bench.apt_folder, "pip", ": install this Python's venv")
    apt.read_suites([suite])
    scratch = bench.cache / "build" / f"pip-{folder.name}"
    [file] = apt.download_current([package], scratch)
    run_logged(["dpkg-deb", "--extract", file, scratch], log)
    [pip] = scratch.glob(wheel)
    run_logged([python, pip / "pip", "install", "--ignore-installed", "--no-index", pip], log)
    return python


def pinned_file(suffix: str) -> Path:
    """Return the file that pins a group's packages; pyproject.toml says what writes it."""
    return Path(__file__).with_name(f"python{suffix}.txt")


def packages_in(folder: Path) -> Path:
    """Return the site-packages folder of an environment."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return folder / "lib" / version / "site-packages"


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""
