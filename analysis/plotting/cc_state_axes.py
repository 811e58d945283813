"""How what a congestion control says of itself is drawn: an axis for each unit, and its lines."""

from gostlab.analysis.plotting.style import INK

# Unit -> (the axis's name, how many of its names are drawn): the first that the control gives.
PANELS = {
    "Mbit/s": ("Model\n(Mbit/s)", 4),
    "packets": ("Volumes\n(packets)", 4),
    "ms": ("Times\n(ms)", 2),
    "": ("Other\nvalues", 2),
}
LINES = ((INK, "-"), ("#0072B2", "-"), ("#D55E00", (0, (4, 1.5))), ("#009E73", "-"))
