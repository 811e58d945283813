# SPDX-License-Identifier: MIT
"""Fetch, build and locate the lab's parts, by Python's standard library alone."""
