# SPDX-License-Identifier: MIT
"""Whoever adds a tunnel, a drawing, a setting or a key finds out here what else it needs: a test
that names it, a line of documentation, a caption.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from gostlab.registry.folders import ROOT
from gostlab.registry.plot_names import drawing_files, model_names, publishable_metrics
from gostlab.registry.qdiscs import qdisc_kinds
from gostlab.registry.topologies import topologies
from gostlab.registry.traffic import traffic_kinds
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.spec import experiment, settings, trace
from gostlab.spec.yaml_source import keys_of

PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

# What can be added, and the names that there are.
KINDS: Mapping[str, Callable[[], list[str]]] = {
    "tunnel": lambda: list(tunnel_kinds()),
    "topology": lambda: list(topologies()),
    "queueing discipline": lambda: list(qdisc_kinds()),
    "traffic": lambda: list(traffic_kinds()),
    "drawing": lambda: list(drawing_files()),
    "setting": lambda: list(settings.SETTINGS),
    "field of a flow": lambda: list(settings.FLOW_FIELDS),
    "key of a change": lambda: list(settings.CHANGE_FIELDS),
    "key of an experiment": lambda: list(keys_of(experiment.ExperimentFile)),
    "key of a matrix": lambda: list(keys_of(experiment.Matrix)),
    "key of a published number": lambda: list(keys_of(experiment.Published)),
    "published figure": lambda: list(publishable_metrics()),
    "model": lambda: list(model_names()),
    "column of a trace": lambda: list(trace.COLUMNS),
}
# What tests run over as it is declared (tests/tunnels, tests/qdiscs), or as rows of one
# table in the code.
TESTED_TOGETHER = ("tunnel", "queueing discipline", "published figure", "model")
AWAITED = ("presets", "reasons")
NAMES = [(kind, name) for kind, names in KINDS.items() for name in names() if name not in AWAITED]


@cache
def every_test() -> str:
    """Every test, but for this one."""
    paths = sorted((ROOT / "tests").rglob("*.py"))
    return "\n".join(path.read_text("utf-8") for path in paths if path != Path(__file__).resolve())


@cache
def pages() -> str:
    """Everything that is documented."""
    return "\n".join(path.read_text("utf-8") for path in PAGES)


def what_it_lacks(kind: str, name: str) -> list[str]:
    """What a name needs beside the code, in words."""
    word = re.compile(rf"(?<![\w+-]){re.escape(name)}(?![\w+-])")
    lacks = []
    if not re.search(rf"`[^`\n]*{word.pattern}[^`\n]*`", pages()):
        lacks.append("a line of documentation (docs/how-to/experiment.md, or make the pages again)")
    if kind not in TESTED_TOGETHER and not word.search(every_test()):
        lacks.append("a test that names it (tests/)")
    return [f"{kind} {name} lacks {each}" for each in lacks]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_everything_that_can_be_asked_for_is_documented_and_tested(kind: str, name: str) -> None:
    assert what_it_lacks(kind, name) == []


def test_what_is_new_says_what_it_needs() -> None:
    made_up = "warp" + "drive"  # in two words, so that this test does not name it
    assert what_it_lacks("setting", made_up) == [
        f"setting {made_up} lacks a line of documentation"
        " (docs/how-to/experiment.md, or make the pages again)",
        f"setting {made_up} lacks a test that names it (tests/)",
    ]


def test_links_between_the_pages_lead_somewhere() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in [*PAGES, *ROOT.glob("*.md")]
        for target in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", page.read_text("utf-8"))
        if target not in AWAITED and "://" not in target and not (page.parent / target).exists()
    ]
    assert broken == []
