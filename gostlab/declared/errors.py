"""What the asking side says when it cannot go on."""

from __future__ import annotations


class BadInput(Exception):
    """What a person wrote cannot be used: `file:line: key: what is wrong (what to do)`."""
