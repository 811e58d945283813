"""The machine's ping: asked what it can, run, watched, ended."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gostlab.cli.common import complain, end_process, say
from gostlab.console import Console
from gostlab.profile_import import write_recorded
from gostlab.spec import units
from gostlab.spec.yaml_source import BadInput

# What iputils before 2021 lets an ordinary user have.
USERS_INTERVAL_S = Fraction(200, 1000)
# How long a host may take to answer at all, and the last packet to come back when none other has.
REACH_S, LINGER_S = 10, 10


def require_ping() -> None:
    """Raises BadInput if the machine's ping is none, or not one whose text is understood."""
    if shutil.which("ping") is None:
        raise BadInput("no ping on this machine: install iputils-ping")
    if "iputils" not in said_to("-V"):
        raise BadInput("this machine's ping is not iputils': install iputils-ping")


def record(
    order: write_recorded.RecordingOptions,
) -> tuple[write_recorded.RecordingOptions, str, bool, str]:
    """Ping the host: what was requested in the end, ping's text, whether it was interrupted, when
    it began (UTC).

    Raises BadInput if the host does not answer at all, KeyboardInterrupt if interrupted before the
    recording.
    """
    reach(order.host)
    exact = knows_exact_times()
    while True:
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        with console_progress(order) as watch:
            text, interrupted = run_ping(ping_argv(order, exact=exact), watch)
        refused = re.search(r"cannot flood\D*(\d+) ?ms", text)
        if refused is None:
            return order, text, interrupted, date
        if order.interval_written or order.interval_s >= USERS_INTERVAL_S:
            raise BadInput(
                f"--interval {units.show_s(order.interval_s)}: this machine's ping lets only root"
                f" send more often than every {refused[1]} ms: use --interval {refused[1]}ms, or"
                " sudo"
            )
        order = replace(order, interval_s=USERS_INTERVAL_S)
        complain(
            f"this machine's ping lets only root send more often than every {refused[1]} ms:"
            f" sending every {units.show_s(order.interval_s)}"
        )


def ping_argv(order: write_recorded.RecordingOptions, *, exact: bool) -> list[str]:
    """The recording's ping: -D and -O say when each packet was answered, or not yet."""
    argv = ["ping", "-n", "-D", "-O", *(["-3"] if exact else []), "-c", str(order.count)]
    return [*argv, "-i", f"{float(order.interval_s):g}", "-W", str(LINGER_S), "--", order.host]


def reach(host: str) -> None:
    """Wait for a first answer, which pays for looking up addresses: not kept. Raises BadInput."""
    argv = ["ping", "-n", "-c", "1", "-w", str(REACH_S), "-i", "0.2", "--", host]
    text, interrupted = run_ping(argv, lambda _: None)
    if interrupted:
        raise KeyboardInterrupt
    if not re.search(r"bytes from .*icmp_seq=", text):
        raise BadInput(f"{host}: {why_none(text)}")


def why_none(text: str) -> str:
    """In a phrase, why ping has no answer."""
    lines = [line.strip() for line in text.splitlines()]
    own = [line for line in lines if line.startswith("ping: ")]
    if own:
        return own[0].removeprefix("ping: ").rpartition(": ")[2]
    told = [
        found[1] for line in lines if (found := re.search(r"From \S+.*? icmp_seq=\d+ (.+)", line))
    ]
    return f"no answer ({told[-1]})" if told else "no answer to any ping"


def knows_exact_times() -> bool:
    """Whether this ping has -3, not to round times."""
    return bool(re.search(r"^\s*-3\s", said_to("-h"), re.MULTILINE))


def said_to(option: str) -> str:
    """What ping says of itself."""
    done = subprocess.run(["ping", option], capture_output=True, text=True, env=english())
    return done.stdout + done.stderr


def run_ping(argv: Sequence[str], watch: Callable[[int], None]) -> tuple[str, bool]:
    """Run ping to its end, or to Ctrl-C: its text, and whether it was interrupted.

    watch   is told each packet's number as it is answered, or not
    """
    said: list[str] = []
    interrupted = False
    with subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=english(),
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                said.append(line)
                if seq := re.search(r"icmp_seq=(\d+)", line):
                    watch(int(seq[1]))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            end_process(process, 2, signal.SIGINT)  # as Ctrl-C does: then it says its counts
        said += process.stdout
    return "".join(said), interrupted


def english() -> dict[str, str]:
    """An environment in which ping speaks English, and writes a point in 0.5."""
    return {**os.environ, "LC_ALL": "C", "LANGUAGE": "C"}


@contextmanager
def console_progress(order: write_recorded.RecordingOptions) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, a line elsewhere; gives what is to be told the last packet's number."""
    if not sys.stderr.isatty():
        say(
            f"ping {order.host}: {order.count} packets every {units.show_s(order.interval_s)},"
            f" about {units.show_time(float(order.count * order.interval_s))}"
        )
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(), transient=True) as bar:
        task = bar.add_task(f"ping {order.host}", total=order.count)
        yield lambda seq: bar.update(task, completed=seq)
