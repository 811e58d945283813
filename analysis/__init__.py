# SPDX-License-Identifier: MIT
"""From result folders to tables, figures and one page. Imports nothing that measures."""
