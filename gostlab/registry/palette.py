# SPDX-License-Identifier: MIT
"""Assign one colour per congestion control, for plots, pages and the terminal."""

import zlib

# The first colours are Okabe and Ito's palette without its yellow, which is hardly visible on
# white. The others maximize the distance to all earlier ones for people with any type of colour
# vision (Machado et al. 2009), and are visible on white.
CC_COLOURS = {
    "cubic": "#0072B2",
    "bbr": "#D55E00",
    "reno": "#009E73",
    "westwood": "#CC79A7",
    "vegas": "#56B4E9",
    "bbrplus": "#E69F00",
    "bbr2": "#000000",
    "bbr3": "#7B04E5",
    "dctcp": "#5E2C04",
    "bic": "#1B158E",
    "htcp": "#55444D",
    "illinois": "#93B861",
    "highspeed": "#9172FA",
    "hybla": "#420152",
    "scalable": "#9F503E",
    "yeah": "#753579",
    "veno": "#172E1E",
    "lp": "#8828C8",
    "cdg": "#F84371",
    "nv": "#D1A2A7",
    "fixedrate": "#D109B7",
    "prague": "#A23E07",
}
# Other names get a colour by name and not by order, which keeps it stable (Tol's muted palette).
OTHER_COLOURS = ("#332288", "#117733", "#882255", "#999933", "#AA4499", "#44AA99")


def cc_colour(cc: str) -> str:
    """Return the colour that a congestion control has in every figure, as #RRGGBB."""
    return (
        CC_COLOURS.get(cc)
        or OTHER_COLOURS[zlib.crc32(cc.encode("utf-8", "replace")) % len(OTHER_COLOURS)]
    )
