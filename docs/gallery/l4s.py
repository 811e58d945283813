# SPDX-License-Identifier: MIT
"""How do CUBIC, BBR and TCP Prague trade rate for delay where queues mark packets?"""

import matplotlib.pyplot as plt

import gostlab

MARKERS = {"pie": "o", "fq_codel": "s", "dualpi2": "D"}
PATH = {"rate": "20mbit", "rtt": "20ms", "buffer": "200ms", "ecn": "l4s"}
experiment = gostlab.Experiment.of(
    queue=[*MARKERS], cc=["cubic", "bbr", "prague"], duration="8s", **PATH
)
experiment.run().wait()
cells = gostlab.load(f"results/{experiment.name}").cells

axes = plt.figure().subplots()
for one in cells.itertuples():
    look = {"color": gostlab.cc_colour(one.cc), "marker": MARKERS[one.queue], "linestyle": ""}
    label = f"{one.cc}, {one.queue}"
    axes.plot(one.queue_delay_p95_ms, one.goodput_mbit, label=label, markersize=9, **look)
axes.set(xscale="log", xlabel="95 % of packets wait less than (ms)")
axes.set(ylim=(0, 20), ylabel="goodput (Mbit/s)")
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.savefig("l4s.png")
