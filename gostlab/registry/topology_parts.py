# SPDX-License-Identifier: MIT
"""Provide what a topology of another package is made of: that of topo.py, wherever it lies."""

from gostlab.registry.folders import TOPOLOGY_FILE
from gostlab.registry.plugin_loader import import_file

_own = import_file(TOPOLOGY_FILE)
Topo = _own.Topo
add_end, add_router, join = _own.add_end, _own.add_router, _own.join
