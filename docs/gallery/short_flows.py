# SPDX-License-Identifier: MIT
"""How long does a small file take while a large one is downloaded?"""

import matplotlib.pyplot as plt

import gostlab

PATH = {"rate": "20mbit", "rtt": "40ms", "buffer": "200ms", "direction": "download"}
FLOWS = {"large": {}, "small": {"kind": "short", "sizes": ["10kB", "100kB", "1MB"]}}
experiment = gostlab.Experiment.of(
    queue=["fifo", "fq_codel"], cc=["cubic", "bbr"], flows=FLOWS, duration="12s", **PATH
)
experiment.run().wait()
results = gostlab.load(f"results/{experiment.name}")

results.draw("fetches", plt.figure())
plt.savefig("short_flows.png")
