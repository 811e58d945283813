"""`./lab profile import FILE`: a path that somebody else recorded, as a profile and a trace.

Each format is a file in formats/, which turns texts into `Seen` (seen.py); binned.py makes steps of
it that the lab can replay and says how far they are from what was seen; files.py writes.
"""
