"""One colour per congestion control, in figures, on pages and on the terminal."""

from __future__ import annotations

import zlib

# Okabe and Ito's palette, distinct to people with any kind of colour vision. Yellow is left out: on
# white it is hardly seen.
CC_COLOURS = {
    "cubic": "#0072B2",
    "bbr": "#D55E00",
    "reno": "#009E73",
    "westwood": "#CC79A7",
    "vegas": "#56B4E9",
    "bbrplus": "#E69F00",
    "bbr2": "#000000",
    "bbr3": "#000000",
    "fixedrate": "#882255",
}
# For names not known here, by name and not by order, so that they keep their colour (Tol's muted
# palette).
OTHER_COLOURS = ("#332288", "#117733", "#882255", "#999933", "#AA4499", "#44AA99")


def cc_colour(cc: str) -> str:
    """A congestion control's colour."""
    return (
        CC_COLOURS.get(cc)
        or OTHER_COLOURS[zlib.crc32(cc.encode("utf-8", "replace")) % len(OTHER_COLOURS)]
    )
