# SPDX-License-Identifier: MIT
"""Define the axes and lines of a congestion control's own state, one axis per unit."""

from gostlab.analysis.plotting.style import INK

# Unit -> (axis label, maximum number of variables, in the control's order).
PANELS = {
    "Mbit/s": ("Model\n(Mbit/s)", 4),
    "packets": ("Volumes\n(packets)", 4),
    "ms": ("Times\n(ms)", 2),
    "": ("Other\nvalues", 2),
}
LINES = ((INK, "-"), ("#0072B2", "-"), ("#D55E00", (0, (4, 1.5))), ("#009E73", "-"))
