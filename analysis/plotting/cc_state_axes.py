# SPDX-License-Identifier: MIT
"""Define the axes and lines of a congestion control's own state, one axis per unit."""

import itertools
from collections.abc import Sequence

from gostlab.analysis.plotting.style import INK

# Unit -> (axis label, maximum number of variables, in the control's order).
PANELS = {
    "Mbit/s": ("Model\n(Mbit/s)", 4),
    "packets": ("Volumes\n(packets)", 4),
    "ms": ("Times\n(ms)", 2),
    "": ("Other\nvalues", 2),
}
LINES = ((INK, "-"), ("#0072B2", "-"), ("#D55E00", (0, (4, 1.5))), ("#009E73", "-"))
# Pale, so that lines are seen on them. The lab's own controls name their states alike, so that one
# looks the same in all figures; another's take what is left, in their order.
FILLS = {
    "CRUISE": "#FFFFFF",
    "STARTUP": "#F7D8B5",
    "DRAIN": "#CFE3F3",
    "DOWN": "#D9D9D9",
    "REFILL": "#D5EBCB",
    "UP": "#F6C9C4",
    "PROBE_RTT": "#DCCBEA",
}
MORE_FILLS = ("#F5EFA9", "#C9EDE6")


def phase_colours(words: Sequence[str]) -> dict[str, str]:
    """Return the colour of each phase's bands."""
    left = [fill for word, fill in FILLS.items() if word not in words]
    others = itertools.cycle([*left, *MORE_FILLS])
    return {word: FILLS.get(word) or next(others) for word in words}
