"""Classroom labs: what a lab asks of each student, what he hands in, and what that is worth.

Nothing here runs anything: a hand-in is graded from its files by Python and PyYAML alone.
docs/how-to/teaching.md says how a course uses it.
"""
