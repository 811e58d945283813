# SPDX-License-Identifier: MIT
"""What do packets that overtake others cost CUBIC and BBR?"""

import matplotlib.pyplot as plt

import gostlab

SHARES = ["0.1%", "1%", "5%", "20%"]
experiment = gostlab.Experiment.of(
    reorder=SHARES, cc=["cubic", "bbr"], rate="20mbit", rtt="40ms", duration="8s"
)
experiment.run().wait()
cells = gostlab.load(f"results/{experiment.name}").cells

axes = plt.figure().subplots()
for cc, one in cells.groupby("cc", observed=True):
    share, mbit = one["reorder"].map("{:.1%}".format), one["goodput_mbit"]
    axes.plot(share, mbit, "o-", color=gostlab.cc_colour(cc), label=cc)
axes.set(ylim=(0, 20), xlabel="packets that skip 20 ms of delay", ylabel="goodput (Mbit/s)")
axes.legend()
plt.savefig("reordering.png")
