"""What the kernel says in files of its own, kept in one of the run."""

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

PIECE_BYTES = 1 << 18
# In lumps: to be woken at every line would cost more than the line.
EVERY_S = 0.05


class Spool:
    """Files that are open, read by a thread into one until ended. Of none it makes none."""

    def __init__(self, raw: Path, files: Sequence[int], name: str) -> None:
        self._raw, self._files = raw, files
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)

    def start(self) -> None:
        """Begin to read, if there is anything to."""
        if self._files:
            self._thread.start()

    def _read(self) -> None:
        with self._raw.open("wb") as raw:
            while True:
                last = self._stop.is_set()
                for file in self._files:
                    with suppress(BlockingIOError):
                        while piece := os.read(file, PIECE_BYTES):
                            raw.write(piece)
                if last:
                    return
                self._stop.wait(EVERY_S)

    def end(self) -> None:
        """Read what is left, and stop, if it still reads."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
