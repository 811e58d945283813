# SPDX-License-Identifier: MIT
"""Measure how quickly the page answers, as ratios to the same run by `./lab try`.

    python3 -m tools.bench.page_answers [--repeat 5]

Both are asked by turns, so that other work on the machine slows both. Times are those of a client
of the server, from its question to the first samples, to the last ones and to the whole answer.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gostlab.registry.folders import ROOT
from gostlab.sandbox import children_cpu_s
from tools.bench.metrics import BenchMetric, print_metric

REPEAT = 5
WITHIN_S = 300.0
PAUSE_S = 2.0  # between questions: a sandbox boots for the next one
KNOBS = {
    "profile": "plain-100ms",
    "topology": "dumbbell",
    "duration": "10s",
    "sample": "100ms",
    "rate": "50mbit",
    "rtt": "40ms",
    "flows": "{a: {cc: cubic}, b: {cc: bbr}}",
}


@dataclass(frozen=True)
class Times:
    """Represent when the parts of an answer came, in seconds after the question."""

    first_s: float
    last_s: float
    answer_s: float


def start_server(*words: str, port: int = 0) -> tuple[subprocess.Popen[str], str]:
    """Start `./lab serve`; return its process and the address that it says to open."""
    argv = [sys.executable, "-m", "gostlab", "serve", "--browser", "none", "--port", str(port)]
    process = subprocess.Popen([*argv, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline() if process.stdout else ""
    if not line.startswith("open http://127.0.0.1:"):
        raise RuntimeError(f"no server: {line}")
    return process, line.split()[1]


class ServedPage:
    """The page's server as a process."""

    def __init__(self, results: Path) -> None:
        self._process, address = start_server("--results", str(results))
        self._port, self._token = urlsplit(address).port, address.partition("token=")[2]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)

    def ask(self, seed: int) -> Times:
        """Ask a question, and return when its answer came. Raises RuntimeError, OSError."""
        began_s = time.monotonic()
        body = json.dumps({"settings": KNOBS, "seed": seed, "repeat": 1})
        run_id = json.loads(self.send("POST", "/runs", body).read())["id"]
        events, samples_s = self.send("GET", f"/runs/{run_id}/events"), []
        while line := events.readline():
            if line == b"event: samples\n":
                samples_s.append(time.monotonic() - began_s)
            elif line == b"event: answer\n":
                return Times(samples_s[0], samples_s[-1], time.monotonic() - began_s)
            elif line in (b"event: refused\n", b"event: cancelled\n"):
                raise RuntimeError(events.readline().decode())
        raise RuntimeError("the events ended without an answer")

    def send(self, method: str, path: str, body: str | None = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=WITHIN_S)
        cookie = f"gostlab-{self._port}={self._token}"
        headers = {"cookie": cookie, "x-gostlab-client": "a-tab"}
        connection.request(method, path, body, {**headers, "content-type": "application/json"})
        return connection.getresponse()


def tried_argv(seed: int, results: Path, rate: str) -> list[str]:
    settings = {**KNOBS, "rate": rate}
    options = [word for name, text in settings.items() for word in (f"--{name}", text)]
    options[options.index("--duration")] = "--for"
    argv = [sys.executable, "-m", "gostlab", "try", *options, "--seed", str(seed)]
    return [*argv, "--machine", "sandbox", "--results", str(results)]


def try_s(seed: int, results: Path, rate: str = KNOBS["rate"]) -> tuple[float, float]:
    """Ask by `./lab try`; return the wall time and the CPU time, s. Raises RuntimeError."""
    began_s, before_s = time.monotonic(), children_cpu_s()
    done = subprocess.run(
        tried_argv(seed, results, rate), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3):
        raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
    return time.monotonic() - began_s, children_cpu_s() - before_s


def measure_page(scratch: Callable[[], Path], repeat: int) -> list[BenchMetric]:
    """Measure the page's answers, and those of `./lab try` to the same questions."""
    page, cold = ServedPage(scratch()), scratch()
    try:
        page.ask(repeat + 1)  # it imports what reads results
        rounds: list[tuple[Times, Times, float, float]] = []
        for seed in range(1, repeat + 1):
            time.sleep(PAUSE_S)
            new, again = page.ask(seed), page.ask(seed)
            rounds.append((new, again, try_s(seed, cold)[0], try_s(seed, cold)[0]))
    finally:
        page.stop()
    name, there = "10 s of two flows at 50 Mbit/s on the page", "an answer that is there"
    over = "over ./lab try"
    rows = [
        (f"{name}: first samples", "s", "≤ 0.15", [new.first_s for new, *_ in rounds]),
        (f"{name}: last samples", "s", "≤ 0.35", [new.last_s for new, *_ in rounds]),
        (f"{name}: the whole answer", "s", "", [new.answer_s for new, *_ in rounds]),
        (f"{name}: {there}", "s", "≤ 0.1", [again.answer_s for _, again, *_ in rounds]),
        (f"first samples, {over}", "×", "", [new.first_s / tried for new, _, tried, _ in rounds]),
        (f"last samples, {over}", "×", "", [new.last_s / tried for new, _, tried, _ in rounds]),
        (f"{there}, {over}'s", "×", "", [old.answer_s / cached for _, old, _, cached in rounds]),
    ]
    return [print_metric(BenchMetric(*row)) for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeat", type=int, default=REPEAT, help="questions")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gostlab-page-") as scratch:
        measure_page(lambda: Path(tempfile.mkdtemp(dir=scratch)), given.repeat)


if __name__ == "__main__":
    main()
