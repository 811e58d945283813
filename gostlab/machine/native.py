"""The host's own kernel, as root: the same run in the host's network namespaces.

Everything is in namespaces that Mininet's shells hold, so that it ends with them. One run at a time: runs
share the CPUs and, on the real clock, would disturb each other.
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gostlab.experiment import RunDescription
from gostlab.machine import CHECKOUT, run_argv, wall_limit_s


class NativeRun:
    """A run in a process group of its own."""

    def __init__(self, process: subprocess.Popen[bytes], limit_s: float) -> None:
        self._process = process
        self._limit_s = limit_s
        self._deadline = time.monotonic() + limit_s
        self.complaint: str | None = None

    def poll(self) -> int | None:
        """The process's exit status; None while it runs. Past its wall-clock limit it is ended."""
        status = self._process.poll()
        if status is None and time.monotonic() > self._deadline:
            self.complaint = f"ended after {self._limit_s:.0f} s by the wall clock, its limit"
            self.kill()
            return self._process.returncode
        return status

    def kill(self) -> None:
        """End the run: the PID namespace's first process goes, and with it every other in it."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self._process.kill()
        self._process.wait()


def start_run(run: RunDescription, folder: Path, parts: Mapping[str, Any], commit: str | None) -> NativeRun:
    """Start a run on this kernel. Raises OSError.

    `unshare --pid --kill-child` makes everything that the run starts end with it, whatever ends it: Mininet's
    shells would outlive a killed parent otherwise, and hold their namespaces.
    """
    from gostlab.machine.sandbox import host_facts
    (folder / "parts.json").write_text(json.dumps(dict(parts)), encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": str(CHECKOUT), "GOSTLAB_COMMIT": json.dumps(commit),
               "GOSTLAB_HOST": json.dumps(host_facts())}
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--mount", "--mount-proc", "--fork",
             "--kill-child=KILL", *run_argv(str(folder))],
            env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
    return NativeRun(process, wall_limit_s(run))
