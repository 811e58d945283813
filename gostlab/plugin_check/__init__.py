# SPDX-License-Identifier: MIT
"""Check plugins by one battery, which the lab's own and those of other packages must pass."""
