"""What the asking side says when it cannot go on."""

from __future__ import annotations


class BadInput(Exception):
    """What a person wrote cannot be used: `file:line: key: what is wrong (what to do)`."""


class SandboxOnly(BadInput):
    """What a person wrote can be had in the sandbox, and not on this machine's own kernel."""
