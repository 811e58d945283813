"""What the analysis declares and a file may name: drawings, models, figures of merit.

Each is declared once, where it is drawn or computed: `Drawing("by-loss", …)`,
`ThroughputModel("rfc9438", …)`, `Merit("jain", …)`. The names are read from the source there, as
importing it would bring matplotlib and pandas into every command. So each stands as a literal.
"""

import ast
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.registry.folders import ANALYSIS, DRAWINGS, from_root
from gostlab.registry.static_loader import check_written, parse_source

# Where drawings are looked for, one per file. A test adds a folder of its own.
DRAWING_FOLDERS: tuple[Path, ...] = (DRAWINGS,)
MODELS = ANALYSIS / "stats" / "throughput_model.py"
MERITS = ANALYSIS / "stats" / "metrics.py"
# What a Drawing cannot do without, by keyword.
DRAWING_PARTS = ("caption", "draw")
# What a Drawing has whose two factors a file may name.
OVER_TWO_FACTORS = "over"
# As a file's reader hands it on: heatmap(loss, rtt)
WITH_FACTORS = re.compile(r"([a-z0-9-]+)\((.+), (.+)\)")


def drawing_files() -> dict[str, Path]:
    """Word -> file of every drawing: by_loss.py is by-loss. Found by name; none is opened."""
    return {
        path.stem.replace("_", "-"): path
        for folder in DRAWING_FOLDERS
        for path in sorted(folder.glob("[!_]*.py"))
    }


def check_drawing(word: str, path: Path) -> None:
    """That a file declares the drawing that it is named after, whole. Raises BadInput."""
    changed_ns = path.stat().st_mtime_ns
    made = calls(path, changed_ns, "Drawing")
    if [name for name, _ in made] != [word]:
        raise BadInput(
            f'{from_root(path)}: no drawing {word}: it must have DRAWING = Drawing("{word}", …),'
            " once (analysis/plotting/plot.py says how)"
        )
    check_whole(path, changed_ns)
    missing = [part for part in DRAWING_PARTS if part not in made[0][1]]
    if missing:
        raise BadInput(f"{from_root(path)}: drawing {word} has no {' and no '.join(missing)}=")


@cache
def check_whole(path: Path, changed_ns: int) -> None:
    """That a file as it stood then has nothing left to be written. Raises BadInput."""
    check_written(path, parse_source(path).body)


def caption_of(word: str) -> str:
    """What a drawing's caption says, as far as it stands there as a literal."""
    for node in ast.walk(parse_source(drawing_files()[word])):
        if isinstance(node, ast.keyword) and node.arg == "caption":
            with suppress(ValueError):
                return str(ast.literal_eval(node.value))
    return ""


def takes_factors(path: Path) -> bool:
    """Whether a file may say over which two factors it wants a drawing."""
    if f"{OVER_TWO_FACTORS}=" not in path.read_text(encoding="utf-8"):
        return False  # parsing every drawing is a tenth of what `./lab try` takes
    made = calls(path, path.stat().st_mtime_ns, "Drawing")
    return any(OVER_TWO_FACTORS in keywords for _, keywords in made)


def format_with_factors(word: str, across: str, down: str) -> str:
    """A drawing over two factors, in one word for all who hand it on."""
    return f"{word}({across}, {down})"


def parts_of(word: str) -> tuple[str, tuple[str, str] | None]:
    """A drawing's own word, and the two factors that a file wants it over, if it names them."""
    found = WITH_FACTORS.fullmatch(word)
    return (word, None) if found is None else (found[1], (found[2], found[3]))


def model_names() -> tuple[str, ...]:
    """The models that can be drawn beside the lab's points."""
    return tuple(name for name, _ in calls(MODELS, MODELS.stat().st_mtime_ns, "ThroughputModel"))


def merit_names() -> tuple[str, ...]:
    """The figures that a study can have published."""
    return tuple(name for name, _ in calls(MERITS, MERITS.stat().st_mtime_ns, "Merit"))


@cache
def calls(path: Path, changed_ns: int, kind: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """(name, keywords) of every KIND("name", …) in a file as it stood then. Raises BadInput."""
    return tuple(
        (call.args[0].value, frozenset(each.arg or "" for each in call.keywords))
        for call in ast.walk(parse_source(path))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == kind
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    )
