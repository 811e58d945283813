"""The generator of the site: Sphinx with MyST's Markdown, in a Python environment of the lab's own.

Which versions, and the SHA-256 of each, is in site-tools.txt. Python's own library alone.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from gostlab.setup.parts import MissingPart, cache_folder
from gostlab.setup.workbench import Workbench, run_logged

PINNED = Path(__file__).with_name("site-tools.txt")
FOLDER = "site-tools"


def provide_site_tools(bench: Workbench) -> str:
    """Install the generator, unless it is there."""
    folder = bench.cache / FOLDER
    complete = folder / "complete"
    wanted = PINNED.read_text(encoding="utf-8")
    names = ", ".join(name for name in wanted.split() if name.startswith(("Sphinx=", "myst")))
    if complete.is_file() and complete.read_text(encoding="utf-8") == wanted:
        return f"{names} (installed before)"
    bench.say(f"installing {names}")
    log = bench.log("site-tools")
    shutil.rmtree(folder, ignore_errors=True)
    # Jinja2 and PyYAML are Debian's.
    run_logged([sys.executable, "-m", "venv", "--system-site-packages", folder], log)
    words = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    pip: list[str | Path] = [
        folder / "bin" / "pip",
        *words,
        "--only-binary",
        ":all:",
        "--requirement",
        PINNED,
    ]
    run_logged(pip, log)
    complete.write_text(wanted, encoding="utf-8")
    return names


def find_generator() -> Path:
    """The Python that has the generator. Raises MissingPart."""
    folder = cache_folder() / FOLDER
    if not (folder / "complete").is_file():
        raise MissingPart("the site's generator is not there: run ./lab setup --with site")
    return folder / "bin" / "python"


def build_site(python: Path, pages: Path, html: Path) -> Path:
    """Build HTML from a folder of Markdown; the first page. Raises OSError."""
    words: list[str | Path] = [python, "-m", "sphinx", "-q", "-b", "html"]
    done = subprocess.run([*words, pages, html], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise OSError(f"{pages}: the site cannot be built: {last}")
    return html / "index.html"
