"""A figure on dark paper: an SVG whose colours follow the reader's choice, as the page's do.

Neutral colours change places, pale fields are dimmed, and lines that are too dark to be seen are
lightened. A scale of colours stays as it is, and so does what stands on its fields: there a colour
is a number.
"""

import re
from functools import cache

from gostlab.analysis.plotting.style import FAINT, GRID, INK, STRIPE

CARD = "#1b1f26"  # report.css has it as --card
NEUTRAL = {"#ffffff": CARD, INK: "#e4e7ec", FAINT: "#a3abb8", GRID: "#343a45", STRIPE: "#222731"}
# In a style, or behind the lines of a hatching.
COLOUR = re.compile(rb"(?:(?<=: )|(?<= fill=\"))#[0-9a-f]{6}\b")
HAS_SCALE = re.compile(rb"QuadMesh|<image")
MIN_CONTRAST = 3.0  # of a line or a mark (WCAG 2.2, 1.4.11)
PALE = 0.6  # luminance from which a colour is a field's, on white paper


def by_night(svg: bytes) -> bytes:
    """The picture with a dark form of its own. It is read by browsers; other programs want the
    plain one.
    """
    found = sorted(set(COLOUR.findall(svg)))
    scale = HAS_SCALE.search(svg) is not None
    dark = {}
    for colour in found:
        name = colour.decode()
        dark[colour] = NEUTRAL.get(name) or ("" if scale else seen(name))
    names = {colour: b"--c%d" % at for at, colour in enumerate(found) if dark[colour]}
    if not names:
        return svg
    words = {colour: b"var(%s)" % name for colour, name in names.items()}
    text = COLOUR.sub(lambda each: words.get(each[0], each[0]), svg)
    day = b"".join(b"%s:%s;" % (name, colour) for colour, name in names.items())
    night = b"".join(b"%s:%s;" % (name, dark[colour].encode()) for colour, name in names.items())
    rules = b"<style>:root{%s}@media (prefers-color-scheme:dark){:root{%s}}</style>" % (day, night)
    return re.sub(rb"<svg[^>]*>", lambda head: head[0] + rules, text, count=1)


@cache
def seen(colour: str) -> str:
    """A colour as it is on dark paper; "" where it stays."""
    if luminance(colour) > PALE:
        return mixed(colour, CARD, 0.22)
    for share in range(20):
        lighter = mixed("#ffffff", colour, share / 20)
        if contrast(lighter, CARD) >= MIN_CONTRAST:
            return lighter if share else ""
    return "#ffffff"


def mixed(colour: str, other: str, share: float) -> str:
    """So much of a colour in another."""
    pairs = zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def luminance(colour: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.2)."""
    parts = (part / 255 for part in bytes.fromhex(colour[1:]))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """How far two colours are apart, 1 to 21 (WCAG 2.2)."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
