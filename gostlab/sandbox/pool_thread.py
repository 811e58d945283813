# SPDX-License-Identifier: MIT
"""Work for an object in a thread of its own, which outlives the processes that it has started.

A sandbox ends with the thread that booted it (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from weakref import WeakMethod

MAX_STOP_S = 15.0  # a copy or a boot that has begun takes less
LINGER_S = 0.2  # interval between two looks at the processes that still run


class PoolThread:
    """A daemon thread that calls a method at each order, or after the time that it has returned.

    It ends when the method's object is gone, or by `stop`. In a forked process there is none.
    """

    def __init__(
        self, work: WeakMethod[Callable[[], float | None]], is_needed: Callable[[], bool]
    ) -> None:
        """Start nothing before the first order.

        work       returns after how many seconds it is called without an order; None: never
        is_needed  whether a process still runs that the thread may have started
        """
        self._work, self._is_needed = work, is_needed
        self._changed = threading.Condition()
        self._ordered = self._done = 0
        self._is_stopped = self._has_left = False
        self._thread: threading.Thread | None = None

    def order(self) -> None:
        """Let the method be called soon."""
        with self._changed:
            if self._thread is None and not self._is_stopped:
                self._thread = threading.Thread(target=self._run, name="standby", daemon=True)
                self._thread.start()
            self._ordered += 1
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait until the orders up to now are carried out, or the thread was stopped."""
        with self._changed:
            ordered = self._ordered
            self._changed.wait_for(
                lambda: self._done >= ordered or self._is_stopped or self._has_left
            )

    def stop(self) -> None:
        """Let the method be called no more, and wait until it has returned."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
            if self._thread not in (None, threading.current_thread()):
                self._changed.wait_for(lambda: self._has_left, MAX_STOP_S)

    def _run(self) -> None:
        timeout_s: float | None = None
        while (number := self._next_order(timeout_s)) is not None:
            work = self._work()
            if work is None:
                break
            try:
                timeout_s = work()
            except Exception:
                traceback.print_exc()  # a guest of this thread would end with it
                timeout_s = None
            del work  # the object may go
            with self._changed:
                self._done = number
                self._changed.notify_all()
        with self._changed:
            self._has_left = True
            self._changed.notify_all()
        while self._is_needed():
            time.sleep(LINGER_S)

    def _next_order(self, timeout_s: float | None) -> int | None:
        """Return the number of the last order, once there is a new one or the time has passed.

        None: the thread was stopped.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._ordered > self._done or self._is_stopped, timeout_s
            )
            return None if self._is_stopped else self._ordered
