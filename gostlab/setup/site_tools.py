"""The generator of the site: Sphinx with MyST's Markdown, in a Python environment of the lab's own.

Which versions, and the SHA-256 of each, is in site-tools.txt. Python's own library alone.
"""

import subprocess
from pathlib import Path

from gostlab.setup.pinned import find_environment, provide_environment
from gostlab.setup.workbench import Workbench

PINNED = Path(__file__).with_name("site-tools.txt")
FOLDER = "site-tools"


def provide_site_tools(bench: Workbench) -> str:
    """Install the generator, unless it is there."""
    return provide_environment(bench, FOLDER, PINNED)


def find_generator() -> Path:
    """The Python that has the generator. Raises MissingPart."""
    return find_environment(FOLDER, "the site's generator", "site") / "bin" / "python"


def build_site(python: Path, pages: Path, html: Path) -> Path:
    """Build HTML from a folder of Markdown; the first page. Raises OSError."""
    words: list[str | Path] = [python, "-m", "sphinx", "-q", "-b", "html"]
    done = subprocess.run([*words, pages, html], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise OSError(f"{pages}: the site cannot be built: {last}")
    return html / "index.html"
