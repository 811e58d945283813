# SPDX-License-Identifier: MIT
"""Make SVG figures follow the reader's dark mode.

Neutral colours are exchanged, pale fields are dimmed, and lines that are too dark are lightened. A
colour scale and text on its fields are unchanged, because colours are values there.
"""

import re
from functools import cache

from gostlab.analysis.plotting.style import FAINT, GRID, INK, STRIPE

CARD = "#1b1f26"  # --card in report.css
NEUTRAL = {"#ffffff": CARD, INK: "#e4e7ec", FAINT: "#a3abb8", GRID: "#343a45", STRIPE: "#222731"}
# Colours in a style or in a hatching.
COLOUR = re.compile(rb"(?:(?<=: )|(?<= fill=\"))#[0-9a-f]{6}\b")
HAS_SCALE = re.compile(rb"QuadMesh|<image")
MIN_CONTRAST = 3.0  # contrast of a line or mark (WCAG 2.2, 1.4.11)
PALE = 0.6  # minimum luminance of a field's colour on white paper


def add_dark_mode(svg: bytes) -> bytes:
    """Add dark colours to an SVG. Browsers apply them; other programs need the original."""
    colours = sorted(set(COLOUR.findall(svg)))
    scale = HAS_SCALE.search(svg) is not None
    dark = {}
    for colour in colours:
        name = colour.decode()
        dark[colour] = NEUTRAL.get(name) or ("" if scale else dark_colour(name))
    names = {colour: b"--c%d" % at for at, colour in enumerate(colours) if dark[colour]}
    if not names:
        return svg
    variables = {colour: b"var(%s)" % name for colour, name in names.items()}
    text = COLOUR.sub(lambda match: variables.get(match[0], match[0]), svg)
    day = b"".join(b"%s:%s;" % (name, colour) for colour, name in names.items())
    night = b"".join(b"%s:%s;" % (name, dark[colour].encode()) for colour, name in names.items())
    rules = b"<style>:root{%s}@media (prefers-color-scheme:dark){:root{%s}}</style>" % (day, night)
    return re.sub(rb"<svg[^>]*>", lambda head: head[0] + rules, text, count=1)


@cache
def dark_colour(colour: str) -> str:
    """Return a colour for dark paper; "" for no change."""
    if luminance(colour) > PALE:
        return mix_colours(colour, CARD, 0.22)
    for share in range(20):
        lighter = mix_colours("#ffffff", colour, share / 20)
        if contrast(lighter, CARD) >= MIN_CONTRAST:
            return lighter if share else ""
    return "#ffffff"


def mix_colours(colour: str, other: str, share: float) -> str:
    """Mix two colours."""
    pairs = zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def luminance(colour: str) -> float:
    """Return the relative luminance, 0 to 1 (WCAG 2.2)."""
    parts = (part / 255 for part in bytes.fromhex(colour[1:]))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return the WCAG 2.2 contrast ratio of two colours, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
