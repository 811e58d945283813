# SPDX-License-Identifier: MIT
"""Load the declarations of plugins without running them, with the standard library alone."""
