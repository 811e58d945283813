# SPDX-License-Identifier: MIT
"""Runs whose samples another run of their cell has are copies, and count once."""

import json
from pathlib import Path

from gostlab.results.duplicate_runs import copies, samples_digest


def sampled(folder: Path, *ports: int, srtt_ms: float = 40.0, queued: int = 3) -> Path:
    """A run's samples: sockets at these ports, and a queue."""
    folder.mkdir()
    sockets = [{"local": f"10.0.1.1:{port}", "peer": "10.0.4.2:80", "t_s": 1.0} for port in ports]
    for name, rows in {
        "sockets": [{**row, "srtt_ms": srtt_ms + index} for index, row in enumerate(sockets)],
        "queues": [{"t_s": 1.0, "backlog_pkts": queued}],
    }.items():
        text = "".join(f"{json.dumps(row, sort_keys=True)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


def test_ports_and_the_order_of_sockets_do_not_tell_runs_apart(tmp_path: Path) -> None:
    one, other = sampled(tmp_path / "one", 4000, 5000), sampled(tmp_path / "other", 7000, 6000)
    rows = (other / "sockets.jsonl").read_text("utf-8").splitlines(keepends=True)
    (other / "sockets.jsonl").write_text("".join(reversed(rows)), encoding="utf-8")

    assert samples_digest(one) == samples_digest(other)


def test_a_copy_has_the_goodput_and_every_sample_of_an_earlier_run(tmp_path: Path) -> None:
    first = sampled(tmp_path / "first", 4000)
    copy = sampled(tmp_path / "copy", 5000)
    faster = sampled(tmp_path / "faster", 4000)
    slower = sampled(tmp_path / "slower", 4000, srtt_ms=41.0)
    fuller = sampled(tmp_path / "fuller", 4000, queued=4)

    runs = [(first, 1e6), (copy, 1e6), (faster, 2e6), (slower, 1e6), (fuller, 1e6)]

    assert copies(runs) == {copy}


def test_runs_without_samples_are_no_copies(tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
        (folder / "queues.jsonl").touch()

    assert copies([(folder, None) for folder in folders]) == frozenset()
