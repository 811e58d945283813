# SPDX-License-Identifier: MIT
"""`./lab serve` as a process, which goes and comes back at the same port."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class ServerProcess:
    """Start the server with some options, stop it, and start it again."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self.port, self.origin, self.token = 0, "", ""
        self.start()

    def start(self) -> None:
        argv = [sys.executable, "-m", "gostlab", "serve", "--port", str(self.port)]
        argv += ["--browser", "none", *self._options]
        self.process = subprocess.Popen(
            argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        address = re.fullmatch(r"open (http://127\.0\.0\.1:(\d+))/\w*\?(token=\S+)\n", line)
        assert address is not None, line
        self.origin, self.port, self.token = address[1], int(address[2]), address[3]

    @property
    def address(self) -> str:
        return f"{self.origin}/?{self.token}&"

    def stop(self, by: int = signal.SIGINT) -> str:
        self.process.send_signal(by)
        return self.process.communicate(timeout=60)[1]
