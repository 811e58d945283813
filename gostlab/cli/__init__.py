# SPDX-License-Identifier: MIT
"""The verbs of the core: what can be asked of the lab."""
