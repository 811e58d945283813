"""The optimiser of `./lab worst`, Optuna, in a Python environment of the lab's own.

Which version, and the SHA-256 of each wheel, is in search-tools.txt. Python's own library alone.
"""

import sys
from pathlib import Path

from gostlab.setup.pinned import find_environment, packages_in, provide_environment
from gostlab.setup.workbench import Workbench

PINNED = Path(__file__).with_name("search-tools.txt")
FOLDER = "search-tools"


def provide_search_tools(bench: Workbench) -> str:
    """Install the optimiser, unless it is there."""
    return provide_environment(bench, FOLDER, PINNED)


def let_import() -> None:
    """Let Python find the optimiser, behind all that it has. Raises MissingPart."""
    folder = str(packages_in(find_environment(FOLDER, "the optimiser (Optuna)", "worst")))
    if folder not in sys.path:
        sys.path.append(folder)
