# SPDX-License-Identifier: MIT
"""Runs that are shared, cancelled and heard again; no sandbox boots here."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gostlab.serve.question_parser import AskedQuestion
from gostlab.serve.run_pool import RunPool, ServedRun, TooManyWaiting
from tests.serve import serving
from tests.serve.serving import StandInRunning, asked, without_sandbox


def until(is_true: Callable[[], object]) -> None:
    end_s = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end_s
        time.sleep(0.01)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[StandInRunning]:
    serving.answer_without_results(monkeypatch)
    return []


@pytest.fixture
def question(made: list[StandInRunning]) -> Callable[[int], AskedQuestion]:
    return lambda seed: without_sandbox(asked(seed=seed), made)


def names(run: ServedRun) -> list[str]:
    return [name for name, _ in run.events]


def test_samples_come_while_a_run_goes_on_and_then_the_answer(
    tmp_path: Path, made: list[StandInRunning], question: Callable[[int], AskedQuestion]
) -> None:
    run = RunPool(tmp_path, 1).ask(question(1), "tab")
    until(lambda: "samples" in names(run))
    assert not run.ended

    made[0].go_on.set()
    until(lambda: run.ended)

    assert names(run) == ["accepted", "samples", "answer"]
    points = run.events[1][1]["queue"]
    assert points["at"] == [1] and points["delay_ms"] == [1.0]


def test_a_newer_question_of_a_tab_cancels_its_older_one_and_no_other_tabs(
    tmp_path: Path, made: list[StandInRunning], question: Callable[[int], AskedQuestion]
) -> None:
    pool = RunPool(tmp_path, 4)
    mine, other = pool.ask(question(1), "mine"), pool.ask(question(2), "other")
    until(lambda: len(made) == 2)

    newer = pool.ask(question(3), "mine")

    until(lambda: mine.ended)
    assert names(mine)[-1] == "cancelled" and not other.ended and not newer.ended
    pool.close()
    assert names(other)[-1] == names(newer)[-1] == "cancelled"


def test_tabs_that_ask_the_same_share_a_run_until_the_last_one_leaves(
    tmp_path: Path, made: list[StandInRunning], question: Callable[[int], AskedQuestion]
) -> None:
    pool = RunPool(tmp_path, 4)
    first, second = pool.ask(question(1), "one"), pool.ask(question(1), "two")
    assert first is second

    pool.cancel(first.id, "one")
    pool.cancel(first.id, "stranger")
    assert not first.ended
    pool.cancel(first.id, "two")
    assert first.ended


def test_an_answer_is_there_for_who_asks_again(
    tmp_path: Path, made: list[StandInRunning], question: Callable[[int], AskedQuestion]
) -> None:
    pool = RunPool(tmp_path, 1)
    run = pool.ask(question(1), "tab")
    until(lambda: made)
    made[0].go_on.set()
    until(lambda: run.ended)

    assert pool.ask(question(1), "another") is run and len(made) == 1


def test_too_many_questions_are_refused_and_ended_ones_are_forgotten(
    tmp_path: Path, question: Callable[[int], AskedQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gostlab.serve.run_pool.MAX_ACTIVE", 2)
    monkeypatch.setattr("gostlab.serve.run_pool.MAX_KEPT", 3)
    pool = RunPool(tmp_path, 1)
    asked_runs = [pool.ask(question(seed), f"tab {seed}") for seed in (1, 2)]
    with pytest.raises(TooManyWaiting):
        pool.ask(question(3), "tab 3")
    pool.cancel(asked_runs[1].id, "tab 2")
    for seed in range(4, 12):
        pool.ask(question(seed), "one tab")
    assert len(pool._runs) <= 3 + 2
    pool.close()
    assert all(run.ended for run in pool._runs.values())


def test_an_error_of_the_lab_is_the_last_event(
    tmp_path: Path,
    made: list[StandInRunning],
    question: Callable[[int], AskedQuestion],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: StandInRunning) -> None:
        raise OSError(28, "No space left on device", "results")

    monkeypatch.setattr(StandInRunning, "wait", fail)
    pool = RunPool(tmp_path, 1)
    run = pool.ask(question(1), "tab")
    until(lambda: run.ended)
    assert run.events[-1] == ("refused", {"key": None, "text": "results: No space left on device"})
    assert pool.ask(question(1), "tab") is not run  # it is asked again
    pool.close()


def test_who_reconnects_gets_what_was_missed(
    tmp_path: Path, made: list[StandInRunning], question: Callable[[int], AskedQuestion]
) -> None:
    pool = RunPool(tmp_path, 1)
    run = pool.ask(question(1), "tab")
    until(lambda: made)
    made[0].go_on.set()
    until(lambda: run.ended)
    with serving.serving(pool) as client:
        everything = client.events(run.id)
        assert [name for name, _ in everything] == names(run)
        assert client.events(run.id, after=0) == everything[1:]
        assert client.send("GET", "/runs/other/events").status == 404
        tc = client.send("GET", f"/runs/{run.id}/tc").text
        assert "rate 10000000bit" in tc and "delay 20ms" in tc
