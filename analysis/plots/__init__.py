# SPDX-License-Identifier: MIT
"""Contain one plot per file, named after its `draw:` word; see plotting.plot_registry."""
