"""Find the names that the analysis declares: plots, models and metrics.

Each is declared once, where it is drawn or computed: `Drawing("by-loss", …)`,
`ThroughputModel("rfc9438", …)`, `Merit("jain", …)`. The names are read from the source, because
importing it would load matplotlib and pandas in every command. Each name is therefore a literal.
"""

import ast
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.registry.folders import ANALYSIS, DRAWINGS, from_root
from gostlab.registry.static_loader import check_written, parse_source

# The folders of plots, one plot per file. A test may add a folder.
DRAWING_FOLDERS: tuple[Path, ...] = (DRAWINGS,)
MODELS = ANALYSIS / "stats" / "throughput_model.py"
MERITS = ANALYSIS / "stats" / "metrics.py"
# The required keywords of a Drawing.
DRAWING_PARTS = ("caption", "draw")
# The keyword of a Drawing whose two factors a file may name.
OVER_TWO_FACTORS = "over"
# The form of a plot with factors: heatmap(loss, rtt).
WITH_FACTORS = re.compile(r"([a-z0-9-]+)\((.+), (.+)\)")


def drawing_files() -> dict[str, Path]:
    """Return the file of every plot by name: by_loss.py is by-loss. No file is opened."""
    return {
        path.stem.replace("_", "-"): path
        for folder in DRAWING_FOLDERS
        for path in sorted(folder.glob("[!_]*.py"))
    }


def check_drawing(plot: str, path: Path) -> None:
    """Require a file to declare the plot that it is named after, completely. Raises BadInput."""
    changed_ns = path.stat().st_mtime_ns
    declared = calls(path, changed_ns, "Drawing")
    if [name for name, _ in declared] != [plot]:
        raise BadInput(
            f'{from_root(path)}: no drawing {plot}: it must have DRAWING = Drawing("{plot}", …),'
            " once (analysis/plotting/plot.py says how)"
        )
    check_whole(path, changed_ns)
    missing = [part for part in DRAWING_PARTS if part not in declared[0][1]]
    if missing:
        raise BadInput(f"{from_root(path)}: drawing {plot} has no {' and no '.join(missing)}=")


@cache
def check_whole(path: Path, changed_ns: int) -> None:
    """Reject a file that has, in this version, something left to be written. Raises BadInput."""
    check_written(path, parse_source(path).body)


def caption_of(plot: str) -> str:
    """Return a plot's caption, if it is a literal."""
    for node in ast.walk(parse_source(drawing_files()[plot])):
        if isinstance(node, ast.keyword) and node.arg == "caption":
            with suppress(ValueError):
                return str(ast.literal_eval(node.value))
    return ""


def takes_factors(path: Path) -> bool:
    """Return whether a file may name the two factors of a plot."""
    if f"{OVER_TWO_FACTORS}=" not in path.read_text(encoding="utf-8"):
        return False  # Parsing every plot would take a tenth of `./lab try`.
    declared = calls(path, path.stat().st_mtime_ns, "Drawing")
    return any(OVER_TWO_FACTORS in keywords for _, keywords in declared)


def format_with_factors(plot: str, across: str, down: str) -> str:
    """Return the name of a plot with its two factors, as one string."""
    return f"{plot}({across}, {down})"


def parts_of(plot: str) -> tuple[str, tuple[str, str] | None]:
    """Return a plot's name, and its two factors if the file names them."""
    match = WITH_FACTORS.fullmatch(plot)
    return (plot, None) if match is None else (match[1], (match[2], match[3]))


def model_names() -> tuple[str, ...]:
    """Return the models that can be drawn beside the measured points."""
    return tuple(name for name, _ in calls(MODELS, MODELS.stat().st_mtime_ns, "ThroughputModel"))


def merit_names() -> tuple[str, ...]:
    """Return the metrics that a study may have published."""
    return tuple(name for name, _ in calls(MERITS, MERITS.stat().st_mtime_ns, "Merit"))


@cache
def calls(path: Path, changed_ns: int, kind: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the name and keywords of every KIND("name", …) in a version of a file.

    Raises BadInput.
    """
    return tuple(
        (call.args[0].value, frozenset(keyword.arg or "" for keyword in call.keywords))
        for call in ast.walk(parse_source(path))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == kind
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    )
