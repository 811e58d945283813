# SPDX-License-Identifier: MIT
"""How long does a ping wait beside an upload, and what does FQ-CoDel change?"""

import matplotlib.pyplot as plt

import gostlab

PATH = {"rate": "10mbit", "rtt": "40ms", "buffer": "300ms"}
FLOWS = {"upload": {}, "ping": {"kind": "ping"}}
experiment = gostlab.Experiment.of(
    queue=["fifo", "fq_codel"], cc=["cubic", "bbr"], flows=FLOWS, duration="10s", **PATH
)
experiment.run().wait()
pings = gostlab.load(f"results/{experiment.name}").samples("pings")

panels = plt.figure().subplots(1, 2, sharey=True)
for (queue, cc), one in pings.groupby(["queue", "cc"], observed=True):
    axes = panels[["fifo", "fq_codel"].index(queue)]
    axes.plot(one["t_s"], one["rtt_ms"], color=gostlab.cc_colour(cc), label=f"beside {cc}")
    axes.set(title=queue, xlabel="time (s)", ylim=(0, 400))
panels[0].set_ylabel("round trip of a ping (ms)")
panels[1].legend()
plt.savefig("bufferbloat.png")
