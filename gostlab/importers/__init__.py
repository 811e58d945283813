# SPDX-License-Identifier: MIT
"""Parse recordings of paths: one module per format, each with a FORMAT; base.py has the types."""
