"""Write the files of a new plugin for `./lab new KIND NAME`.

They are the plugin (tunnel, queue, drawing, topology, traffic or importer) with parts to fill in,
its test, and its row in the documents. A declaration with parts that are not filled in is refused,
by file and line, by its first reader.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.registry import folders
from gostlab.registry.plots import drawing_files
from gostlab.registry.qdiscs import qdisc_kinds
from gostlab.registry.topologies import topologies
from gostlab.registry.traffic import traffic_kinds
from gostlab.registry.tunnels import tunnel_kinds

TEMPLATES = Path(__file__).with_name("templates")
NAME = re.compile(r"[a-z][a-z0-9]*(?:[-+_][a-z0-9]+)*")
END_OF_TOPOLOGIES = "\n\ntopos = {"


@dataclass(frozen=True)
class Kind:
    """A type of plugin.

    `folder` is the plugin's folder, or topo.py, which has all topologies; `tests` is its test's
    folder in tests/; `names` returns the existing names.
    """

    folder: Path
    tests: str
    names: Callable[[], Iterable[str]]


KINDS = {
    "tunnel": Kind(folders.TUNNELS, "tunnels", tunnel_kinds),
    "queue": Kind(folders.QDISCS, "qdiscs", qdisc_kinds),
    "traffic": Kind(folders.TRAFFIC_KINDS, "traffic", traffic_kinds),
    "topology": Kind(folders.TOPOLOGY_FILE, "guest", topologies),
    "drawing": Kind(folders.DRAWINGS, "analysis/plots", drawing_files),
    "importer": Kind(
        folders.FORMATS,
        "apps/paths",
        lambda: [path.stem for path in folders.FORMATS.glob("[!_]*.py") if path.stem != "base"],
    ),
}


def write_kind(kind: str, name: str, root: Path = folders.ROOT) -> list[Path]:
    """Write the files of a new plugin and return their paths, replacing none. Raises BadInput."""
    if folders.IS_PACKAGE and root == folders.ROOT:
        raise BadInput(
            f"a {kind} is written into the lab's sources: run ./lab new in a clone of it"
        )
    if kind not in KINDS:
        raise BadInput(f"{kind}: not a kind that can be added (there are {', '.join(KINDS)})")
    if not NAME.fullmatch(name):
        raise BadInput(f"{name}: not a name (small letters, digits; -, + or _ between words)")
    target = KINDS[kind]
    if kind == "drawing":
        name = name.replace("_", "-")  # its name in an experiment
    if name in set(target.names()):
        raise BadInput(f"{name}: there is a {kind} of that name")
    module = re.sub(r"[-+]", "_", name)
    path_of_plugin = root / target.folder.relative_to(folders.ROOT)
    test = root / "tests" / target.tests / f"test_{module}.py"
    file = path_of_plugin if path_of_plugin.suffix else path_of_plugin / f"{module}.py"
    for path in (test, *(() if path_of_plugin.suffix else (file,))):
        if path.exists():
            raise BadInput(f"{path}: is there already")
    class_name = "".join(word.capitalize() for word in module.split("_"))
    marks = {"name": name, "module": module, "Name": class_name}
    templates = {file: f"{kind}.txt", test: f"{kind}_test.txt"}
    texts = {
        path: fill_template(TEMPLATES / template, marks) for path, template in templates.items()
    }
    if path_of_plugin.suffix:
        before, mark, after = file.read_text(encoding="utf-8").partition(END_OF_TOPOLOGIES)
        texts[file] = f"{before}\n\n{texts[file].rstrip()}\n{mark}{after}"
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(texts)


def fill_template(template: Path, marks: Mapping[str, str]) -> str:
    """Return a template's text with its @marks@ replaced."""
    text = template.read_text(encoding="utf-8")
    for mark, value in marks.items():
        text = text.replace(f"@{mark}@", value)
    return text
