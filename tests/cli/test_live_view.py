# SPDX-License-Identifier: MIT
"""`--live`: the picture of runs under way follows their samples, at a pace of its own."""

import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from gostlab.cli.live_view import MAX_RUNS, FollowedRun, JsonLinesTail, LivePicture
from gostlab.errors import BadInput
from gostlab.results.run_result import RunResult
from gostlab.scheduler.executor import run_folder
from gostlab.spec.adhoc import to_question
from gostlab.spec.expand import expand
from gostlab.spec.run_spec import RunSpec
from tests.lab_command import ROOT, Typed
from tests.terminal import exit_code, terminal

PATH = {"rate": "12.112mbit", "rtt": "100ms", "buffer": "100pkts", "duration": "10s"}


LEVELS = {"try": {"cc": ["cubic", "bbr"]}}


def asked(**words: str) -> list[RunSpec]:
    control = {} if "flows" in words else {"cc": "cubic"}
    question = to_question({**PATH, **control, **words})
    return list(expand(question.to_experiment(Path("x.yaml")), machine="sandbox", clock="virtual"))


def write(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.jsonl").open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def queued(at_s: float, packets: int, drops: int = 0, **other: Any) -> dict[str, Any]:
    counts = {"backlog_pkts": packets, "backlog_bytes": 1514 * packets, "drops": drops}
    return {"t_s": at_s, "role": "bottleneck", "direction": "forward", **counts, **other}


def sent(at_s: float, window: int, **other: Any) -> dict[str, Any]:
    of = {"t_s": at_s, "leg": "wan", "host": "client", "flow": "flow1"}
    counts = {"cwnd_pkts": window, "srtt_ms": 120.0, "bytes_acked": int(at_s * 1e6)}
    return {**of, **counts, **other}


class Screen:
    """A picture of runs, and the clock that moves it."""

    def __init__(
        self,
        folder: Path,
        runs: Sequence[RunSpec],
        *,
        pace: float = 1.0,
        title: str = "a title",
        letters: str = "utf-8",
        **size: int,
    ) -> None:
        self.now_s, self.width = 0.0, size.get("width", 100)
        file = io.TextIOWrapper(io.BytesIO(), letters)
        console = Console(
            file=file, force_terminal=True, color_system=None, **{"width": 100, **size}
        )
        self.watched = LivePicture(
            title, folder, pace, LEVELS, console=console, now=lambda: self.now_s
        )
        self.watched.planned(runs, [])
        self.at(0.0)

    def at(self, now_s: float) -> list[str]:
        """What stands there after so much time."""
        self.now_s = now_s
        file = io.StringIO()
        Console(file=file, width=300).print(self.watched.picture())
        return [line.rstrip() for line in file.getvalue().splitlines()]


def test_the_queue_fills_as_its_samples_say(tmp_path: Path) -> None:
    [run] = asked()
    write(run_folder(run, tmp_path), "queues", [queued(n / 10, n, n // 50) for n in range(1, 101)])
    write(run_folder(run, tmp_path), "sockets", [sent(n / 10, 2 * n) for n in range(1, 101)])
    screen = Screen(tmp_path, [run])

    half, whole = screen.at(5.0), screen.at(10.0)

    assert "5.0 of 10 s" in half[0] and "10.0 of 10 s" in whole[0]
    assert "12.112 Mbit/s · 100 ms · BDP 100 packets" in half[2]
    bars = [next(line for line in lines if line.startswith("sender")) for lines in (half, whole)]
    assert abs(bars[0].count("█") * 2 - bars[1].count("█")) <= 1 < bars[0].count("█")
    assert any("queue: 100 of 100 packets" in line for line in whole)
    assert any("50 of 100 packets · 50 ms to wait · 1 dropped" in line for line in half)
    assert any("window 100 packets · 120 ms RTT · 8.0 Mbit/s" in line for line in half)
    # what is not drawn yet stays empty: a chart fills from the left
    charts = [[line[7:].rstrip() for line in lines[5:13]] for lines in (half, whole)]
    assert max(map(len, charts[0])) < 0.6 * max(map(len, charts[1]))
    assert sum(line.count("█") for line in charts[0]) < sum(line.count("█") for line in charts[1])


def test_the_picture_goes_at_its_own_pace_and_waits_for_samples(tmp_path: Path) -> None:
    [run] = asked()
    write(run_folder(run, tmp_path), "queues", [queued(n, n) for n in range(1, 5)])
    screen = Screen(tmp_path, [run], pace=2.0)

    assert "2.0 of 10 s · 2 × real time" in screen.at(1.0)[0]
    assert "4.0 of 10 s" in screen.at(3.0)[0]  # nothing is written of what comes then
    write(run_folder(run, tmp_path), "queues", [queued(n, n) for n in range(5, 9)])
    assert "6.0 of 10 s" in screen.at(4.0)[0]  # and no jump


def test_runs_side_by_side_are_seen_at_one_instant(tmp_path: Path) -> None:
    cubic, bbr = sorted(asked(cc="cubic,bbr"), key=lambda run: run.cc, reverse=True)
    write(run_folder(cubic, tmp_path), "queues", [queued(n, n) for n in range(1, 11)])
    screen = Screen(tmp_path, [cubic, bbr])

    assert "0.0 of 10 s" in screen.at(4.0)[0]  # bbr has not begun
    write(run_folder(bbr, tmp_path), "queues", [queued(n, 7) for n in range(1, 11)])
    lines = screen.at(8.0)
    assert "4.0 of 10 s" in lines[0]
    assert any(re.search(r"4 of 100 packets.* 7 of 100 packets", line) for line in lines)
    assert any(re.fullmatch(r"cubic +bbr *", line) for line in lines)  # as people wrote them


def test_a_run_that_has_ended_holds_nothing_up(tmp_path: Path) -> None:
    cubic, bbr = sorted(asked(cc="cubic,bbr"), key=lambda run: run.cc, reverse=True)
    write(run_folder(cubic, tmp_path), "queues", [queued(n, n) for n in range(1, 11)])
    screen = Screen(tmp_path, [cubic, bbr])
    failed = RunResult(bbr, tmp_path, {"outcome": "failed", "error": "died early"}, None)
    screen.watched.finished(failed, 0.0)

    lines = screen.at(4.0)

    assert "4.0 of 10 s" in lines[0]
    assert any("no answer: failed: died early" in line for line in lines)


def test_what_was_run_before_is_drawn_again(tmp_path: Path) -> None:
    [run] = asked()
    write(run_folder(run, tmp_path), "queues", [queued(n, 9) for n in range(1, 6)])  # ended early
    screen = Screen(tmp_path, [])
    screen.watched.planned([run], [RunResult(run, tmp_path, {"outcome": "ok"}, "ok")])

    assert any("9 of 100 packets" in line for line in screen.at(3.0))
    assert "10.0 of 10 s" in screen.at(30.0)[0]


def test_a_tunnels_data_are_seen_where_they_cross_the_path(tmp_path: Path) -> None:
    [run] = asked(tunnel="relay+ws")
    followed = FollowedRun(run, run_folder(run, tmp_path))
    rows = [
        sent(1.0, 10, bytes_acked=500, host="near"),
        sent(1.0, 30, bytes_acked=400, host="near"),  # a second stream
        sent(1.0, 99, bytes_acked=5, host="far"),  # what comes back
        sent(1.0, 77, leg="app"),
    ]
    write(followed.folder, "sockets", rows)
    followed.read()

    [at] = followed.sender("flow1")
    assert (at.window_pkts, at.acked_bytes) == (40, 900)


def test_a_line_that_is_half_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "queues.jsonl"
    tail = JsonLinesTail(file)
    assert list(tail.rows()) == []
    file.write_text('{"t_s": 1}\n{"t_')
    assert list(tail.rows()) == [{"t_s": 1}]
    file.write_text('{"t_s": 1}\n{"t_s": 2}\nnonsense\n[1]\n')
    assert list(tail.rows()) == [{"t_s": 2}]
    file.write_text('{"t_s": 5}\n')  # the run was begun again
    assert list(tail.rows()) == [{"t_s": 5}]


def test_what_a_runs_program_writes_in_place_of_samples_is_not_drawn(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/dev/zero")
    assert [JsonLinesTail(tmp_path / name).rows() for name in ("fifo", "link")] == [[], []]
    [run] = asked()
    followed = FollowedRun(run, run_folder(run, tmp_path))
    wrong = [{"t_s": 1e308}, {"t_s": -5}, {"backlog_pkts": 1e300}]
    write(followed.folder, "queues", [queued(1, 1) | each for each in wrong] + [queued(2, 3)])
    write(followed.folder, "sockets", [sent(1, 1) | {"bytes_acked": -1}, sent(2, 3)])
    followed.read()
    assert [each.packets for each in followed.queue] == [3]
    assert [each.window_pkts for each in followed.sender("flow1")] == [3]


def test_more_runs_than_fit_are_refused_with_what_to_do(tmp_path: Path) -> None:
    runs = asked(rtt="10ms,20ms,30ms,40ms,50ms")
    assert len(runs) > MAX_RUNS
    with pytest.raises(BadInput, match=r"5 runs.*fewer levels.*--matrix"):
        Screen(tmp_path, runs)


@pytest.mark.parametrize("letters", ["utf-8", "ascii"])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, letters: str) -> None:
    runs = asked(cc="cubic,bbr,reno")
    for run in runs:
        write(run_folder(run, tmp_path), "queues", [queued(1, 90), queued(2, 99)])
        write(run_folder(run, tmp_path), "sockets", [sent(1, 150), sent(2, 199)])
    lines = Screen(tmp_path, runs, title="t" * 200, letters=letters, width=90).at(3.0)
    assert max(map(len, lines[1:])) <= 90
    if letters == "ascii":
        text = "".join(lines)
        assert "###" in text and not re.search("[▁-█]", text)


@pytest.mark.parametrize("height", [24, 30, 60])
def test_two_flows_fit_on_a_terminal_of_24_lines(tmp_path: Path, height: int) -> None:
    [run] = asked(flows="a=cubic,b=bbr")
    write(run_folder(run, tmp_path), "queues", [queued(1, 90)])
    write(run_folder(run, tmp_path), "sockets", [sent(1, 9, flow="a"), sent(1, 9, flow="b")])
    lines = Screen(tmp_path, [run], width=80, height=height).at(2.0)
    assert len(lines) < height and sum("window" in line for line in lines) == 2


def test_windows_of_runs_beside_each_other_have_one_axis(tmp_path: Path) -> None:
    runs = asked(cc="cubic,bbr")
    for run in runs:
        write(run_folder(run, tmp_path), "queues", [queued(n, 5) for n in range(1, 11)])
        window = 800 if run.cc == "bbr" else 20
        write(run_folder(run, tmp_path), "sockets", [sent(n, window) for n in range(1, 11)])
    lines = Screen(tmp_path, runs).at(9.0)
    assert any(line.count(" 800 ") == 2 for line in lines)


def test_a_start_ups_peak_does_not_hide_the_saw_after_it(tmp_path: Path) -> None:
    [run] = asked()
    write(run_folder(run, tmp_path), "queues", [queued(n / 10, 5) for n in range(1, 101)])
    windows = [2000 if n == 3 else 40 + n % 20 for n in range(1, 101)]
    write(run_folder(run, tmp_path), "sockets", [sent(n / 10, w) for n, w in enumerate(windows, 1)])
    lines = Screen(tmp_path, [run]).at(9.9)
    assert any(line.startswith("   80 ") for line in lines)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--live",), "terminal"),
        (("--live", "--json"), "only one of them"),
        (("--live", "--pace", "0"), "not a pace"),
        (("--live", "--pace", "fast"), "not a pace"),
    ],
)
def test_what_cannot_be_drawn_is_one_line(
    words: tuple[str, ...], says: str, tmp_path: Path, typed: Typed
) -> None:
    done = typed("try", "--cc", "cubic", "--for", "1s", "--results", tmp_path / "r", *words)
    [said] = done.stderr.strip().splitlines()
    assert done.returncode == 2 and says in said


@pytest.mark.sandbox
def test_a_question_is_drawn_on_a_terminal_and_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["try", "--cc", "cubic", "--rate", "5mbit", "--rtt", "20ms", "--for", "3s", "--live"]
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "40")

    with terminal(ROOT / "lab", *words, "--pace", "3", "--results", tmp_path) as (pid, shown):
        said = shown.read_until()
        assert exit_code(pid) == 0, said[-2000:]

    seen = [float(each) for each in re.findall(r"· (\d+\.\d) of 3 s", said)]
    assert seen == sorted(seen) and seen[-1] == 3.0 and len(set(seen)) >= 4
    assert re.search(r"\d+ of \d+ packets", said) and "window" in said
    assert "goodput" in said.lower() and " ok" in said
