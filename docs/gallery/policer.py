# SPDX-License-Identifier: MIT
"""Which share of a policed rate does a download get, by the policer's burst?"""

import matplotlib.pyplot as plt

import gostlab

POLICERS = [{"rate": "10mbit", "burst": burst} for burst in ("15kB", "150kB", "1MB")]
CCS = ["cubic", "bbr", "bbr3"]
experiment = gostlab.Experiment.of(
    policer=POLICERS, cc=CCS, rate="100mbit", rtt="40ms", duration="6s"
)
experiment.run().wait()
results = gostlab.load(f"results/{experiment.name}")

[axes] = results.draw("bars", plt.figure())
axes.axhline(10, color="grey", linestyle="--")
axes.set(ylim=(0, 15), title="Policed at 10 Mbit/s")
plt.savefig("policer.png")
