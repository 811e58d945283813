# SPDX-License-Identifier: MIT
"""Generate docs/reference and schemas/ from the declarations in the code.

    python3 -m tools.reference      writes them

A page is a template in this package, filled with tables of the declarations. A test fails if a page
is not up to date.
"""
