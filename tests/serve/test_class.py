# SPDX-License-Identifier: MIT
"""A class on the page: who may join, what students see of each other, whose turn it is."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gostlab.errors import BadInput
from gostlab.serve import access, serve_cli
from gostlab.serve.class_app import MAX_WRONG_CODES, REPORT_POLICY, WrongCodes
from gostlab.serve.class_file import ClassFile, load_class
from gostlab.serve.class_work import ClassWork, format_level
from gostlab.serve.lab_guide import split_guide
from gostlab.serve.run_pool import RunPool
from gostlab.serve.turn_queue import TurnQueue
from tests.lab_command import Refused
from tests.serve.serving import SETTINGS, Answered, Client, serving

LAB = "0-warm-up"
CLASS = "course: cc-2027\nsecret: course.secret\nroster: students.csv\nlabs: [0, 1]\n"


def write_class(folder: Path, text: str = CLASS) -> Path:
    (folder / "course.secret").write_text("a secret of the course\n" * 2)
    (folder / "students.csv").write_text("student,name\nada,Ada L\nbob,Bob M\ncyd,Cyd C\n")
    file = folder / "class.yaml"
    file.write_text(text)
    return file


@dataclass
class Served:
    """A class that is served."""

    client: Client
    course: ClassFile

    def joined(self, student: str) -> Client:
        """A client with a student's session."""
        course, nobody = self.course, Client(self.client.port, token="")
        body = {"name": student, "code": course.code(student)}
        answer = post(nobody, "/class/join", body)
        assert answer.status == 204, answer
        return replace(nobody, headers={"cookie": answer.headers["set-cookie"].split(";")[0]})


def post(client: Client, path: str, body: object) -> Answered:
    return client.send("POST", path, json.dumps(body), content_type="application/json")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    course = load_class(write_class(tmp_path))
    pool = RunPool(tmp_path / "knobs", 1, keeps_results=False)
    with serving(pool, ClassWork(course, pool)) as client:
        yield Served(client, course)


def test_a_name_and_its_code_join_and_no_other(served: Served) -> None:
    nobody = Client(served.client.port, token="")
    assert nobody.send("GET", "/class").status == 200
    for outside in (nobody, served.client):  # who has the token is no student
        answer = outside.send("GET", "/class/me")
        assert (answer.status, answer.text) == (204, "")
    for name, code in (("ada", served.course.code("bob")), ("ada", ""), ("eve", ""), ("", "é")):
        assert post(nobody, "/class/join", {"name": name, "code": code}).status == 403
    ada = served.joined("ada")
    assert ada.send("GET", "/class/me").json["name"] == "Ada L"
    shouted = {"name": "ADA", "code": f" {served.course.code('ada').upper().replace('-', ' ')}"}
    assert post(nobody, "/class/join", shouted).status == 204


def test_codes_cannot_be_tried(served: Served) -> None:
    nobody = Client(served.client.port, token="")
    wrong = {"name": "ada", "code": "aaaa-aaaa"}
    answers = [post(nobody, "/class/join", wrong).status for _ in range(MAX_WRONG_CODES + 1)]
    assert answers == [403] * MAX_WRONG_CODES + [429]
    assert (
        post(nobody, "/class/join", {"name": "bob", "code": served.course.code("bob")}).status
        == 204
    )


def test_names_that_are_tried_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gostlab.serve.class_app.MAX_NAMES", 5)
    wrong = WrongCodes()
    for number in range(100):
        wrong.add(f"name {number}")
    assert len(wrong._by_name) <= 7


def test_a_student_sees_nothing_of_another_and_nothing_of_the_teacher(served: Served) -> None:
    ada, bob = served.joined("ada"), served.joined("bob")
    texts = {"section": "predictions", "key": "bdp_pkts", "text": "33.1"}
    assert ada.send("GET", f"/class/labs/{LAB}").status == 200
    assert post(ada, f"/class/labs/{LAB}/answers", texts).status == 204

    assert "33.1" in ada.send("GET", f"/class/labs/{LAB}").text
    assert "33.1" not in bob.send("GET", f"/class/labs/{LAB}").text
    for path in ("/teacher", "/teacher/class", f"/teacher/labs/{LAB}", "/class/labs/../../x"):
        assert bob.send("GET", path).status in (403, 404)
    for lab in ("2-sawtooth", "..", "%2e%2e", "0-warm-up%2f..%2f..%2fbob"):
        assert bob.send("GET", f"/class/labs/{lab}").status in (400, 404)
    forged = replace(bob, headers={"cookie": bob.headers["cookie"].replace("=", "=0")})
    assert forged.send("GET", "/class/me").status == 204


def test_no_page_of_a_student_has_a_key_or_a_secret(served: Served) -> None:
    ada = served.joined("ada")
    for lab in (LAB, "1-window"):
        shown = ada.send("GET", f"/class/labs/{lab}").text
        assert "expect" not in shown and "secret of the course" not in shown
        assert served.course.code("ada") not in shown


def test_predictions_come_first_and_stay(served: Served) -> None:
    ada, lab = served.joined("ada"), f"/class/labs/{LAB}"
    questions = ada.send("GET", lab).json["questions"]
    for too_early in ("run", "hand-in"):
        assert "first" in post(ada, f"{lab}/{too_early}", {}).json["text"]
    assert post(ada, f"{lab}/seal", {}).status == 400  # nothing is written yet
    for asked in questions:
        fields = {"section": asked["section"], "key": asked["key"], "text": "40"}
        assert post(ada, f"{lab}/answers", fields).status == 204
    assert post(ada, f"{lab}/seal", {}).status == 204

    changed = {"section": "predictions", "key": "bdp_pkts", "text": "41"}
    assert "sealed" in post(ada, f"{lab}/answers", changed).json["text"]
    left = post(ada, f"{lab}/hand-in", {}).json
    assert not left["is_handed_in"] and "runs are not there" in " ".join(left["left"])


@pytest.mark.parametrize(
    "body",
    [[], {"section": "x", "key": "y", "text": "z"}, {"section": 1}, {"text": "\ud800"}, None],
)
def test_what_is_no_answer_is_refused(served: Served, body: object) -> None:
    ada = served.joined("ada")
    assert post(ada, f"/class/labs/{LAB}/answers", body).status == 400


def test_texts_of_students_stay_texts(served: Served) -> None:
    ada, lab = served.joined("ada"), f"/class/labs/{LAB}"
    text = '"quoted": <script>\n---\n*a &b é\u202e'
    fields = {"section": "answers", "key": "why_below_rate", "text": text}
    assert post(ada, f"{lab}/answers", fields).status == 204
    shown = {one["key"]: one["text"] for one in ada.send("GET", lab).json["questions"]}
    assert shown["why_below_rate"] == text.strip()


def test_what_was_handed_in_is_what_the_grader_reads(served: Served) -> None:
    for student in ("ada", "bob"):
        client, lab = served.joined(student), f"/class/labs/{LAB}"
        for asked in client.send("GET", lab).json["questions"]:
            fields = {"section": asked["section"], "key": asked["key"], "text": "40"}
            post(client, f"{lab}/answers", fields)
        post(client, f"{lab}/seal", {})
        assert post(client, f"{lab}/hand-in", {"as_it_is": True}).json["is_handed_in"]
    teacher = served.client.send("POST", f"/teacher/labs/{LAB}/grades").json
    assert "2 graded, 1 missing" in teacher["printed"] and "moodle.csv" in teacher["tables"]
    table = served.client.send("GET", f"/teacher/labs/{LAB}/grades/grades.csv").text
    assert [line.split(",")[0] for line in table.splitlines()] == ["student", "ada", "bob", "cyd"]
    assert served.client.send("GET", f"/teacher/labs/{LAB}/grades/x.csv").status == 404

    shown = served.client.send("GET", f"/teacher/labs/{LAB}").json
    payload = next(point for point in shown["points"] if point["name"] == "predict-payload")
    assert [one["predicted"] for one in payload["given"]] == ["40", "40"]
    assert all(isinstance(one["right"], float) for one in payload["given"])


def test_a_report_has_a_policy_of_its_own_and_no_other(served: Served) -> None:
    ada, lab = served.joined("ada"), f"/class/labs/{LAB}"
    assert ada.send("GET", f"{lab}/report").status == 404
    page = served.course.folder / "students/ada" / LAB / "report/report.html"
    page.parent.mkdir()
    page.write_text("<style>p {}</style>")
    headers = ada.send("GET", f"{lab}/report").headers
    assert headers["content-security-policy"] == REPORT_POLICY
    assert headers["cache-control"] == "no-store"


def test_records_of_ones_own_runs_can_be_read_and_no_other_file(served: Served) -> None:
    ada, lab = served.joined("ada"), f"/class/labs/{LAB}"
    for asked in ada.send("GET", lab).json["questions"]:
        fields = {"section": asked["section"], "key": asked["key"], "text": "40"}
        post(ada, f"{lab}/answers", fields)
    post(ada, f"{lab}/seal", {})
    run = ada.send("GET", f"{lab}/progress").json["runs"][0]["name"]
    folder = served.course.folder / "students/ada" / LAB / "results/lab-0-warm-up" / run
    assert ada.send("GET", f"{lab}/runs/{run}/fidelity.json").status == 404
    folder.mkdir(parents=True)
    for name in ("fidelity.json", "run.json"):
        (folder / name).write_text("{}\n")
    answer = ada.send("GET", f"{lab}/runs/{run}/fidelity.json")
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/plain")
    for name in ("run.json", "..%2ffidelity.json", "sockets.jsonl"):
        assert ada.send("GET", f"{lab}/runs/{run}/{name}").status == 404
    bob = served.joined("bob")
    assert bob.send("GET", f"{lab}/runs/{run}/fidelity.json").status == 404


def test_a_level_is_shown_as_an_experiments_file_has_it() -> None:
    assert format_level([{"at": "22s", "delay": "45ms"}]) == "{at: 22s, delay: 45ms}"
    assert format_level(["a", "b"]) == "[a, b]" and format_level("10mbit") == "10mbit"


def test_the_teacher_sees_who_is_where(served: Served) -> None:
    served.joined("ada").send("GET", f"/class/labs/{LAB}")
    rows = served.client.send("GET", "/teacher/class").json["students"]
    assert [row["student"] for row in rows] == ["ada", "bob", "cyd"]
    assert rows[0]["at"] == LAB and rows[0]["labs"][LAB]["stage"] == "predicting"
    assert rows[1]["seen_ago_s"] is None and rows[1]["code"] == served.course.code("bob")


def test_a_students_question_of_the_knobs_is_his_own(served: Served) -> None:
    ada = served.joined("ada")
    answer = ada.ask({"settings": {**SETTINGS, "rate": "wrong"}})
    assert answer.status == 400 and answer.json["key"] == "rate"
    declared = served.client.send("GET", "/declarations").json
    assert declared["course"] == "cc-2027"
    # a class shares the machine's CPUs
    assert {preset["settings"]["sample"] for preset in declared["presets"]} == {"100ms"}


def test_requests_of_one_student_are_bounded(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "MAX_ANSWERING", 0)
    assert served.client.send("GET", "/teacher/class").status == 429


def test_a_guide_has_no_markup_of_its_own_and_no_link_into_the_checkout(tmp_path: Path) -> None:
    course = load_class(write_class(tmp_path))
    lab = replace(course.labs[0], folder=tmp_path / LAB)
    lab.folder.mkdir()
    (lab.folder / "README.md").write_text(
        "# A\n<script>x</script> [in](../x.md) [out](https://a.example) [no](javascript:x)"
        " ![picture](figure.png)\n\n| a |\n|---|\n| b |\n"
    )
    html = split_guide(lab).read
    assert "<script" not in html and "../x.md" not in html and 'href="javascript' not in html
    assert 'href="https://a.example"' in html and "<td>b</td>" in html
    assert f'src="/class/labs/{LAB}/figure.png"' in html


# -- a file of the student's own

ROW = """
name: mine
title: My row of the study
settings:
  profile: plain-100ms
  rate: {rate_mbit}mbit
  buffer: 66pkts
  duration: 60s
  buffers: {{rmem: [4KiB, 128KiB, 100MB], wmem: [4KiB, 16KiB, 100MB]}}
matrices:
  - name: row
    factors: {{cc: [{cc}], rtt: [{rtt_ms}ms]}}
    repetitions: 6
"""


@pytest.fixture
def row_lab(tmp_path: Path) -> Iterator[Served]:
    course = load_class(write_class(tmp_path, CLASS.replace("0, 1", "8, 9")))
    pool = RunPool(tmp_path / "knobs", 1, keeps_results=False)
    with serving(pool, ClassWork(course, pool)) as client:
        yield Served(client, course)


def test_of_an_own_experiment_those_runs_count_that_the_lab_asks_for(row_lab: Served) -> None:
    ada, path = row_lab.joined("ada"), "/class/labs/8-repeat"
    opened = ada.send("GET", path).json
    assert opened["own"] == {"file": "mine.yaml", "text": "", "is_run": True}
    row = ROW.format(**opened["values"])
    assert post(ada, f"{path}/own", {"text": row}).json == {"own_complaint": None}
    answer = {"section": "predictions", "key": "row_mbit", "text": "40"}
    assert post(ada, f"{path}/answers", answer).status == 204
    assert post(ada, f"{path}/seal", {}).status == 204
    runs = ada.send("GET", f"{path}/progress").json["runs"]
    assert [run["matrix"] for run in runs] == ["theirs"] * 2 + ["row"] * 6

    other = row.replace("repetitions: 6", "repetitions: 7").replace("66pkts", "67pkts")
    said = post(ada, f"{path}/own", {"text": other}).json["own_complaint"]
    assert said.endswith(": buffer") and "67pkts" in ada.send("GET", path).json["own"]["text"]
    assert len(ada.send("GET", f"{path}/progress").json["runs"]) == 2


def test_an_own_experiment_that_is_not_there_is_missed_from_the_sealing_on(row_lab: Served) -> None:
    ada, path = row_lab.joined("ada"), "/class/labs/8-repeat"
    assert ada.send("GET", path).json["own_complaint"] is None
    answer = {"section": "predictions", "key": "row_mbit", "text": "40"}
    assert post(ada, f"{path}/answers", answer).status == 204
    assert post(ada, f"{path}/seal", {}).status == 204
    assert "nothing there yet" in ada.send("GET", f"{path}/progress").json["own_complaint"]
    assert post(ada, f"{path}/own", {"text": " \n"}).json["own_complaint"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: [", "mine.yaml"),
        (ROW.replace("plain-100ms", "/etc/passwd"), "it reads a file"),
        (ROW.replace("buffer: 66pkts", "trace: rates.csv"), "it reads a file"),
        ("flows: {a: {kind: command, client: sleep 1, server: id}}", "it runs a program"),
    ],
)
def test_an_own_experiment_reads_no_file_and_runs_no_program(
    row_lab: Served, text: str, says: str
) -> None:
    ada, path = row_lab.joined("ada"), "/class/labs/8-repeat"
    values = ada.send("GET", path).json["values"]
    written = text.format(**values) if "{rate" in text else text
    assert says in post(ada, f"{path}/own", {"text": written}).json["own_complaint"]


def test_an_own_program_is_kept_and_not_compiled(row_lab: Served) -> None:
    ada, path = row_lab.joined("ada"), "/class/labs/9-two-tunnels"
    own = ada.send("GET", path).json["own"]
    assert own["file"] == "mine.c" and not own["is_run"] and "tcp_congestion_ops" in own["text"]
    text = "#error never\n"
    assert post(ada, f"{path}/own", {"text": text}).json == {"own_complaint": None}
    assert ada.send("GET", path).json["own"]["text"] == text
    assert post(ada, f"{path}/own", {"text": "x" * 40_000}).status == 400


def test_a_lab_that_wants_no_file_takes_none(served: Served) -> None:
    answer = post(served.joined("ada"), f"/class/labs/{LAB}/own", {"text": "x"})
    assert answer.status == 400 and "wants no file" in answer.json["text"]


# -- turns


def until(is_true: Callable[[], object]) -> None:
    end_s = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_nobody_waits_for_anothers_second_call() -> None:
    order: list[str] = []
    gate, begun, ended = threading.Event(), threading.Event(), threading.Semaphore(0)
    queue = TurnQueue(1)

    def call(name: str) -> Callable[[], None]:
        def work() -> None:
            begun.set()
            assert gate.wait(60)
            order.append(name)
            ended.release()

        return work

    for number in range(3):
        queue.submit("ada", call(f"ada {number}"))
        assert begun.wait(60)
    for student in ("bob", "cyd"):
        queue.submit(student, call(f"{student} 0"))
    queue.submit("bob", call("bob 1"))
    gate.set()
    for _ in range(6):
        assert ended.acquire(timeout=60)
    queue.shutdown()
    assert order[0] == "ada 0" and sorted(order[1:3]) == ["bob 0", "cyd 0"]
    assert sorted(order[3:5]) == ["ada 1", "bob 1"] and order[5] == "ada 2"


def test_of_those_with_as_many_turns_the_newest_call_is_next_and_pauses_save_none() -> None:
    order: list[str] = []
    queue, gate, begun = TurnQueue(1), threading.Event(), threading.Event()
    queue.submit("ada", lambda: begun.set() or gate.wait(60))
    assert begun.wait(60)
    for name in ("bob", "cyd", "dee", "bob"):
        queue.submit(name, order.append, name)
    gate.set()
    until(lambda: len(order) == 4)
    assert order == ["bob", "dee", "cyd", "bob"]

    gate.clear()
    begun.clear()
    queue.submit("bob", lambda: begun.set() or gate.wait(60))
    assert begun.wait(60)
    for name in ("new", "cyd", "cyd", "new"):
        queue.submit(name, order.append, name)
    gate.set()
    until(lambda: len(order) == 8)
    queue.shutdown()
    assert sorted(order[4:6]) == sorted(order[6:8]) == ["cyd", "new"]


def test_a_cancelled_call_uses_no_turn() -> None:
    order: list[str] = []
    queue, gate, ended = TurnQueue(1), threading.Event(), threading.Event()
    begun = threading.Event()
    queue.submit("ada", lambda: begun.set() or gate.wait(60))
    assert begun.wait(60)
    queue.submit("bob", lambda: False)
    queue.submit("bob", order.append, "bob")
    queue.submit("cyd", order.append, "cyd")
    queue.submit("cyd", ended.set)
    gate.set()
    assert ended.wait(60)
    queue.shutdown()
    assert sorted(order) == ["bob", "cyd"]


def test_a_call_that_fails_stops_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    queue, done = TurnQueue(1), threading.Event()
    queue.submit("ada", lambda: 1 / 0)
    queue.submit("ada", done.set)
    assert done.wait(60)
    queue.shutdown()
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_one_who_asks_twice_has_one_call_at_a_time() -> None:
    queue, gate = TurnQueue(2), threading.Event()
    active, seen = [0], []
    ended = threading.Semaphore(0)

    def work() -> None:
        active[0] += 1
        seen.append(active[0])
        gate.wait(0.05)
        active[0] -= 1
        ended.release()

    for _ in range(3):
        queue.submit("ada", work)
    with ExitStack() as stack:
        stack.callback(queue.shutdown)
        for _ in range(3):
            assert ended.acquire(timeout=60)
    assert seen == [1, 1, 1]


# -- class.yaml and the command


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("labs: [0]\n", "class.yaml:1: secret is missing"),
        (CLASS.replace("0, 1", "0, 77"), "class.yaml:4: labs[1]: lab \"'77'\""),
        (CLASS.replace("0, 1", "0, 0"), "class.yaml:4: labs[0]: 0-warm-up is there twice"),
        (CLASS.replace("students.csv", "none.csv"), "class.yaml:3: roster:"),
        (CLASS.replace("course.secret", "none"), "class.yaml:2: secret:"),
        (f"{CLASS}adress: https://x\n", "class.yaml:5: adress: unknown key"),
        (f"{CLASS}address: lab.example.org\n", "class.yaml:5: address"),
        (f"{CLASS}address: https://x/y\n", "class.yaml:5: address"),
    ],
)
def test_a_wrong_class_is_refused_in_one_line(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(BadInput) as refused:
        load_class(write_class(tmp_path, text))
    message = str(refused.value)
    assert "\n" not in message and line.replace("\"'77'\"", "") in message, message


def test_another_host_needs_a_class_and_an_address(tmp_path: Path, refused: Refused) -> None:
    assert "--class" in refused("serve", "--host", "0.0.0.0")
    file = write_class(tmp_path)
    assert "address:" in refused("serve", "--host", "0.0.0.0", "--class", file)


def test_the_host_is_the_address_of_the_class_or_the_loopback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = load_class(write_class(tmp_path, f"{CLASS}address: https://lab.example.org\n"))
    serve_cli.check_host("0.0.0.0", course)
    assert "TLS" in capsys.readouterr().err
    pool = RunPool(tmp_path / "knobs", 1)
    with serving(pool, ClassWork(course, pool)) as client:
        own = {"host": "lab.example.org", "origin": "https://lab.example.org"}
        code = {"name": "ada", "code": course.code("ada")}
        sent = json.dumps(code)
        answer = client.send("POST", "/class/join", sent, content_type="application/json", **own)
        assert answer.status == 204 and "; Secure" in answer.headers["set-cookie"]
        assert client.send("GET", "/class", host="evil.example").status == 421
        other = {"host": "lab.example.org", "origin": "https://evil.example"}
        assert client.send("POST", "/class/leave", "{}", **other).status == 403


def test_a_class_is_served_once(tmp_path: Path) -> None:
    with serve_cli.locked_folder(tmp_path / "work"):
        assert (tmp_path / "work").stat().st_mode & 0o077 == 0
        with pytest.raises(BadInput, match="another"), serve_cli.locked_folder(tmp_path / "work"):
            pass
