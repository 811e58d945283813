# SPDX-License-Identifier: MIT
"""Count the distinct results of one run that is repeated, on the virtual and on the real clock.

    python3 -m tools.repeat_one_run [REPETITIONS]

On the real clock the sandbox's kernel and its netem run as on a host. Each repetition has the same
seed and a results folder of its own. The table is in Markdown, for docs/explanation/comparison.md.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from gostlab import api
from gostlab.results.duplicate_runs import samples_digest

SETTINGS: dict[str, Any] = {
    "rate": "10mbit",
    "rtt": "40ms",
    "loss": "0.5%",
    "buffer": "1bdp",
    "cc": "cubic",
    "duration": "3s",
}
REPETITIONS = 50


def table_row(clock: str, count: int) -> str:
    """Return the row of a clock: its distinct sample files, and its goodputs."""
    digests: Counter[object] = Counter()
    verdicts: Counter[str | None] = Counter()
    goodputs_mbit: list[float] = []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            result = api.Run(machine="sandbox", clock=clock, **SETTINGS).run(Path(folder))
            digests[samples_digest(result.folder)] += 1
            verdicts[result.verdict] += 1
            goodputs_mbit.append(round((result.goodput_bps or 0.0) / 1e6, 3))
    spread = f"{min(goodputs_mbit)} to {max(goodputs_mbit)}"
    return (
        f"| {clock} | {count} | {len(digests)} | {len(set(goodputs_mbit))} | {spread} |"
        f" {verdicts['ok']} |"
    )


def main(argv: list[str]) -> None:
    count = int(argv[1]) if len(argv) > 1 else REPETITIONS
    print("| clock | runs | distinct samples | distinct goodputs | goodput, Mbit/s | verdict ok |")
    print("|---|---|---|---|---|---|")
    for clock in ("virtual", "real"):
        print(table_row(clock, count), flush=True)


if __name__ == "__main__":
    main(sys.argv)
