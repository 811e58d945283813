# SPDX-License-Identifier: MIT
"""A class in Chromium, with labs in the sandbox: three students and their teacher."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gostlab.serve.class_file import ClassFile, load_class
from tests.analysis.browser import Browser
from tests.serve.server_process import ServerProcess
from tests.serve.test_class import CLASS, LAB, write_class

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
SET = "document.documentElement.dataset"
PREDICTIONS = {
    "idle_rtt_ms": 40,
    "bdp_pkts": 132,
    "full_rtt_ms": 80,
    "half_rtt_ms": 60,
    "payload_mbit": 38,
}
ANSWERS = {"goodput_mbit": 37.9, "idle_rtt_ms": 40, "p95_rtt_ms": 79, "sawtooth_of": "window"}


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> ClassFile:
    return load_class(write_class(tmp_path_factory.mktemp("class"), CLASS))


@pytest.fixture(scope="module")
def server(course: ClassFile) -> Iterator[ServerProcess]:
    started = ServerProcess("--class", str(course.here / "class.yaml"))
    yield started
    if started.process.poll() is None:
        assert "Traceback" not in started.stop()


@pytest.fixture
def page(browser: Browser, server: ServerProcess) -> Iterator[Browser]:
    browser.complaints()
    browser.show_as(1280, "light")
    yield browser
    browser.get(f"{server.origin}/class")
    browser.delete_all_cookies()
    browser.get("about:blank")
    browser.complaints()


def join(page: Browser, server: ServerProcess, course: ClassFile, student: str) -> None:
    page.get(f"{server.origin}/class")
    page.delete_all_cookies()
    page.open(f"{server.origin}/class#{LAB}")
    page.until(f"{SET}.state === 'joining'")
    write(page, "name", student)
    write(page, "code", course.code(student))
    click(page, "#join button")
    page.until(f"{SET}.state === 'lab' && {SET}.lab === '{LAB}'")


def write(page: Browser, field: str, text: object) -> None:
    page.execute_script(
        "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('input')); field.dispatchEvent(new Event('change'))",
        field,
        str(text),
    )


def click(page: Browser, selector: str) -> None:
    page.execute_script("document.querySelector(arguments[0]).click()", selector)


def predict(page: Browser, **changed: float) -> None:
    for key, value in {**PREDICTIONS, **changed}.items():
        write(page, f"predictions-{key}", value)
    click(page, "#seal")
    page.until(f"{SET}.stage === 'predicted'")


def explain(page: Browser) -> None:
    for key, value in ANSWERS.items():
        write(page, f"answers-{key}", value)
    write(page, "answers-why_below_rate", "Headers, and slow start.\nNothing else.")
    page.until(f"{SET}.saved === 'yes'")
    click(page, "#hand-in")
    page.until(f"{SET}.stage === 'handed in'")


def test_three_students_and_their_teacher(
    page: Browser, server: ServerProcess, course: ClassFile
) -> None:
    # The first is killed with the server while its run goes on, and reloads.
    join(page, server, course, "ada")
    predict(page)
    click(page, "#run")
    page.until(f"{SET}.stage === 'running'")
    server.stop(signal.SIGKILL)
    page.until("document.body.classList.contains('away')")
    server.start()
    page.until(f"{SET}.stage === 'explaining'")  # nobody asked again
    page.refresh()
    page.until(f"{SET}.stage === 'explaining'")
    assert page.look("document.getElementById('predictions-bdp_pkts').value") == "132"
    assert page.look("document.getElementById('predictions-bdp_pkts').readOnly")
    explain(page)

    # The second reloads in the midst; what was written stays.
    join(page, server, course, "bob")
    assert page.look("document.getElementById('predictions-bdp_pkts').value") == ""
    write(page, "predictions-bdp_pkts", 7)
    page.until(f"{SET}.saved === 'yes'")
    page.refresh()
    page.until(f"{SET}.lab === '{LAB}'")
    assert page.look("document.getElementById('predictions-bdp_pkts').value") == "7"
    predict(page, bdp_pkts=7)
    click(page, "#run")
    page.until(f"{SET}.stage === 'explaining'")
    page.until("!document.getElementById('report').hidden")
    click(page, "#hand-in")  # it lacks answers, and is handed in as it is
    page.until("!document.getElementById('left').hidden")
    left = page.look("document.getElementById('left').textContent")
    assert "goodput of your run" in left and "answers.yaml" not in left
    click(page, "#left > button")
    page.until(f"{SET}.stage === 'handed in'")

    # The third only predicts; the teacher sees all three.
    join(page, server, course, "cyd")
    predict(page)
    page.open(f"{server.origin}/teacher?{server.token}")
    page.until(f"{SET}.state === 'shown' && {SET}.sealed === '3'")
    assert "token" not in page.current_url
    text = page.look("document.getElementById('class').innerText")
    assert text.count("handed in") == 2 and "predicted" in text
    assert course.code("ada") not in page.look("document.body.innerText")  # it may be projected
    assert page.look("document.querySelectorAll('.predicted').length") > 0
    assert page.look("document.querySelectorAll('.right').length") > 0
    click(page, "#grade")
    page.until(f"{SET}.graded === '{LAB}'")
    assert "2 graded, 1 missing" in page.look("document.getElementById('printed').textContent")


def test_who_has_not_joined_is_asked_to_join_and_the_console_says_nothing(
    page: Browser, server: ServerProcess
) -> None:
    page.open(f"{server.origin}/class")
    page.until(f"{SET}.state === 'joining'")
    page.open(f"{server.origin}/teacher?{server.token}")
    page.until(f"{SET}.state === 'shown'")
    page.open(f"{server.origin}/class")  # the teacher looks at what students see
    page.until(f"{SET}.state === 'joining'")
    assert page.look("document.activeElement.id") == "name"
    assert page.complaints() == []


def test_what_is_refused_is_said_where_the_student_is(
    page: Browser, server: ServerProcess, course: ClassFile
) -> None:
    join(page, server, course, "bob")
    page.open(f"{server.origin}/class#1-window")
    page.until(f"{SET}.lab === '1-window'")
    page.execute_script("document.getElementById('seal').scrollIntoView()")
    click(page, "#seal")
    page.until("document.activeElement.id.startsWith('predictions-')")
    assert page.look("document.activeElement.getAttribute('aria-invalid')") == "true"
    top, bottom = page.look(
        "(box => [box.top, box.bottom])(document.getElementById('note').getBoundingClientRect())"
    )
    assert 0 <= top < bottom <= page.look("innerHeight")
    for field in page.look("[...document.querySelectorAll('#predictions input')].map(e => e.id)"):
        write(page, field, 1)
    click(page, "#seal")
    page.until(f"{SET}.stage === 'predicted'")
    click(page, "#hand-in")
    page.until("!document.getElementById('left').hidden")
    assert "./lab" not in page.look("document.getElementById('left').textContent")
    click(page, "#left li button")
    page.until("document.activeElement.id.startsWith('answers-')")


def test_what_is_written_while_the_server_is_away_is_not_lost(
    page: Browser, server: ServerProcess, course: ClassFile
) -> None:
    join(page, server, course, "cyd")
    server.stop(signal.SIGKILL)
    write(page, "answers-sawtooth_of", "delay")
    page.until("document.body.classList.contains('away')")
    server.start()
    page.until(f"{SET}.saved === 'yes'")
    page.refresh()
    page.until(f"{SET}.lab === '{LAB}'")
    assert page.look("document.getElementById('answers-sawtooth_of').value") == "delay"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wider_than_the_window_and_all_has_a_name(
    page: Browser, server: ServerProcess, course: ClassFile, width: int, scheme: str, tmp_path: Path
) -> None:
    page.show_as(width, scheme)
    join(page, server, course, "ada")
    check_page(page, width, tmp_path / f"lab-{width}-{scheme}.png")
    page.open(f"{server.origin}/teacher?{server.token}")
    page.until(f"{SET}.state === 'shown'")
    check_page(page, width, tmp_path / f"teacher-{width}-{scheme}.png")


def check_page(page: Browser, width: int, picture: Path) -> None:
    page.picture(picture)
    assert page.look("document.documentElement.scrollWidth") <= width
    unnamed = page.look(
        "[...document.querySelectorAll('button, input, select, textarea, [tabindex=\"0\"]')]"
        ".filter(e => e.offsetParent && !(e.textContent.trim() || e.labels?.length"
        " || e.getAttribute('aria-label'))).map(e => e.outerHTML)"
    )
    assert unnamed == []
