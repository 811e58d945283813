# SPDX-License-Identifier: MIT
"""A server of the page for tests, and requests to it as a program sends them."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gostlab.scheduler.executor import RunObserver, run_folder
from gostlab.serve import run_pool
from gostlab.serve.class_work import ClassWork
from gostlab.serve.question_parser import AskedQuestion, parse_question
from gostlab.serve.run_pool import RunPool

TOKEN = "a-token-of-thirty-two-characters-"
SETTINGS = {
    "profile": "plain-100ms",
    "topology": "dumbbell",
    "duration": "10s",
    "sample": "50ms",
    "rate": "10mbit",
    "rtt": "40ms",
    "buffer": "2bdp",
    "flows": "{a: {cc: cubic}, b: {cc: bbr}}",
}


def asked(repeat: int = 1, seed: int = 1, **settings: str) -> AskedQuestion:
    """A question of the page, parsed."""
    body = {"settings": {**SETTINGS, **settings}, "repeat": repeat, "seed": seed}
    return parse_question(body)


@dataclass
class Answered:
    """What the server said to a request."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass
class Client:
    """Send requests to a server on this machine."""

    port: int
    token: str = TOKEN
    headers: dict[str, str] = field(default_factory=dict)

    def send(
        self, method: str, path: str, body: bytes | str | None = None, **headers: str
    ) -> Answered:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        cookie = {"cookie": f"gostlab-{self.port}={self.token}"} if self.token else {}
        try:
            connection.request(method, path, body, {**cookie, **self.headers, **named})
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, text)
        finally:
            connection.close()

    def ask(self, body: object, client: str = "tab") -> Answered:
        sent = body if isinstance(body, str | bytes) else json.dumps(body)
        kind = "application/json"
        return self.send("POST", "/runs", sent, content_type=kind, x_gostlab_client=client)

    def events(self, run_id: str, after: int | None = None) -> list[tuple[str, Any]]:
        """All events of a run, up to its last."""
        last = {} if after is None else {"last_event_id": str(after)}
        answer = self.send("GET", f"/runs/{run_id}/events", **last)
        assert answer.status == 200, answer
        found = []
        for block in answer.text.split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
            if "event" in lines:
                found.append((lines["event"], json.loads(lines["data"])))
        return found


@contextmanager
def serving(pool: RunPool, work: ClassWork | None = None) -> Iterator[Client]:
    """A server in a thread of this process."""
    from gostlab.serve import app, http_server, serve_cli

    with serve_cli.open_socket(0) as listening:
        port = listening.getsockname()[1]
        started = threading.Event()
        server = http_server.make_server(app.make_app(pool, TOKEN, port, work), started.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        assert started.wait(60)
        try:
            yield Client(port)
        finally:
            server.should_exit = True
            thread.join(30)


class StandInRunning:
    """Take the place of runs that execute: it writes samples until it is told to end."""

    def __init__(self, question: AskedQuestion, folder: Path, progress: RunObserver) -> None:
        self.question, self.folder, self.progress = question, folder, progress
        self.cancelled, self.go_on = threading.Event(), threading.Event()

    def __enter__(self) -> StandInRunning:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def cancel(self) -> None:
        self.cancelled.set()
        self.go_on.set()

    def wait(self) -> Any:
        run = self.question.run
        target = run_folder(run, self.folder)
        target.mkdir(parents=True)
        row = {"role": "bottleneck", "direction": "forward", "backlog_bytes": 1250, "drops": 0}
        with (target / "queues.jsonl").open("w") as file:
            print(json.dumps({"t_s": 0.05, **row}), file=file)
        self.progress.started(run)
        assert self.go_on.wait(60)
        return type("Outcome", (), {"in_order": []})


@dataclass(frozen=True)
class StandInExperiment:
    """Take the place of an experiment; `made` has what was started."""

    question: AskedQuestion
    made: list[StandInRunning]

    @property
    def runs(self) -> Any:
        return self.question.experiment.runs

    @property
    def warned(self) -> Any:
        return ()

    def run(self, folder: Path, *, jobs: int, progress: RunObserver) -> StandInRunning:
        self.made.append(StandInRunning(self.question, folder, progress))
        return self.made[-1]


def without_sandbox(question: AskedQuestion, made: list[StandInRunning]) -> AskedQuestion:
    """A question whose runs are stand-ins."""
    stand_in: Any = StandInExperiment(question, made)
    return replace(question, experiment=stand_in)


ANSWER = {"sentence": "It was asked.", "verdict": "ok", "reasons": [], "runs": 1, "flows": []}


def answer_without_results(monkeypatch: Any) -> None:
    """Let stand-ins' folders, which have no results, be an answer."""
    monkeypatch.setattr(run_pool, "answer_of", lambda ends, tunnel: dict(ANSWER))
    monkeypatch.setattr(RunPool, "require_parts", lambda self, question: None)
    monkeypatch.setattr(RunPool, "run_in_lab", run_stand_in)


def run_stand_in(pool: RunPool, experiment: Any, observer: RunObserver) -> Any:
    return experiment.run(pool.folder, jobs=1, progress=observer)
