# SPDX-License-Identifier: MIT
"""What runs leave behind is the format of docs/reference/result-format.md, field by field."""

from dataclasses import replace

import pytest

from gostlab import results
from gostlab.spec.run_spec import RunSpec
from tests.results.format_check import complaints
from tests.sandboxed import Lab, describe, direction, flow

pytestmark = pytest.mark.sandbox

LOSS = {"model": "random", "p": 0.01}
PATH = direction(rate_bps=20_000_000, buffer_pkts=50)
# Between them they leave every file and every field that the lab writes.
RUNS = {
    "a flow whose ACKs are recorded, on a path that changes": replace(
        describe(PATH, cc="bbr", duration_s=2.0, sample_ms=500.0, acks=True),
        changes=[
            {"at_s": 0.5, "direction": "forward", "rate_bps": 10_000_000},
            {"at_s": 1.0, "direction": "reverse", "delay_ms": 30.0, "jitter_ms": 0.0, "loss": LOSS},
        ],
    ),
    "two streams through a tunnel": describe(PATH, tunnel="gost+ws", streams=2, duration_s=2.0),
    "a token bucket over a queue that acts, another control at one end": describe(
        PATH, duration_s=2.0, bottleneck="tbf", queue="fq_codel", cc_by_end={"target": "reno"}
    ),
    "http and short downloads beside udp and pings": describe(
        PATH,
        duration_s=2.0,
        flows=[
            flow("file", kind="http", size_bytes=500_000, direction="download", duration_s=60.0),
            flow("noise", kind="udp", cc=None, rate_bps=1_000_000, duration_s=2.0),
            flow("web", kind="short", sizes_bytes=[10_000], direction="download", duration_s=2.0),
            flow("lag", kind="ping", cc=None, interval_ms=100.0, duration_s=2.0),
        ],
    ),
    "a transfer, bursts, a video and an application at a rate": describe(
        PATH,
        duration_s=2.0,
        flows=[
            flow("file", kind="transfer", size_bytes=50_000, duration_s=2.0),
            flow("bursts", kind="onoff", on_s=0.5, off_s=0.5, duration_s=2.0),
            flow("call", rate_bps=1_000_000, duration_s=2.0),
            flow(
                "film",
                kind="video",
                direction="download",
                ladder_bps=[300_000, 750_000],
                segment_s=0.5,
                playback_buffer_s=2.0,
                duration_s=2.0,
            ),
        ],
    ),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
def test_a_run_s_folder_has_the_format(lab: Lab, run: RunSpec) -> None:
    done = lab.run(run)
    results.clean_folder(done.folder)
    results.finish_run_folder(done.folder, 1.0, None)
    assert complaints(done.folder) == []
