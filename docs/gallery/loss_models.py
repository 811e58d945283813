# SPDX-License-Identifier: MIT
"""Does it matter how one packet of 100 is lost: one by one, at random, or in bursts?"""

import matplotlib.pyplot as plt

import gostlab

MODELS = {
    "every 100th": {"model": "periodic", "packets": 100},
    "at random": {"model": "random", "p": "1%"},
    "bursts of 10": {"model": "gemodel", "p": "0.101%", "r": "10%", "one_minus_h": "100%"},
}
axes = plt.figure().subplots()
for column, model in enumerate(MODELS.values()):
    experiment = gostlab.Experiment.of(
        loss=model, cc=["cubic", "bbr"], rate="20mbit", rtt="40ms", duration="10s"
    )
    for offset, result in zip((-0.2, 0.2), experiment.run(), strict=True):
        cc = result.levels["cc"]
        bar = {"color": gostlab.cc_colour(cc), "label": "" if column else cc, "width": 0.35}
        axes.bar(column + offset, result.goodput_mbit, **bar)
axes.set(ylabel="goodput (Mbit/s)", ylim=(0, 20), title="Ways to lose 1 % of the packets")
axes.set_xticks(range(len(MODELS)), MODELS)
axes.legend()
plt.savefig("loss_models.png")
