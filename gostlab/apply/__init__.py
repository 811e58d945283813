# SPDX-License-Identifier: MIT
"""Print what to type on real machines for the best cell of some results: `./lab apply`."""
