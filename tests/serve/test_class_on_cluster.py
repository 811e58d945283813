# SPDX-License-Identifier: MIT
"""A class whose questions a cluster's workers answer: `./lab serve --class --dask`."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gostlab.serve.class_file import ClassFile, load_class
from tests.lab_command import run_lab
from tests.offspring import all_gone
from tests.serve.server_process import ServerProcess
from tests.serve.serving import SETTINGS, Client
from tests.serve.test_class import write_class
from tests.skips import require_root_tree

WORKERS = 2
PATIENCE_S = 60.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    pytest.importorskip("distributed", reason="no distributed")
    require_root_tree()
    file = str(write_class(tmp_path))
    started = ServerProcess("--class", file, "--dask", f"local:{WORKERS}")
    yield started
    started.stop()
    assert started.process.returncode == 0
    assert all_gone(PATIENCE_S) == []


def answers_of(server: ServerProcess, course: ClassFile, student: str) -> list[tuple[str, Any]]:
    """All events of a student's question."""
    cookie = f"gostlab-{server.port}-student={course.session(student)}"
    client = Client(server.port, token="", headers={"cookie": cookie})
    settings = {**SETTINGS, "duration": "1s", "rtt": f"{20 + len(student)}ms"}
    asked = client.ask({"settings": settings, "seed": 1, "repeat": 1}, client=student)
    assert asked.status == 202, asked
    return client.events(asked.json["id"])


@pytest.mark.sandbox
@pytest.mark.slow
def test_workers_answer_the_questions_of_several_students_at_once(
    server: ServerProcess, tmp_path: Path
) -> None:
    course = load_class(tmp_path / "class.yaml")
    events: dict[str, list[tuple[str, Any]]] = {}

    def ask(student: str) -> None:
        events[student] = answers_of(server, course, student)

    threads = [threading.Thread(target=ask, args=(name,)) for name in ("ada", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert events.keys() == {"ada", "bob"}
    workers = set()
    for of_student in events.values():
        names = [name for name, _ in of_student]
        assert names[0] == "accepted" and names[-1] == "answer" and "samples" in names
        answer = of_student[-1][1]
        assert answer["runs"] == 1 and answer["verdict"] == "ok", answer
        environment = json.loads((Path(answer["folder"]) / "env.json").read_text("utf-8"))
        workers.add(environment["host"]["worker"])
    assert 1 <= len(workers) <= WORKERS and all(workers)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--dask", "local:1", "--jobs", "2"), "a run per worker"),
        (("--dask", "local:many"), "how many workers"),
        (("--dask", "tcp://192.0.2.1:8786"), "use tls://"),
    ],
)
def test_a_cluster_that_cannot_be_joined_is_refused(
    options: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    file = str(write_class(tmp_path))
    done = run_lab("serve", "--class", file, "--browser", "none", "--port", "0", *options)
    assert done.returncode == 2 and says in done.stderr
