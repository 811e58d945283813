# SPDX-License-Identifier: MIT
"""Find the plugins of other packages by their entry points, which name modules.

    [project.entry-points."gostlab.tunnels"]    # or qdiscs, traffic, importers, plots, topologies
    mine = "my_package.tunnel"

A module has what a file in the lab's folder has. It imports Python's standard library, gostlab and
its own package: a guest sees these alone. A guest is told its run's plugins by PLUGINS, and looks
for none.
"""

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.registry.file_copies import copy_of, digest_of_files, provide_copy
from gostlab.registry.folders import DRAWINGS, FORMATS, QDISCS, TRAFFIC_KINDS, TUNNELS

PREFIX = "gostlab."
TOPOLOGIES = "topologies"
GROUPS = (
    *(folder.name for folder in (TUNNELS, QDISCS, TRAFFIC_KINDS, FORMATS, DRAWINGS)),
    TOPOLOGIES,
)
PLUGINS = "GOSTLAB_PLUGINS"
# Variables of which a guest, and a native run, has one.
OF_RUNS = ("GOSTLAB_HOST", "GOSTLAB_MEMORY")


@dataclass(frozen=True)
class InstalledPlugin:
    """Represent a plugin's module in another package."""

    group: str
    module: str
    package: str  # The name of the distribution.
    version: str

    def __str__(self) -> str:
        return f"{self.module} of {self.package} {self.version}"

    @property
    def file(self) -> Path:
        """Return the file of its module, which is not imported. Raises BadInput."""
        try:
            spec = find_spec(self.module)
        except (ImportError, ValueError):
            spec = None
        if spec is None or spec.origin is None:
            raise BadInput(f"plugin {self}: no such module: mend or uninstall it")
        return Path(spec.origin)

    @property
    def top(self) -> Path:
        """Return its package's folder, or the file of a module outside of one. Raises BadInput."""
        name = self.module.partition(".")[0]
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            raise BadInput(f"plugin {self}: no such module: mend or uninstall it")
        path = Path(spec.origin)
        return path.parent if path.name == "__init__.py" else path

    def provide(self) -> str:
        """Copy its package for guests, and return the copy's digest. Raises BadInput."""
        try:
            return digest_of_files(provide_copy([self.top]))
        except (BadInput, OSError) as error:
            raise BadInput(f"plugin {self}: {error}") from None


def installed(group: str) -> tuple[InstalledPlugin, ...]:
    """Return the plugins of a group in other packages, by module."""
    return tuple(plugin for plugin in all_installed() if plugin.group == group)


@cache
def all_installed() -> tuple[InstalledPlugin, ...]:
    if (handed_over := os.environ.get(PLUGINS)) is not None:
        return tuple(InstalledPlugin(**fields) for fields in json.loads(handed_over))
    if any(name in os.environ for name in OF_RUNS) or not any(map(declares_plugins, sys.path)):
        return ()
    from importlib.metadata import distributions

    all_found = {
        InstalledPlugin(entry.group.removeprefix(PREFIX), entry.module, package.name, version)
        for package in distributions()
        for entry in package.entry_points
        for version in [package.version]
        if entry.group.startswith(PREFIX) and entry.group.removeprefix(PREFIX) in GROUPS
    }
    return tuple(sorted(all_found, key=lambda one: (one.group, one.module, one.version)))


def declares_plugins(folder: str) -> bool:
    """Return whether a package in a folder has an entry point of the lab's.

    Importing importlib.metadata would take each command ten times as long as this.
    """
    with suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if entry.name.endswith((".dist-info", ".egg-info")):
                with suppress(OSError):
                    if f"[{PREFIX}" in Path(entry, "entry_points.txt").read_text("utf-8"):
                        return True
    return False


@dataclass(frozen=True)
class UsedPlugin(InstalledPlugin):
    """Represent a plugin that a run uses, as run.json has it; sha256 is of its package's copy."""

    sha256: str

    @property
    def folder(self) -> Path:
        """Return the folder in which a guest finds its package."""
        return copy_of(self.sha256)


def record_use(plugin: InstalledPlugin) -> UsedPlugin:
    """Return a plugin with the digest of its package, which is copied. Raises BadInput."""
    return UsedPlugin(**asdict(plugin), sha256=plugin.provide())


def guest_plugins_value(plugins: Sequence[UsedPlugin]) -> str:
    """Return the value of PLUGINS that tells a guest the plugins of its run."""
    names = ("group", "module", "package", "version")
    return json.dumps([{name: getattr(plugin, name) for name in names} for plugin in plugins])
