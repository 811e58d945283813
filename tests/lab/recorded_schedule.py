"""When the runs of a real results folder began and ended: what a forecast is judged by.

`python3 tests/lab/recorded_schedule.py results/thesis-tunnel --quick --slots 2` prints what
tests/data/schedules keeps. status.json has ends to the second, so an instant may be off by one.
"""

from __future__ import annotations

import argparse
import json
from datetime import datetime
from pathlib import Path
from typing import Any


def schedule_of(folder: Path, *, quick: bool, slots: int) -> dict[str, Any]:
    """Every run's name without its digest, its begin and its end, seconds since the first began."""
    spans = []
    for file in folder.glob("*/status.json"):
        status = json.loads(file.read_text(encoding="utf-8"))
        end_s = datetime.fromisoformat(status["finished"].replace("Z", "+00:00")).timestamp()
        name, ok = file.parent.name.rpartition("-")[0], status["outcome"] == "ok"
        spans.append((end_s - status["wall_s"], end_s, name, ok))
    first_s = min(begin_s for begin_s, *_ in spans)
    return {
        "experiment": folder.name,
        "quick": quick,
        "slots": slots,
        "runs": [
            [name, round(begin_s - first_s, 1), round(end_s - first_s, 1), ok]
            for begin_s, end_s, name, ok in sorted(spans)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--slots", type=int, required=True)
    asked = parser.parse_args()
    made = schedule_of(asked.folder, quick=asked.quick, slots=asked.slots)
    runs = made.pop("runs")
    head = json.dumps(made)[1:-1]
    print("{" + head + ', "runs": [\n' + ",\n".join(map(json.dumps, runs)) + "\n]}")


if __name__ == "__main__":
    main()
