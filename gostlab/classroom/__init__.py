# SPDX-License-Identifier: MIT
"""Assign classroom labs to students, collect their hand-ins and grade them.

Nothing in this package runs an experiment: a hand-in is graded from its files by Python and PyYAML
alone. docs/how-to/teaching.md explains how to use it in a course.
"""
