# SPDX-License-Identifier: MIT
"""How much of a link does BBR take beside CUBIC, by the size of the buffer?"""

import matplotlib.pyplot as plt

import gostlab

FLOWS = {"bbr": {"cc": "bbr"}, "cubic": {"cc": "cubic"}}
BUFFERS = ["0.5bdp", "1bdp", "2bdp", "4bdp", "8bdp"]
experiment = gostlab.Experiment.of(
    flows=FLOWS, buffer=BUFFERS, rate="10mbit", rtt="40ms", duration="20s"
)
experiment.run().wait()
cells = gostlab.load(f"results/{experiment.name}").cells

axes = plt.figure().subplots()
for cc in ("bbr", "cubic"):
    share = 100 * cells[f"share:{cc}"]
    axes.plot(cells["buffer_bdp"].astype(str), share, "o-", color=gostlab.cc_colour(cc), label=cc)
axes.set(xlabel="buffer (BDP)", ylabel="share (%)", ylim=(0, 100), title="BBR beside CUBIC")
axes.legend()
plt.savefig("coexistence.png")
