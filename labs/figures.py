#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Make the figure of each lab's page again: run its experiment as it stands, draw, and keep one.

labs/figures.py 3 4 --results FOLDER      (without numbers: all of them)
"""

import argparse
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gostlab import api  # noqa: E402
from gostlab.classroom.lab import list_labs, load_lab  # noqa: E402

# The figure that a lab's page shows, by the end of its file name.
SHOWN = {
    0: "one-cwnd.png",
    1: "rtt-by-rtt.png",
    2: "window-teeth.png",
    3: "loss-by-loss.png",
    4: "depth-latency.png",
    5: "mix-shares.png",
    6: "steady-series-steady.png",
    7: "lossy-retransmissions.png",
    8: "theirs-bars.png",
    9: "version-shares.png",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lab", nargs="*")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--out", type=Path, help="a folder (default: beside each lab's page)")
    arguments = parser.parse_args()
    for word in arguments.lab or [str(folder) for folder in list_labs()]:
        lab = load_lab(word)
        experiment = api.Experiment.from_file(lab.experiment_path, machine="sandbox")
        experiment.run(arguments.results, jobs=arguments.jobs, progress=True).wait()
        out = arguments.results / f"report-{lab.number}"
        api.report(arguments.results, [experiment.name], out)
        figures = sorted(out.glob(f"figures/*{SHOWN[lab.number]}"))
        if not figures:
            names = ", ".join(sorted(path.name for path in out.glob("figures/*.png")))
            print(f"{lab.name}: no {SHOWN[lab.number]} among {names}", file=sys.stderr)
            return 1
        target = arguments.out / f"{lab.name}.png" if arguments.out else lab.folder / "figure.png"
        shutil.copyfile(figures[0], target)
        print(target, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
