# SPDX-License-Identifier: MIT
"""The thread that works for a pool, and the processes that end with it."""

from __future__ import annotations

import threading
from weakref import WeakMethod

from gostlab.sandbox.pool_thread import PoolThread

PATIENCE_S = 60.0


class Worker:
    """Count the calls of a thread, as a pool is called."""

    def __init__(self, again_s: float | None = None) -> None:
        self.again_s, self.calls, self.is_needed = again_s, 0, threading.Event()
        self.called_twice, self.threads = threading.Event(), set[threading.Thread]()
        self.thread = PoolThread(WeakMethod(self.work), self.is_needed.is_set)

    def work(self) -> float | None:
        self.calls += 1
        self.threads.add(threading.current_thread())
        if self.calls == 2:
            self.called_twice.set()
        if self.calls == 1 and self.again_s is None:
            raise ValueError("a bug")
        return self.again_s


def test_it_starts_with_the_first_order_and_outlives_an_error() -> None:
    worker = Worker()
    assert worker.threads == set()
    for _ in range(2):
        worker.thread.order()
        worker.thread.wait()
    assert worker.calls == 2 and len(worker.threads) == 1
    worker.thread.stop()


def test_it_works_without_an_order_after_the_time_that_was_returned() -> None:
    worker = Worker(again_s=0.01)
    worker.thread.order()
    assert worker.called_twice.wait(PATIENCE_S)
    worker.thread.stop()


def test_once_stopped_it_does_nothing_and_lives_on_while_its_processes_do() -> None:
    worker = Worker()
    worker.thread.order()
    worker.thread.wait()
    [thread] = worker.threads
    worker.is_needed.set()

    worker.thread.stop()
    worker.thread.order()
    worker.thread.wait()

    assert worker.calls == 1 and thread.is_alive()
    worker.is_needed.clear()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_it_ends_when_its_object_is_gone() -> None:
    worker = Worker(again_s=0.01)
    worker.thread.order()
    worker.thread.wait()
    [thread] = worker.threads
    del worker
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_none_is_started_to_be_stopped() -> None:
    worker = Worker()
    worker.thread.stop()
    assert worker.threads == set()
