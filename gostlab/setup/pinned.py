"""Python packages of the lab's own, for what a part of it needs and Debian has not: each by version
and SHA-256 of its wheel, in an environment beside Debian's. Python's own library alone.
"""

import shutil
import sys
from pathlib import Path

from gostlab.setup.parts import MissingPart, cache_folder
from gostlab.setup.workbench import Workbench, run_logged


def provide_environment(bench: Workbench, name: str, pinned: Path) -> str:
    """Install what a file pins, unless it is there; what the file names."""
    folder = bench.cache / name
    complete = folder / "complete"
    wanted = pinned.read_text(encoding="utf-8")
    names = ", ".join(word for word in wanted.split() if "==" in word)
    if complete.is_file() and complete.read_text(encoding="utf-8") == wanted:
        return f"{names} (installed before)"
    bench.say(f"installing {names}")
    log = bench.log(name)
    shutil.rmtree(folder, ignore_errors=True)
    # What they need besides is Debian's.
    run_logged([sys.executable, "-m", "venv", "--system-site-packages", folder], log)
    words = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    pip: list[str | Path] = [folder / "bin" / "pip", *words, "--only-binary", ":all:"]
    run_logged([*pip, "--requirement", pinned], log)
    complete.write_text(wanted, encoding="utf-8")
    return names


def find_environment(name: str, what: str, extra: str) -> Path:
    """The folder of an environment. Raises MissingPart."""
    folder = cache_folder() / name
    if not (folder / "complete").is_file():
        raise MissingPart(f"{what} is not there: run ./lab setup --with {extra}")
    return folder


def packages_in(folder: Path) -> Path:
    """Where an environment has its packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return folder / "lib" / version / "site-packages"
