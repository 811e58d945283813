# SPDX-License-Identifier: MIT
"""Make the control characters of foreign text harmless: escape them, or replace them."""

import re

# Control characters except tab and line ends, and characters that change the writing direction.
CONTROLS = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
    "|\r(?!\n)"
)
ESCAPE_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NONCHARACTERS = re.compile("[\ufffe\uffff]")


def escape_controls(text: str) -> str:
    """Return a text for a terminal, in which a control character shows as its escape: \\x1b."""
    return CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def replace_controls(text: str) -> str:
    """Return a text for a page, a plot or XML, without escape sequences and control characters."""
    unescaped = ESCAPE_SEQUENCES.sub("", text.replace("\r\n", "\n"))
    return NONCHARACTERS.sub("\ufffd", CONTROLS.sub("\ufffd", unescaped))
