# SPDX-License-Identifier: MIT
"""Measure a Dask scheduler's overhead per run by empty runs on workers of this machine."""

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from gostlab import results
from gostlab.cluster import dask_cluster, worker
from gostlab.scheduler import executor
from gostlab.spec.expand import single_run

WORKERS = 4
STUBS = 10_000
STUB_IDENTITY = worker.Identity("here", "any", "stub", "stub", None, {}, "stub")


def identify(_gost: str | None) -> dict[str, Any]:
    """Return the identity of a worker that needs no installed lab."""
    return asdict(STUB_IDENTITY)


def make_nothing(
    values: Mapping[str, Any],
    _place: str,
    _gost: str | None,
    _name: str,
    _wanted: Callable[[], bool],
) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        results.write_json(folder / "run.json", values)
        (folder / "outcome.json").write_text('{"outcome": "ok", "error": null, "guest_s": 0}')
        results.finish_run_folder(folder, 0.0, None)
        return {"complaint": None, "files": worker.read_files(folder)}


def overhead_ms() -> float:
    """Return the wall time per empty run on ready workers, ms. Raises MachineError."""
    import distributed

    base = single_run(
        profile="plain-100ms", cc="cubic", machine="sandbox", clock="virtual", overrides={}
    )
    runs = [replace(base, repetition=number) for number in range(1, STUBS + 1)]
    with (
        tempfile.TemporaryDirectory(prefix="gostlab-bench-") as scratch,
        dask_cluster.local_cluster(distributed, WORKERS) as daemon,
        distributed.Client(daemon, set_as_default=False) as client,
    ):
        cluster = dask_cluster.Cluster(
            client, STUB_IDENTITY, None, print, identify=identify, make=make_nothing
        )
        dask_cluster.wait_for_workers(cluster, f"local:{WORKERS}", WORKERS)
        began = time.monotonic()
        ends = executor.run_all(
            runs, Path(scratch), cluster, cluster.start, executor.RunObserver(), beside=True
        )
        spent_s = time.monotonic() - began
    if any(end.outcome != "ok" for end in ends):
        raise RuntimeError("a stub of the benchmark failed")
    return 1000 * spent_s / STUBS
