# SPDX-License-Identifier: MIT
"""How do two equal senders share a link, if one is four times as far away?"""

import matplotlib.pyplot as plt

import gostlab

FLOWS = {"near": {"rtt": "20ms"}, "far": {"rtt": "80ms"}}
CCS = ["reno", "cubic", "bbr", "bbr3"]
experiment = gostlab.Experiment.of(
    flows=FLOWS, cc=CCS, rate="10mbit", buffer="50ms", duration="25s"
)
experiment.run().wait()
cells = gostlab.load(f"results/{experiment.name}").cells

axes = plt.figure().subplots()
axes.bar(cells["cc"], 100 * cells["share:far"], color=[*map(gostlab.cc_colour, cells["cc"])])
axes.axhline(50, color="grey", linestyle="--")
axes.set(ylim=(0, 100), ylabel="share of the far sender (%)", title="80 ms beside 20 ms")
plt.savefig("rtt_fairness.png")
