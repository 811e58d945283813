# SPDX-License-Identifier: MIT
"""What a folder of flows that compete comes to."""

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic

from gostlab import results
from gostlab.analysis.stats.coexistence import read_contest
from gostlab.results.metrics import Spread


def write(tmp_path: Path, *flows: dict[str, Any], ended_s: float = 60.0) -> Path:
    """A run whose first flow has 60 Mbit/s, every other 20; round trips of 10 ms, and of 90 from
    30 s on.
    """
    run = synthetic.several(*flows)
    folder = synthetic.write_run(tmp_path, run)
    names = [each["name"] for each in run["flows"]]
    rates = {name: 60.0 if name == names[0] else 20.0 for name in names}
    synthetic.write_over_time(folder, run, rates)
    rows = [json.loads(line) for line in (folder / "sockets.jsonl").read_text().splitlines()]
    synthetic.put_lines(
        folder, "sockets", [{**row, "srtt_ms": 10 if row["t_s"] < 30 else 90} for row in rows]
    )
    did = results.read_object(folder / "flows.json") or {}
    for row in did["flows"]:
        row["ended_s"] = ended_s
    synthetic.put(folder, "flows.json", did)
    return folder


@pytest.mark.parametrize(("ended_s", "rtt_ms"), [(29.0, 10.0), (60.0, 90.0)])
def test_each_flow_has_its_rate_share_side_and_round_trips_while_it_ran(
    tmp_path: Path, ended_s: float, rtt_ms: float
) -> None:
    found = read_contest(write(tmp_path, {}, {}, ended_s=ended_s))

    assert found is not None
    assert (found.jain, found.until_s) == (pytest.approx(0.8), ended_s)
    first, second = found.flows
    assert (first.rate_mbit, second.rate_mbit) == pytest.approx((60.0, 20.0))
    assert (first.share, second.share) == pytest.approx((0.75, 0.25))
    assert first.side is not None and second.side is not None
    assert (first.side.side, second.side.side) == (1, -1)
    assert first.srtt_ms == second.srtt_ms == Spread(rtt_ms, rtt_ms)


def test_one_flow_alone_is_no_contest(tmp_path: Path) -> None:
    assert read_contest(write(tmp_path, {})) is None
