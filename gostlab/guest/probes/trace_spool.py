"""Copy what the kernel writes to its trace files into one file of the run."""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

PIECE_BYTES = 1 << 18
# Data are read in batches: a wake-up per line would cost more than the line.
EVERY_S = 0.05


class Spool:
    """Open files that a thread copies into one file until ended. Without files no file is made."""

    def __init__(self, raw: Path, files: Sequence[int], name: str) -> None:
        self._raw, self._files = raw, files
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)

    def start(self) -> None:
        """Start to read, if there are files."""
        if self._files:
            self._thread.start()

    def _read(self) -> None:
        with self._raw.open("wb") as raw:
            while True:
                is_last = self._stop.is_set()
                for file in self._files:
                    with suppress(BlockingIOError):
                        while data := os.read(file, PIECE_BYTES):
                            raw.write(data)
                if is_last:
                    return
                self._stop.wait(EVERY_S)

    def end(self) -> None:
        """Read the rest and stop, if the thread still reads."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
