# SPDX-License-Identifier: MIT
"""Find every plugin that there is, and the battery of its group."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gostlab.plugin_check import (
    importer_checks,
    plot_checks,
    qdisc_checks,
    topology_checks,
    traffic_checks,
    tunnel_checks,
)
from gostlab.plugin_check.check_runs import PluginBench
from gostlab.profile_import.find_importers import FORMATS
from gostlab.registry import folders
from gostlab.registry.installed_plugins import GROUPS, TOPOLOGIES
from gostlab.registry.plot_names import drawing_files, load_drawing
from gostlab.registry.plugin_loader import find_by_name
from gostlab.registry.qdiscs import qdisc_kinds
from gostlab.registry.topologies import topologies, topology_classes
from gostlab.registry.traffic import traffic_kinds
from gostlab.registry.tunnels import tunnel_kinds

STEPS = ("declares", "starts", "carries", "ends", "refuses", "repeats")
BATTERIES = {
    folders.TUNNELS.name: tunnel_checks,
    folders.QDISCS.name: qdisc_checks,
    folders.TRAFFIC_KINDS.name: traffic_checks,
    folders.FORMATS.name: importer_checks,
    folders.DRAWINGS.name: plot_checks,
    TOPOLOGIES: topology_checks,
}


def group_declarations(group: str) -> Mapping[str, object]:
    """Return the declaration of every plugin of a group by name. Raises BadInput."""
    if group == folders.TUNNELS.name:
        return {declaration.name: declaration for declaration in tunnel_kinds().values()}
    if group == folders.FORMATS.name:
        return FORMATS
    if group == folders.DRAWINGS.name:
        return {word: load_drawing(word, file) for word, file in drawing_files().items()}
    known: dict[str, Callable[[], Mapping[str, Any]]] = {
        folders.QDISCS.name: qdisc_kinds,
        folders.TRAFFIC_KINDS.name: traffic_kinds,
        TOPOLOGIES: topologies,
    }
    return find_by_name(group, known, "group of plugins")()


def all_plugins() -> list[tuple[str, str]]:
    """Return every plugin, of the lab and of other packages, as its group and name."""
    return [(group, name) for group in GROUPS for name in group_declarations(group)]


def steps_of(group: str) -> dict[str, Callable[[PluginBench], None]]:
    return {step: getattr(BATTERIES[group], step) for step in STEPS}


def bench_for(group: str, name: str, folder: Path, samples: Sequence[Path]) -> PluginBench:
    """Return the bench of a plugin. Raises BadInput if there is none of that name."""
    declared = find_by_name(name, group_declarations(group), f"plugin among {group}")
    return PluginBench(
        name, importlib.import_module(module_of(group, name, declared)), declared, folder, samples
    )


def module_of(group: str, name: str, declared: Any) -> str:
    if group == TOPOLOGIES:
        return str(topology_classes()[name].__module__)
    if group == folders.FORMATS.name:
        return str(declared.read.__module__)
    return str(declared.draw.__module__ if group == folders.DRAWINGS.name else declared.module)
