# SPDX-License-Identifier: MIT
"""What does a call suffer when an upload begins beside it?"""

import matplotlib.pyplot as plt

import gostlab

PATH = {"rate": "5mbit", "rtt": "30ms", "buffer": "250ms"}
FLOWS = {"call": {"kind": "ping", "interval": "20ms"}, "upload": {"start": "4s"}}
experiment = gostlab.Experiment.of(cc=["cubic", "bbr"], flows=FLOWS, duration="12s", **PATH)
experiment.run().wait()
pings = gostlab.load(f"results/{experiment.name}").samples("pings")

axes = plt.figure().subplots()
for cc, one in pings.groupby("cc", observed=True):
    axes.plot(one["t_s"], one["rtt_ms"], color=gostlab.cc_colour(cc), label=f"an upload by {cc}")
axes.axhline(300, color="grey", linestyle="--")  # ITU-T G.114: 150 ms one way, at most
axes.set(ylim=(0, 320), xlabel="time (s)", ylabel="round trip of a packet (ms)", title="A call")
axes.legend(loc="center left")
plt.savefig("call.png")
