# SPDX-License-Identifier: MIT
"""Which round trip does each connection of a tunnel see: on this host, and across the path?"""

import matplotlib.pyplot as plt

import gostlab

PATH = {"rate": "10mbit", "rtt": "40ms", "loss": "1%"}
experiment = gostlab.Experiment.of(
    tunnel="relay+wss", cc=["cubic", "bbr"], duration="8s", sample="100ms", **PATH
)
experiment.run().wait()
sockets = gostlab.load(f"results/{experiment.name}").samples()

axes = plt.figure().subplots()
legs = sockets[sockets["leg"].isin(["app", "wan"])].groupby(["leg", "cc"], observed=True)
for (leg, cc), one in legs:
    look = {"color": gostlab.cc_colour(cc), "linestyle": {"app": "--", "wan": "-"}[leg]}
    axes.plot(one["t_s"], one["srtt_ms"], label=f"{leg}, {cc}", **look)
axes.set(yscale="log", xlabel="time (s)", ylabel="smoothed round trip (ms, log scale)")
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
plt.savefig("tunnel_legs.png")
