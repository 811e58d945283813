# SPDX-License-Identifier: MIT
"""Load a served class: students who each turn a knob again and again.

    python3 -m tools.bench.class_load [--students 30] [--every 5] [--for 60] [--jobs 2]

With --kill the server is killed in the middle, and started again. Each student does as the page
does: asks, follows the events, gives up an answer when the next question is due, and asks again if
the server went away. A wait is from a question to its whole answer, or, if the student asked
another before that came, to the answer of the first later question that was answered: no question
is left out. A question is lost if no answer came to it or to a later one of its student, and it was
not refused.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from gostlab.sandbox import children_cpu_s
from gostlab.serve.class_file import ClassFile, load_class
from tools.bench.harness import Bench
from tools.bench.metrics import BenchMetric, print_metric
from tools.bench.page_answers import KNOBS, start_server, try_s

STUDENTS, EVERY_S, FOR_S = 30, 5.0, 60.0
LAST_S = 60.0  # after the last questions, until their answers
RATES = ("5", "8", "12", "20")
RETRY_S = 0.2


@dataclass
class Tally:
    """Count what happened to the questions of all students."""

    waits_s: list[float] = field(default_factory=list)
    answered: int = 0
    first_s: list[float] = field(default_factory=list)
    overtaken: int = 0  # questions that were given up for the next one
    cpu_s: float = 0.0  # CPU time that server and sandboxes used
    refused: list[str] = field(default_factory=list)
    lost: int = 0
    again: int = 0  # asked again, as the server had gone away


@dataclass
class StudentLoad:
    """One student's page."""

    number: int
    port: int
    cookie: str
    tally: Tally
    waiting_s: list[float] = field(default_factory=list)  # when unanswered questions were asked

    def turn_knobs(self, every_s: float, for_s: float) -> None:
        began_s = time.monotonic() + self.number * every_s / STUDENTS
        for count in range(int(for_s / every_s)):
            time.sleep(max(0.0, began_s + count * every_s - time.monotonic()))
            is_last = count + 1 == int(for_s / every_s)
            due_s = time.monotonic() + (LAST_S if is_last else every_s)
            self.ask(count, due_s)
        self.tally.lost += len(self.waiting_s)

    def ask(self, count: int, due_s: float) -> None:
        asked_s = time.monotonic()
        rate = f"{RATES[count % len(RATES)]}mbit"
        settings = {**KNOBS, "rate": rate, "rtt": f"{20 + self.number}ms"}
        body = json.dumps({"settings": settings, "seed": 1 + count, "repeat": 1})
        self.waiting_s.append(asked_s)
        while time.monotonic() < due_s:
            try:
                if self.is_answered(body, asked_s, due_s):
                    self.waiting_s.clear()
                    return
                break
            except (OSError, http.client.HTTPException):
                self.tally.again += 1
                time.sleep(RETRY_S)
        self.tally.overtaken += due_s - asked_s < LAST_S

    def is_answered(self, body: str, asked_s: float, due_s: float) -> bool:
        """Return whether a question was answered, or refused, before the next one is due.

        Raises OSError, HTTPException.
        """
        status, text = self.send("POST", "/runs", body, 10.0)
        if status == 429:
            raise OSError("busy")
        if status != 202:
            self.tally.refused.append(text)
            return True
        connection = self.connection(max(0.1, due_s - time.monotonic()))
        try:
            headers = {"cookie": self.cookie}
            connection.request("GET", f"/runs/{json.loads(text)['id']}/events", headers=headers)
            answer, has_samples = connection.getresponse(), False
            while line := answer.readline():
                if line == b"event: samples\n" and not has_samples:
                    has_samples = True
                    self.tally.first_s.append(time.monotonic() - asked_s)
                elif line == b"event: answer\n":
                    now_s = time.monotonic()
                    self.tally.answered += 1
                    self.tally.waits_s += [now_s - before_s for before_s in self.waiting_s]
                    return True
                elif line in (b"event: refused\n", b"event: cancelled\n"):
                    self.tally.refused.append(answer.readline().decode())
                    return True
        except TimeoutError:
            return False
        finally:
            connection.close()
        raise OSError("the events ended without an answer")

    def send(self, method: str, path: str, body: str, timeout_s: float) -> tuple[int, str]:
        connection = self.connection(timeout_s)
        headers = {"cookie": self.cookie, "content-type": "application/json"}
        headers["x-gostlab-client"] = "a-tab"
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def connection(self, timeout_s: float) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)


class ServedClass:
    """A class's server as a process that can be killed and started again."""

    def __init__(self, folder: Path, students: int, jobs: int) -> None:
        (folder / "course.secret").write_text("a secret of a course that nobody takes\n")
        names = [f"student-{number}" for number in range(students)]
        (folder / "students.csv").write_text("\n".join(["student", *names]) + "\n")
        file = folder / "class.yaml"
        file.write_text("secret: course.secret\nroster: students.csv\nlabs: [0]\n")
        self.course: ClassFile = load_class(file)
        self._words = ["--class", str(file), "--jobs", str(jobs)]
        self.port = 0
        self.start()

    def start(self) -> None:
        self.process, address = start_server(*self._words, port=self.port)
        self.port = urlsplit(address).port or 0

    def stop(self, by: int) -> None:
        self.process.send_signal(by)
        self.process.wait(60)

    def cookie(self, number: int) -> str:
        session = self.course.session(f"student-{number}")
        return f"gostlab-{self.port}-student={session}"


def load_class_server(
    folder: Path, *, students: int, every_s: float, for_s: float, jobs: int, kill: bool
) -> Tally:
    """Let students turn knobs for a while, and return what happened to their questions."""
    before_s = children_cpu_s()
    served, tally = ServedClass(folder, students, jobs), Tally()
    try:
        pages = [
            StudentLoad(number, served.port, served.cookie(number), tally)
            for number in range(students)
        ]
        threads = [
            threading.Thread(target=page.turn_knobs, args=(every_s, for_s)) for page in pages
        ]
        for thread in threads:
            thread.start()
        if kill:
            time.sleep(for_s / 2)
            served.stop(signal.SIGKILL)
            served.start()
        for thread in threads:
            thread.join()
    finally:
        served.stop(signal.SIGINT)
    tally.cpu_s = children_cpu_s() - before_s
    return tally


def metrics_of(tally: Tally, name: str) -> list[BenchMetric]:
    waits_s = statistics.quantiles(tally.waits_s, n=20)
    each_s = tally.cpu_s / max(1, tally.answered)
    rows = [
        BenchMetric(f"{name}: wait for an answer, p50", "s", "", [waits_s[9]]),
        BenchMetric(f"{name}: the same, p95", "s", "≤ 3", [waits_s[18]]),
        BenchMetric(f"{name}: questions answered", "", "", [tally.answered]),
        BenchMetric(f"{name}: given up for the next one", "", "", [tally.overtaken]),
        BenchMetric(f"{name}: CPU time per answer", "s", "", [each_s]),
        BenchMetric(f"{name}: lost or refused", "", "≤ 0", [tally.lost + len(tally.refused)]),
    ]
    for reason in sorted(set(tally.refused))[:3]:
        print(f"refused: {reason}", file=sys.stderr)
    return [print_metric(row) for row in rows]


def measure_class(bench: Bench) -> list[BenchMetric]:
    """Measure the waits of thirty students on two CPUs, and what a killed server loses."""
    name = f"{STUDENTS} students, a knob each {EVERY_S:g} s, two CPUs"
    steady, killed = (
        load_class_server(
            bench.folder(), students=STUDENTS, every_s=EVERY_S, for_s=FOR_S, jobs=2, kill=kill
        )
        for kill in (False, True)
    )
    tried = [try_s(1, bench.folder(), f"{rate}mbit") for rate in RATES]
    wall_s, cpu_s = (statistics.fmean(times_s) for times_s in zip(*tried, strict=True))
    waits_s = statistics.quantiles(steady.waits_s, n=20)
    ratios = [
        ("wait for an answer, p50", waits_s[9] / wall_s),
        ("wait for an answer, p95", waits_s[18] / wall_s),
        ("CPU time per answer", steady.cpu_s / max(1, steady.answered) / cpu_s),
    ]
    return [
        *metrics_of(steady, name),
        *(
            print_metric(BenchMetric(f"{name}: {what}, over ./lab try's", "×", "", [ratio]))
            for what, ratio in ratios
        ),
        *metrics_of(killed, f"{name}, the server killed after {FOR_S / 2:g} s"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--students", type=int, default=STUDENTS)
    parser.add_argument("--every", type=float, default=EVERY_S, help="seconds between questions")
    parser.add_argument("--for", dest="for_s", type=float, default=FOR_S, help="seconds in all")
    parser.add_argument("--jobs", type=int, default=2, help="sandboxes in parallel")
    parser.add_argument("--kill", action="store_true", help="kill the server in the middle")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gostlab-class-") as scratch:
        tally = load_class_server(
            Path(scratch),
            students=given.students,
            every_s=given.every,
            for_s=given.for_s,
            jobs=given.jobs,
            kill=given.kill,
        )
    print(f"first samples: {len(tally.first_s)}, asked again: {tally.again}", file=sys.stderr)
    metrics_of(tally, f"{given.students} students")


if __name__ == "__main__":
    main()
