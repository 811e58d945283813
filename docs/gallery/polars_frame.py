# SPDX-License-Identifier: MIT
"""How many times as much as CUBIC does BBR carry, by loss and round trip? Polars has the table."""

import matplotlib.pyplot as plt
import polars as pl

import gostlab

LOSSES, RTTS = ["0%", "0.1%", "1%"], ["10ms", "40ms", "160ms"]
experiment = gostlab.Experiment.of(
    cc=["cubic", "bbr"], loss=LOSSES, rtt=RTTS, rate="10mbit", duration="8s"
)
experiment.run().wait()
cells = pl.from_dataframe(gostlab.load(f"results/{experiment.name}").cells)
gain = cells.pivot("cc", index=["loss", "rtt_ms"], values="goodput_mbit").sort("rtt_ms")

axes = plt.figure().subplots()
for (loss,), one in gain.group_by("loss", maintain_order=True):
    rtts, ratio = [f"{rtt:g}" for rtt in one["rtt_ms"]], one["bbr"] / one["cubic"]
    look = {"color": gostlab.cc_colour("bbr"), "marker": {0: "o", 0.001: "s", 0.01: "D"}[loss]}
    axes.plot(rtts, ratio, label=f"{loss:.1%} loss", **look)
axes.set(ylim=(0, None), xlabel="round trip (ms)", ylabel="BBR / CUBIC")
axes.legend()
plt.savefig("polars_frame.png")
