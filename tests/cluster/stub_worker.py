# SPDX-License-Identifier: MIT
"""What a worker of the tests does in place of a run. Workers import it by its name."""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gostlab import results
from gostlab.cluster import worker

Wanted = Callable[[], bool]
Answer = dict[str, Any]


def identify(_gost: str | None) -> dict[str, Any]:
    return {
        "host": "here",
        "cpu": "a CPU",
        "lab": "lab",
        "kernel": "kernel",
        "tunnel": "tunnel",
        "iperf3": {"3.18": "x"},
        "root": "root",
    }


def identify_another(gost: str | None) -> dict[str, Any]:
    return {**identify(gost), "lab": "another"}


def fill(folder: Path, values: Mapping[str, Any], name: str, goodput: float) -> None:
    """A run's folder, as `exec` leaves it."""
    folder.mkdir()
    results.write_json(folder / "run.json", values)
    results.write_json(folder / "env.json", {"worker": name})
    results.write_json(folder / "flows.json", {"flows": [{"goodput_bps": goodput}]})
    results.write_json(folder / "outcome.json", {"outcome": "ok", "error": None, "guest_s": 1.0})
    results.finish_run_folder(folder, 0.1, None)


def make(values: Mapping[str, Any], _place: str, _gost: str | None, name: str, _: Wanted) -> Answer:
    with tempfile.TemporaryDirectory() as scratch:
        fill(Path(scratch, "made"), values, name, 1e6 + values["repetition"])
        return {"complaint": None, "files": worker.read_files(Path(scratch, "made"))}


def make_slowly(values: Mapping[str, Any], *rest: Any) -> Answer:
    time.sleep(0.5)
    return make(values, *rest)


def make_differently(values: Mapping[str, Any], place: str, *rest: Any) -> Answer:
    return make({**values, "repetition": os.getpid()}, place, *rest)


def make_shared(
    values: Mapping[str, Any], place: str, _gost: str | None, name: str, _: Wanted
) -> Answer:
    assert results.read_object(Path(place) / "run.json") == values
    fill(Path(place) / worker.RUN_FOLDER, values, name, 1e6)
    return {"complaint": None, "files": None}


def refuse(*_: Any) -> Answer:
    return {"complaint": "too little memory"}
