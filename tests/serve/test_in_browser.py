# SPDX-License-Identifier: MIT
"""The page in Chromium, with runs in the sandbox: what a person does with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.browser import Browser
from tests.serve.server_process import ServerProcess

pytestmark = [pytest.mark.sandbox, pytest.mark.slow]
QUESTION = "rate=10mbit&rtt=20ms&buffer=2bdp&duration=3s&flows={a:{cc:cubic},b:{cc:bbr}}"
STATE = "document.documentElement.dataset.state"
ANSWERED = f"{STATE} === 'answered'"
ANSWERS = "Number(document.documentElement.dataset.answers || 0)"
SENTENCE = "document.getElementById('says-text').textContent"
NUMBERS = "document.querySelector('table.now tbody').innerText"


class Server(ServerProcess):
    """The page of one person."""

    def __init__(self, results: Path) -> None:
        self.results = results
        super().__init__("--results", str(results))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("results"))
    yield started
    if started.process.poll() is None:
        assert "Traceback" not in started.stop()


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Browser]:
    browser.complaints()
    browser.show_as(1280, "light")
    yield browser
    browser.get("about:blank")
    assert browser.complaints() == []


def ask(page: Browser, server: Server, question: str = QUESTION) -> None:
    page.open(server.address + question)
    page.until(ANSWERED)


def turn(page: Browser, knob: str, text: str) -> None:
    """Write a number into a knob's field."""
    page.execute_script(
        "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('change'))",
        f"k-{knob}",
        text,
    )


def test_a_turned_knob_changes_the_curves_and_the_sentence(page: Browser, server: Server) -> None:
    ask(page, server)
    before, sentence = page.get_screenshot_as_png(), page.look(SENTENCE)
    assert "token" not in page.current_url  # a link that is passed on lets nobody in

    slider = "document.getElementById('s-buffer')"
    page.execute_script(f"{slider}.focus()")
    for _ in range(8):
        page.press("ArrowRight")
    page.until(f"{ANSWERS} > 1 && {ANSWERED}")

    assert page.look(SENTENCE) != sentence and page.get_screenshot_as_png() != before
    # 2 BDP, or what the slider passed if that was answered, too
    assert "before: " in page.look("document.getElementById('meta').textContent")
    assert "buffer=2bdp" not in page.current_url


def test_a_link_asks_the_same_question_with_the_same_numbers(page: Browser, server: Server) -> None:
    ask(page, server, f"{QUESTION}&seed=4")
    link, numbers = page.current_url, page.look(NUMBERS)

    page.open(link)
    page.until(ANSWERED)

    assert page.look(NUMBERS) == numbers and "seed=4" in link
    began = "document.getElementById('preset-text').textContent"
    assert page.look(began) == "Began with a link"
    turn(page, "rtt", "21")
    page.until(f"{ANSWERS} > 1 && {ANSWERED}")
    assert page.look(began) == "Began with a link"


def test_a_first_question_that_is_refused_offers_nothing_to_take_away(
    page: Browser, server: Server
) -> None:
    page.open(f"{server.address}rate=never&flows={{a: {{cc: cubic}}}}")
    page.until(f"{STATE} === 'refused'")
    assert page.look("getComputedStyle(document.getElementById('as')).visibility") == "hidden"
    assert page.look("document.getElementById('pin').disabled")
    turn(page, "rate", "10")
    page.until(ANSWERED)
    assert page.look("getComputedStyle(document.getElementById('as')).visibility") == "visible"
    assert not page.look("document.getElementById('pin').disabled")
    page.complaints()  # what is refused is answered 400


def test_cancel_leaves_the_answer_before_and_says_so(page: Browser, server: Server) -> None:
    ask(page, server)
    sentence = page.look(SENTENCE)
    page.execute_script(
        "const field = document.getElementById('duration'); field.value = '100';"
        "field.dispatchEvent(new Event('change'))"
    )
    page.until("!document.getElementById('cancel').hidden")
    page.press("Escape")
    page.until(f"{STATE} === 'cancelled'")

    assert "Cancelled at" in page.look("document.getElementById('note').textContent")
    assert page.look(SENTENCE) == sentence


def test_a_reload_in_the_midst_ends_with_the_answer(page: Browser, server: Server) -> None:
    ask(page, server)
    turn(page, "rtt", "33")
    page.until(f"{STATE} === 'running'")
    page.refresh()
    page.until("document.documentElement.dataset.ready")
    page.until(ANSWERED)

    assert "rtt=33ms" in page.current_url


def test_two_tabs_have_their_own_questions(page: Browser, server: Server) -> None:
    ask(page, server)
    first = page.current_window_handle
    page.switch_to.new_window("tab")
    try:
        ask(page, server, QUESTION.replace("rate=10mbit", "rate=12mbit"))
        second = page.look(NUMBERS)
        page.switch_to.window(first)
        turn(page, "rate", "11")
        page.until(f"{ANSWERS} > 1 && {ANSWERED}")
        assert page.look(NUMBERS) != second
    finally:
        for handle in page.window_handles:
            if handle != first:
                page.switch_to.window(handle)
                page.close()
        page.switch_to.window(first)


def test_a_wrong_text_marks_its_field_and_moves_nothing(page: Browser, server: Server) -> None:
    ask(page, server)
    place = "document.querySelector('figure').getBoundingClientRect().top"
    before = page.look(place)
    slider = page.look("document.getElementById('s-rate').value")
    turn(page, "rate", "20mbi")
    page.until(f"{STATE} === 'refused'")

    assert page.look("document.getElementById('k-rate').getAttribute('aria-invalid')") == "true"
    assert "mbi" in page.look("document.getElementById('note').textContent")
    assert abs(page.look(place) - before) < 1
    assert page.look("document.getElementById('s-rate').value") == slider
    page.complaints()  # the browser reports the answer 400


def test_pin_and_repetitions(page: Browser, server: Server) -> None:
    ask(page, server)
    page.press("p")
    page.until("document.querySelector('table.pinned')")
    page.execute_script("document.getElementById('several').click()")
    page.until(f"{ANSWERS} > 1 && {ANSWERED}")

    assert page.look("document.querySelectorAll('table.now .range').length") > 0
    assert "6 runs" in page.look("document.querySelector('figcaption').textContent")
    caption = page.look("document.querySelector('table.now caption').textContent")
    assert "6 runs" in caption and ("interval" in caption or "span" in caption)
    assert "repeat=6" in page.current_url


def test_the_question_is_shown_in_every_form(page: Browser, server: Server) -> None:
    ask(page, server)
    forms = {
        "Command line": "./lab try",
        "YAML": "matrices:",
        "Python": "gostlab.Experiment.of(",
        "tc": "tc qdisc",
        "Link": "http://127.0.0.1",
        "Folder": str(server.results),
    }
    for name, part in forms.items():
        page.execute_script(
            "[...document.querySelectorAll('#tabs button')]"
            ".find(b => b.textContent === arguments[0]).click()",
            name,
        )
        page.until(f"document.getElementById('code').textContent.includes({part!r})")


def test_files_are_made_of_the_curves(page: Browser, server: Server) -> None:
    ask(page, server)
    page.execute_script(
        "window.made = {}; const make = URL.createObjectURL;"
        "URL.createObjectURL = blob => { blob.text().then(text => {"
        " made[blob.type] = text; }); return make(blob); };"
        "HTMLAnchorElement.prototype.click = () => {};"
        "document.querySelectorAll('[data-get]').forEach(button => button.click())"
    )
    page.until("Object.keys(window.made).length === 4")
    table = page.look("made['text/csv']").splitlines()
    assert table[0].startswith("repetition,t_s,flow,goodput_mbit") and len(table) == 1 + 2 * 30
    assert page.look("made['image/svg+xml']").count("<path") >= 9
    assert len(page.look("made['image/png']")) > 10_000
    assert len(page.look("made['application/x-pcapng']")) > 10_000


def test_a_server_that_comes_back_answers_the_page_that_waited(
    page: Browser, server: Server
) -> None:
    ask(page, server)
    assert "Traceback" not in server.stop()
    turn(page, "rtt", "44")
    page.until(f"{STATE} === 'away'")
    assert "does not answer" in page.look("document.getElementById('note').textContent")

    server.start()
    page.until(f"{ANSWERS} > 1 && {ANSWERED}")
    page.complaints()  # of the connections that were refused


def test_thirty_questions_in_a_row_leak_nothing(page: Browser, server: Server) -> None:
    ask(page, server)

    def held() -> dict[str, Any]:
        page.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        files = len(os.listdir(f"/proc/{server.process.pid}/fd"))
        nodes = page.look("document.querySelectorAll('*').length")
        return {
            "files": files,
            "nodes": nodes,
            "canvases": page.look("document.querySelectorAll('canvas').length"),
        }

    before = held()
    for number in range(30):
        page.execute_script(
            "const seed = document.getElementById('seed'); seed.value = arguments[0];"
            "seed.dispatchEvent(new Event('change'))",
            str(1 + number % 2),
        )
        page.until(f"{ANSWERED} && {ANSWERS} > {number + 1}")
    after = held()

    assert after["canvases"] == before["canvases"] and after["nodes"] < before["nodes"] + 60
    assert after["files"] < before["files"] + 15


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400, 320])
def test_nothing_is_wider_than_the_window(
    page: Browser, server: Server, width: int, scheme: str, tmp_path: Path
) -> None:
    page.show_as(width, scheme)
    ask(page, server)
    page.picture(tmp_path / f"{width}-{scheme}.png")

    assert page.look("document.documentElement.scrollWidth") <= width
    unnamed = page.look(
        "[...document.querySelectorAll('button, input, select, [tabindex=\"0\"]')].filter(e => !("
        "e.textContent.trim() || e.labels?.length || e.getAttribute('aria-label')"
        " || e.getAttribute('aria-labelledby'))).map(e => e.outerHTML)"
    )
    assert unnamed == []
