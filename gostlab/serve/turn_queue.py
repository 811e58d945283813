# SPDX-License-Identifier: MIT
"""Execute calls in a few threads so that nobody waits for another's second call.

Turns go in rounds: who has had the fewest is next, and of those who have had as many, who submitted
last. If more is asked than the threads can do, the oldest questions are the next to be overtaken by
newer ones of the same clients: a round that began with them would mostly work in vain.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Call = Callable[[], object]
MAX_REMEMBERED = 1000  # queues, after which the idle ones are forgotten


@dataclass
class ClientQueue:
    """Represent one who asks: the calls that wait, and the round of the next one."""

    calls: deque[Call] = field(default_factory=deque)
    round: int = 0
    submitted: int = 0  # number of the newest call, of all
    active: int = 0


class TurnQueue:
    """Execute calls in rounds; each client has one call at a time.

    A sandbox that waits for its run ends with the thread that booted it: the threads stay.
    """

    def __init__(self, threads: int) -> None:
        self._changed = threading.Condition()
        self._queues: dict[str, ClientQueue] = {}
        self._round = 0  # round of the newest call to begin
        self._submitted = 0
        self._closed = False
        self._threads = [
            threading.Thread(target=self.work, name=f"run {number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, who: str, function: Callable[..., object], *arguments: Any) -> None:
        """Let a call wait for its turn. One that returns False has not used it."""
        with self._changed:
            if not self._closed:
                self.forget_idle()
                queue = self._queues.setdefault(who, ClientQueue())
                if not queue.calls and not queue.active:  # turns that were not used are lost
                    queue.round = max(queue.round, self._round)
                queue.calls.append(lambda: function(*arguments))
                self._submitted += 1
                queue.submitted = self._submitted
                self._changed.notify()

    def shutdown(self) -> None:
        """Execute no other call, and wait for those that go on."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def work(self) -> None:
        while True:
            with self._changed:
                while (queue := self.next_queue()) is None and not self._closed:
                    self._changed.wait()
                if self._closed or queue is None:
                    return
                call = queue.calls.popleft()
                self._round = queue.round
                queue.round += 1
                queue.active += 1
            has_worked = True
            try:
                has_worked = call() is not False
            except Exception:
                traceback.print_exc()  # the thread goes on with the next call
            finally:
                with self._changed:
                    queue.active -= 1
                    if not has_worked:
                        queue.round -= 1
                    self._changed.notify()

    def next_queue(self) -> ClientQueue | None:
        """Return the queue whose turn it is, or None if no call can begin."""
        waiting = [queue for queue in self._queues.values() if queue.calls and not queue.active]
        return min(waiting, key=lambda queue: (queue.round, -queue.submitted), default=None)

    def forget_idle(self) -> None:
        if len(self._queues) > MAX_REMEMBERED:
            busy = {
                who: queue for who, queue in self._queues.items() if queue.calls or queue.active
            }
            self._queues = busy
