# SPDX-License-Identifier: MIT
"""How do four congestion controls use their windows? The samples of all runs are one frame."""

import matplotlib.pyplot as plt

import gostlab

PATH = {"rate": "10mbit", "rtt": "40ms", "buffer": "2bdp"}
experiment = gostlab.Experiment.of(
    cc=["reno", "cubic", "vegas", "bbr"], duration="15s", sample="100ms", **PATH
)
experiment.run().wait()
sockets = gostlab.load(f"results/{experiment.name}").samples()

panels = plt.figure().subplots(2, 2, sharex=True, sharey=True)
for axes, (cc, one) in zip(panels.flat, sockets.groupby("cc", observed=True), strict=True):
    axes.plot(one["t_s"], one["cwnd_pkts"], color=gostlab.cc_colour(cc))
    axes.set(title=cc, ylim=(0, None))
plt.gcf().supxlabel("time (s)")
plt.gcf().supylabel("congestion window (packets)")
plt.savefig("one_frame.png")
