# SPDX-License-Identifier: MIT
"""Execute the page's questions, and keep their events for whoever listens.

A question that is being answered is shared by all who ask it. A client's newer question cancels the
older one, unless another client listens to that, or, in a class, it is nearly answered: a run that
others waited for is not thrown away for the little that it lacks.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TypedDict

from gostlab import api, results
from gostlab.errors import BadInput, Complaint
from gostlab.results.run_result import RunResult
from gostlab.scheduler.executor import RunObserver, read_result, run_folder
from gostlab.serve.answers import answer_of
from gostlab.serve.curves import RunCurves
from gostlab.serve.question_parser import AskedQuestion, setting_named
from gostlab.serve.sentences import labels_of
from gostlab.serve.turn_queue import TurnQueue
from gostlab.spec.run_spec import RunSpec

# Interval between two reads of a run's samples; while others go on, from the first sample on.
TAIL_INTERVAL_S, SHARED_TAIL_INTERVAL_S = 0.025, 0.15
KEEP_ALIVE_S = 15.0
MAX_WALL_S = 120.0  # one question; a sandbox has one CPU, so this bounds its CPU seconds too
NEARLY_DONE = 0.75  # share of a run's load
ABANDONED_S = 20.0  # without a listener, after which a run is cancelled
READERS = 2  # threads that read finished runs
MAX_ACTIVE = 16  # questions of one who asks that run or wait
MAX_KEPT = 64  # ended questions whose events are kept
LAST_EVENTS = ("answer", "refused", "cancelled")
FRAME_BYTES = 1514  # a full packet on the wire

Event = tuple[str, dict[str, object]]  # its name and its data


class TooManyWaiting(Complaint):
    """Report that too many questions wait."""


@dataclass(eq=False)
class ServedRun:
    """Represent a question that was asked, with the events so far."""

    id: str
    question: AskedQuestion
    who: str = ""  # student of a class, or ""
    clients: set[str] = field(default_factory=set)
    events: list[Event] = field(default_factory=list)
    ended: bool = False
    cancelled: bool = False
    seen_s: float = 0.0
    heard_s: float = field(default_factory=time.monotonic)  # when somebody last listened
    running: api.Running | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    def publish(self, name: str, data: dict[str, object]) -> None:
        """Add an event and wake all listeners; events after the last one are dropped."""
        with self._lock:
            if self.ended:
                return
            self.events.append((name, data))
            self.ended = name in LAST_EVENTS
            listeners = list(self._listeners)
        for loop, event in listeners:
            loop.call_soon_threadsafe(event.set)

    def cancel(self) -> None:
        """Cancel the question, from any thread."""
        self.cancelled = True
        if self.running is not None:
            self.running.cancel()
        self.publish("cancelled", {"t_s": self.seen_s})

    def has_ended(self) -> bool:
        """Return whether the last event was published, maybe by another thread just now."""
        return self.ended

    @property
    def is_nearly_done(self) -> bool:
        """Return whether the only run of this question has had most of its load."""
        return (
            self.question.question.repetitions == 1
            and self.seen_s >= NEARLY_DONE * self.question.run.length_s
        )

    @property
    def has_listener(self) -> bool:
        return bool(self._listeners)

    async def follow(self, first: int = 0) -> AsyncIterator[tuple[int, Event] | None]:
        """Yield the events from a number on, and None if there was none for a while."""
        wake = asyncio.Event()
        listener = (asyncio.get_running_loop(), wake)
        with self._lock:
            self._listeners.add(listener)
        try:
            at = max(0, first)
            while True:
                wake.clear()
                while at < len(self.events):
                    yield at, self.events[at]
                    at += 1
                if self.ended and at >= len(self.events):
                    return
                try:
                    await asyncio.wait_for(wake.wait(), KEEP_ALIVE_S)
                except TimeoutError:
                    yield None
        finally:
            with self._lock:
                self._listeners.discard(listener)
            self.heard_s = time.monotonic()


class CurveObserver(RunObserver):
    """Publish the samples of active runs."""

    def __init__(self, served: ServedRun, folder: Path) -> None:
        self._served, self._folder = served, folder
        self._curves: dict[str, RunCurves] = {}
        self._lock = threading.Lock()

    def planned(self, runs: Sequence[RunSpec], done: Sequence[RunResult]) -> None:  # noqa: ARG002
        for end in done:  # repetitions of an earlier question
            self.publish(RunCurves(end.run, end.folder), ended=True)

    def started(self, run: RunSpec) -> None:
        with self._lock:
            self._curves[run.name] = RunCurves(run, run_folder(run, self._folder))

    def finished(self, done: RunResult, left_s: float) -> None:  # noqa: ARG002
        with self._lock:
            curves = self._curves.pop(done.run.name, None)
            if curves is not None:
                self.publish(curves, ended=True)

    def read_active(self) -> None:
        """Publish what the active runs have written since the last call."""
        with self._lock:
            for curves in self._curves.values():
                self.publish(curves)

    def publish(self, curves: RunCurves, *, ended: bool = False) -> None:
        if points := curves.read(ended=ended):
            self._served.seen_s = curves.seen_s
            self._served.publish("samples", {"rep": curves.run.repetition, **points})


class RunMachines(TypedDict, total=False):
    """Represent on what runs execute: a cluster's workers, or sandboxes of this machine."""

    workers: api.Gathered
    kept: api.PartsAndStandby


class RunPool:
    """Execute questions in a results folder, as many in parallel as there are slots.

    keeps_results: whether the results of questions stay when their events are forgotten.
    workers: a cluster's, which execute the runs in place of this machine's sandboxes. Their samples
    come when a run has ended.
    """

    def __init__(
        self,
        folder: Path,
        slots: int,
        *,
        keeps_results: bool = True,
        workers: api.Gathered | None = None,
    ) -> None:
        self.folder = folder
        self._workers = workers
        self.queue = TurnQueue(slots)
        self._slot_count = slots
        self._keeps_results = keeps_results
        self._readers = ThreadPoolExecutor(READERS, "read")
        self._lock = threading.Lock()
        self._lab: api.Lab | None = None
        self._lab_lock = threading.Lock()
        self._runs: OrderedDict[str, ServedRun] = OrderedDict()
        self._provided: set[tuple[object, ...]] = set()
        self._closed = False

    def get(self, run_id: str) -> ServedRun | None:
        return self._runs.get(run_id)

    def ask(self, question: AskedQuestion, client: str, who: str = "") -> ServedRun:
        """Return the run that answers a question, begun unless it is there.

        who: whose turn it takes; "": the question's own. Raises Busy.
        """
        with self._lock:
            same = self.find(question.key)
            for run in self._runs.values():
                if client in run.clients and run is not same:
                    run.clients.discard(client)
                    if not run.ended and not run.clients and not (who and run.is_nearly_done):
                        run.cancel()
            if same is not None:
                same.clients.add(client)
                self._runs.move_to_end(same.id)
                return same
            active = sum(not run.ended and run.who == who for run in self._runs.values())
            if self._closed or active >= MAX_ACTIVE:
                raise TooManyWaiting("too many questions at once: ask again in a moment")
            run = ServedRun(secrets.token_urlsafe(9), question, who, {client})
            self._runs[run.id] = run
            for old in [old for old in self._runs.values() if old.ended][:-MAX_KEPT]:
                del self._runs[old.id]
                if not self._keeps_results:
                    self._readers.submit(self.remove_results, old.question.question.name)
            self._readers.submit(self.step, run, self.accept)
        return run

    def is_shared(self) -> bool:
        """Return whether more than one question is being answered, or waits."""
        return sum(not run.ended for run in list(self._runs.values())) > 1

    def find(self, key: str) -> ServedRun | None:
        """Return a question's run that goes on or has an answer."""
        for run in reversed(self._runs.values()):
            if run.question.key == key and not run.cancelled:
                last = run.events[-1][0] if run.events else ""
                if last != "refused":
                    return run
        return None

    def cancel(self, run_id: str, client: str) -> None:
        """Cancel a client's run, unless another client listens to it."""
        run = self._runs.get(run_id)
        if run is not None and client in run.clients:
            run.clients.discard(client)
            if not run.clients:
                run.cancel()

    def close(self) -> None:
        """Cancel all runs and wait for their sandboxes to end."""
        with self._lock:
            self._closed = True
            active = [run for run in self._runs.values() if not run.ended]
        for run in active:
            run.cancel()
        self._readers.shutdown()
        self.queue.shutdown()
        if self._lab is not None:
            self._lab.close()

    def remove_results(self, name: str) -> None:
        """Remove the results of a question that nobody has asked lately."""
        with self._lock:
            if all(run.question.question.name != name for run in self._runs.values()):
                shutil.rmtree(self.folder / name, ignore_errors=True)

    def warm_up(self) -> None:
        """Boot a sandbox for the first question, and import what reads its results."""
        if self._workers is None:
            self.queue.submit("", self.open_lab)
        self._readers.submit(import_readers)

    # -- in other threads

    def step(self, run: ServedRun, work: Callable[[ServedRun], object]) -> object:
        """Work on a question; if that fails, this is the question's last event."""
        try:
            return work(run)
        except Complaint as error:
            run.publish("refused", {"key": setting_named(str(error)), "text": str(error)})
        except OSError as error:
            text = f"{error.filename or 'the system'}: {error.strerror or error}"
            run.publish("refused", {"key": None, "text": text})
        except Exception as error:
            run.publish("refused", {"key": None, "text": f"the lab failed: {type(error).__name__}"})
            raise
        return None

    def accept(self, run: ServedRun) -> None:
        """Publish the answer of finished runs, or let a runner execute the missing ones."""
        question = run.question
        run.publish("accepted", accepted_json(run.id, question, self.folder))
        runs = question.experiment.runs
        settled = all(
            results.is_settled(run_folder(one, self.folder), one, retry_failed=False)
            for one in runs
        )
        if not settled:
            self.require_parts(question)
            self.queue.submit(run.who or run.id, self.step, run, self.execute)
            return
        ends = [read_result(one, self.folder) for one in runs]
        CurveObserver(run, self.folder).planned(runs, ends)
        self.answer(run, ends, kept=True)

    def answer(self, run: ServedRun, ends: Sequence[RunResult], *, kept: bool) -> None:
        tunnel = run.question.run.tunnel
        answer = answer_of(ends, None if tunnel == "direct" else tunnel)
        run.publish("answer", {**answer, "kept": kept})

    def require_parts(self, question: AskedQuestion) -> None:
        """Reject a question that needs a part that is not here; a page builds nothing."""
        run = question.run
        kinds = tuple(sorted({flow.traffic_type for flow in run.flows}))
        needed = (run.kernel, run.tunnel, run.gost, run.iperf3, kinds)
        if needed in self._provided:
            return
        missing = api.missing_parts([run], jobs=1)
        if missing.any:
            command = f"{question.exports()['command']} brings it"
            raise BadInput(f"{missing.names_line}: not there yet: {command:.400}")
        self._provided.add(needed)

    def execute(self, run: ServedRun) -> bool:
        """Execute the missing runs, and publish the answer of all; False: it was cancelled."""
        if run.has_ended():
            return False
        observer = CurveObserver(run, self.folder)
        run.running = self.run_in_lab(run.question.experiment, observer)
        done = threading.Event()
        args = (run, observer, done, self.is_shared)
        tail = threading.Thread(target=follow_samples, args=args, daemon=True)
        tail.start()
        try:
            with run.running as running:
                if run.has_ended():
                    running.cancel()
                ends = running.wait().in_order
        finally:
            done.set()
            tail.join()
        if not (run.cancelled or run.has_ended()):  # `cancel` publishes last
            self.answer(run, ends, kept=False)
        return True

    def run_in_lab(self, experiment: api.Experiment, observer: RunObserver) -> api.Running:
        """Begin an experiment's runs, in sandboxes that have booted if there are some."""
        jobs = min(self._slot_count, len(experiment.runs))
        return experiment.run(self.folder, jobs=jobs, progress=observer, **self.machines())

    def machines(self) -> RunMachines:
        """Return on what runs execute, as Experiment.run takes it. Raises what `api.Lab` does."""
        if self._workers is not None:
            return {"workers": self._workers}
        return {"kept": self.open_lab().kept}

    def open_lab(self) -> api.Lab:
        """Return the lab that keeps sandboxes booted. Raises MissingPart, MachineError."""
        with self._lab_lock:
            if self._lab is None:
                self._lab = api.Lab(self.folder, jobs=1)
            return self._lab


def import_readers() -> None:
    """Import what reads results, so that the first answer does not wait for it."""
    for name in ("numpy", "gostlab.analysis.load.series", "gostlab.analysis.stats.coexistence"):
        import_module(name)


def follow_samples(
    run: ServedRun, observer: CurveObserver, done: threading.Event, is_shared: Callable[[], bool]
) -> None:
    """Publish samples until a run is done; cancel it if nobody listens, or it takes too long."""
    began_s = time.monotonic()
    while not done.wait(
        SHARED_TAIL_INTERVAL_S if run.seen_s > 0 and is_shared() else TAIL_INTERVAL_S
    ):
        observer.read_active()
        now_s = time.monotonic()
        if now_s - began_s > MAX_WALL_S:
            text = f"it took longer than {MAX_WALL_S:g} s here, and was ended (./lab try has time)"
            run.publish("refused", {"key": None, "text": text})
            run.cancel()
        elif not run.has_listener and now_s - run.heard_s > ABANDONED_S:
            run.cancel()


def accepted_json(run_id: str, question: AskedQuestion, folder: Path) -> dict[str, object]:
    """Return what the page needs to know of a question before its first sample."""
    run = question.run
    direction = run.path[run.data_direction]
    rate_bps, labels = direction.rate_bps, labels_of(run.flows, run.cc)
    rtt_ms = min(flow.rtt_ms for flow in run.flows)
    steps = [(0.0, rate_bps), *run.rate_changes("", run.data_direction)]
    return {
        "id": run_id,
        "name": question.question.name,
        "folder": str(folder / question.question.name),
        "rate_mbit": rate_bps / 1e6 if rate_bps else None,
        "rate_steps": [[at_s, bps / 1e6] for at_s, bps in steps if bps],
        "rtt_ms": rtt_ms,
        "loss_percent": 0 if direction.loss.is_lossless else None,
        "limit_pkts": direction.buffer_pkts,
        "full_ms": full_queue_ms(direction.buffer_pkts, rate_bps, run.mtu),
        "bdp_pkts": rate_bps * rtt_ms / 8000 / run.mtu if rate_bps else None,
        "length_s": run.length_s,
        "sample_ms": run.sample_ms,
        "repetitions": question.question.repetitions,
        "seed": question.question.seed,
        "warnings": [warning.line for warning in question.experiment.warned],
        "flows": [
            {
                "name": flow.name,
                "label": labels[flow.name],
                "kind": flow.traffic_type,
                "cc": (flow.cc or run.cc) if flow.is_tcp else None,
                "start_s": flow.start_s,
            }
            for flow in run.flows
        ],
        "exports": question.exports(),
    }


def full_queue_ms(limit_pkts: int | None, rate_bps: int | None, mtu: int) -> float | None:
    """Return how long the last packet of a full queue waits, in ms."""
    if not limit_pkts or not rate_bps:
        return None
    frame_bytes = FRAME_BYTES - 1500 + mtu
    return 8000 * limit_pkts * frame_bytes / rate_bps
