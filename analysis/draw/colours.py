"""How things look: one colour per congestion control everywhere, one marker per tunnel, one style
for figures.
"""

from __future__ import annotations

import zlib
from typing import Any

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
}
# For names not known here, by name and not by order, so that they keep their colour (Tol's muted
# palette).
OTHER_COLOURS = ("#332288", "#117733", "#882255", "#999933", "#AA4499", "#44AA99")
TUNNEL_MARKERS = {"direct": "o", "gost+ws": "s", "gost+wss": "^"}
OTHER_MARKERS = ("v", "P", "X", "<", ">")
CC_NAMES = {
    "cubic": "CUBIC",
    "bbr": "BBR",
    "reno": "Reno",
    "westwood": "Westwood",
    "vegas": "Vegas",
    "bbrplus": "BBRplus",
    "bbr2": "BBRv2",
    "bbr3": "BBRv3",
}

THESIS = "#222222"
INK, FAINT = "#222222", "#6b6b6b"
DEGRADED_HATCH = "////"

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.titlesize": 11,
    "axes.labelsize": 10.5,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "legend.fontsize": 9.5,
    "figure.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6.5,
    "hatch.linewidth": 0.7,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.dpi": 150,
    # Names of experiments and profiles are other people's words: a $ in them is no formula.
    "text.parse_math": False,
    # Glyphs as paths look the same on every machine; the salt makes two savings of one figure
    # equal.
    "svg.fonttype": "path",
    "svg.hashsalt": "gostlab",
}


def cc_colour(cc: str) -> str:
    """A congestion control's colour."""
    return (
        CC_COLOURS.get(cc)
        or OTHER_COLOURS[zlib.crc32(cc.encode("utf-8", "replace")) % len(OTHER_COLOURS)]
    )


def cc_name(cc: str) -> str:
    """A congestion control's name as papers print it; of several ("bbr+cubic") each one's."""
    return " + ".join(CC_NAMES.get(each, each) for each in cc.split("+"))


def tunnel_marker(tunnel: str) -> str:
    """A tunnel's marker."""
    return (
        TUNNEL_MARKERS.get(tunnel)
        or OTHER_MARKERS[zlib.crc32(tunnel.encode("utf-8", "replace")) % len(OTHER_MARKERS)]
    )
