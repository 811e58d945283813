# SPDX-License-Identifier: MIT
"""Run the machine's ping and watch its progress."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

from gostlab.cli.common import end_process, print_error, say
from gostlab.profile_import import write_recorded
from gostlab.spec import units
from gostlab.spec.yaml_source import BadInput

# The shortest interval that iputils before 2021 grants to an ordinary user.
USERS_INTERVAL_S = Fraction(200, 1000)
# Timeouts: for a host's first answer, and for the last packet when no answer arrived before.
REACH_S, LINGER_S = 10, 10


def require_ping() -> None:
    """Reject a machine without iputils' ping. Raises BadInput."""
    if shutil.which("ping") is None:
        raise BadInput("no ping on this machine: install iputils-ping")
    if "iputils" not in read_ping_output("-V"):
        raise BadInput("this machine's ping is not iputils': install iputils-ping")


def record(
    options: write_recorded.RecordingOptions,
) -> tuple[write_recorded.RecordingOptions, str, bool, str]:
    """Ping the host until the recording is complete or interrupted.

    Returns the options in effect, ping's output, whether it was interrupted, and the start time
    (UTC). Raises BadInput if the host does not answer at all, KeyboardInterrupt if interrupted
    before the recording.
    """
    wait_until_reachable(options.host)
    exact = ping_prints_exact_times()
    while True:
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with console_progress(options) as watch:
            text, interrupted = run_ping(ping_argv(options, exact=exact), watch)
        refused = re.search(r"cannot flood\D*(\d+) ?ms", text)
        if refused is None:
            return options, text, interrupted, date
        if options.interval_written or options.interval_s >= USERS_INTERVAL_S:
            raise BadInput(
                f"--interval {units.show_s(options.interval_s)}: this machine's ping lets only root"
                f" send more often than every {refused[1]} ms: use --interval {refused[1]}ms, or"
                " sudo"
            )
        options = replace(options, interval_s=USERS_INTERVAL_S)
        print_error(
            f"this machine's ping lets only root send more often than every {refused[1]} ms:"
            f" sending every {units.show_s(options.interval_s)}"
        )


def ping_argv(options: write_recorded.RecordingOptions, *, exact: bool) -> list[str]:
    """Return the recording's ping command: -D and -O print when each answer arrives or is late."""
    argv = ["ping", "-n", "-D", "-O", *(["-3"] if exact else []), "-c", str(options.count)]
    return [*argv, "-i", f"{float(options.interval_s):g}", "-W", str(LINGER_S), "--", options.host]


def wait_until_reachable(host: str) -> None:
    """Wait for a first answer, and discard it: address lookups are done then. Raises BadInput."""
    argv = ["ping", "-n", "-c", "1", "-w", str(REACH_S), "-i", "0.2", "--", host]
    text, interrupted = run_ping(argv, lambda _: None)
    if interrupted:
        raise KeyboardInterrupt
    if not re.search(r"bytes from .*icmp_seq=", text):
        raise BadInput(f"{host}: {explain_no_answer(text)}")


def explain_no_answer(text: str) -> str:
    """Return in a phrase why ping got no answer."""
    lines = [line.strip() for line in text.splitlines()]
    errors = [line for line in lines if line.startswith("ping: ")]
    if errors:
        return errors[0].removeprefix("ping: ").rpartition(": ")[2]
    reports = [
        match[1] for line in lines if (match := re.search(r"From \S+.*? icmp_seq=\d+ (.+)", line))
    ]
    return f"no answer ({reports[-1]})" if reports else "no answer to any ping"


def ping_prints_exact_times() -> bool:
    """Return whether this ping has -3, which prints unrounded times."""
    return bool(re.search(r"^\s*-3\s", read_ping_output("-h"), re.MULTILINE))


def read_ping_output(option: str) -> str:
    """Return ping's output for an option such as -V."""
    process = subprocess.run(
        ["ping", option], capture_output=True, text=True, env=english_environ()
    )
    return process.stdout + process.stderr


def run_ping(argv: Sequence[str], watch: Callable[[int], None]) -> tuple[str, bool]:
    """Run ping to its end or to Ctrl-C; return its output and whether it was interrupted.

    `watch` is called with the sequence number of each packet that is answered or late.
    """
    interrupted = False
    with (
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=english_environ(),
            text=True,
            errors="replace",
        ) as process,
        ThreadPoolExecutor(1) as reader,
    ):
        assert process.stdout is not None
        # Ctrl-C interrupts the main thread only: one in the midst of a read would lose a line.
        reading = reader.submit(read_lines, process.stdout, watch)
        try:
            reading.result()
        except KeyboardInterrupt:
            interrupted = True
        finally:
            end_process(process, 2, signal.SIGINT)  # after a SIGINT ping prints its counts
        return "".join(reading.result()), interrupted


def read_lines(output: Iterable[str], watch: Callable[[int], None]) -> list[str]:
    """Return the lines of ping's output, and call `watch` with each sequence number."""
    lines = []
    for line in output:
        lines.append(line)
        if seq := re.search(r"icmp_seq=(\d+)", line):
            watch(int(seq[1]))
    return lines


def english_environ() -> dict[str, str]:
    """Return an environment in which ping prints English and decimal points."""
    return {**os.environ, "LC_ALL": "C", "LANGUAGE": "C"}


@contextmanager
def console_progress(options: write_recorded.RecordingOptions) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal, a line elsewhere.

    Yields a function that takes the last packet's sequence number.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from gostlab.console import Console

    if not sys.stderr.isatty():
        say(
            f"ping {options.host}: {options.count} packets every"
            f" {units.show_s(options.interval_s)},"
            f" about {units.show_time(float(options.count * options.interval_s))}"
        )
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(), transient=True) as bar:
        task = bar.add_task(f"ping {options.host}", total=options.count)
        yield lambda seq: bar.update(task, completed=seq)
