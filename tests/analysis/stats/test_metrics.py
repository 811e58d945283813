"""What a run's folder says of one figure."""

from pathlib import Path

import pytest
import synthetic

from gostlab import results
from gostlab.analysis.stats.metrics import value_of

MEASURED = {
    "ping_median_ms": 50.0,
    "ping_p95_ms": 90.0,
    "ping_p99_ms": 95.0,
    "fetch_median_s": 0.2,
    "fetch_p95_s": 0.4,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of a bulk flow, a ping and short downloads."""
    flows = ({}, {"kind": "ping", "cc": None}, {"kind": "short", "sizes_bytes": [10_000, 50_000]})
    return synthetic.write_run(tmp_path, synthetic.several(*flows))


def test_pings_and_the_smallest_downloads_have_their_own_figures(folder: Path) -> None:
    did = results.read_object(folder / "flows.json") or {}
    _, ping, short = did["flows"]
    ping["round_trips"] = {"sent": 4, "median_ms": 50.0, "p95_ms": 90.0, "p99_ms": 95.0}
    short["fetches"] = [
        {"size_bytes": 10_000, "count": 3, "median_s": 0.2, "p95_s": 0.4},
        {"size_bytes": 50_000, "count": 3, "median_s": 0.9, "p95_s": 1.4},
    ]
    synthetic.put(folder, "flows.json", did)

    run = synthetic.loaded(folder)
    assert {figure: value_of(run, figure) for figure in MEASURED} == MEASURED


def test_what_was_not_measured_has_none(folder: Path) -> None:
    run = synthetic.loaded(folder)
    assert {value_of(run, figure) for figure in MEASURED} == {None}
