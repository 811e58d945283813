# SPDX-License-Identifier: MIT
"""Classroom labs: what is drawn, what is sealed, what earns points, and what never does."""

import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gostlab.atomic_write import write_json
from gostlab.classroom import grade_formats
from gostlab.classroom.answers import Answers, parse_number, sheet_of
from gostlab.classroom.expressions import FormulaError, evaluate, fill_formulas
from gostlab.classroom.grading import Grade, grade, score_answer
from gostlab.classroom.lab import CourseLab, find_lab, list_labs, load_lab
from gostlab.classroom.raw_metrics import RawRecords
from gostlab.classroom.rerun import compare_with_rerun
from gostlab.classroom.student_assignment import (
    ROUNDS,
    assignment_from_ticket,
    assignment_in_course,
    format_ticket,
    predictions_digest,
    read_ticket,
    seed_from_predictions,
    ticket_of,
)
from gostlab.classroom.workspace import (
    create_coursework,
    find_unfinished,
    open_coursework,
    seal_predictions,
    seed_of_predictions,
)
from gostlab.results import read_object
from gostlab.spec import preflight
from gostlab.spec.experiment import MAX_SEED, load_experiment
from gostlab.spec.yaml_source import BadInput
from gostlab.tcpmodel.response_functions import cubic_region_window, reno_window
from gostlab.text_safety import replace_controls
from tests.classroom.handins import (
    NOW,
    Steady,
    asked_of,
    finish,
    make_hand_in,
    make_run,
    rewrite,
    shortened,
)
from tests.lab_command import Refused, Typed

ROOT = Path(__file__).resolve().parents[2]
LABS = [load_lab(str(folder)) for folder in list_labs()]
BY_NUMBER = {lab.number: lab for lab in LABS}


def warm_up() -> CourseLab:
    """The smallest lab."""
    return BY_NUMBER[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Alice's hand-in of lab 0, all right."""
    return make_hand_in(tmp_path_factory.mktemp("made"), asked_of(warm_up()))


@pytest.fixture
def hand_in(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "alice"))


def graded(folder: Path, student: str = "alice") -> Grade:
    """Its grade as Alice's."""
    return grade(asked_of(warm_up(), student), folder)


# -- the labs


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_every_draw_is_an_experiment_that_no_guard_refuses(lab: CourseLab) -> None:
    for number in range(12):
        assignment = asked_of(lab, f"student-{number}")
        runs = [*assignment.runs(1), *assignment.own_runs(1)]
        assert len({run.name for run in runs}) == len(runs)
        assert max(run.path.forward.rate_bps for run in runs) <= 100_000_000
        errors, _ = preflight.survey_traps(runs)
        assert errors == []


def test_everybodys_tunnel_is_the_same_program(tmp_path: Path) -> None:
    for number in (7, 9):
        tunnelled = [run for run in asked_of(BY_NUMBER[number]).runs(1) if run.tunnel != "direct"]
        assert {run.gost for run in tunnelled} == {"relay"}
    shutil.copytree(BY_NUMBER[7].folder, tmp_path / "mine")
    rewrite(tmp_path / "mine/experiment.yaml", "gost: relay", "gost: auto")
    mine = load_lab(str(tmp_path / "mine"))
    tunnelled = [run for run in asked_of(mine).runs(1) if run.tunnel != "direct"]
    assert {run.gost_program for run in tunnelled} == {"relay"}
    rewrite(tmp_path / "mine/experiment.yaml", r"relay\+ws\b", "gost+ws")
    with pytest.raises(BadInput, match="write relay"):
        asked_of(replace(mine, folder=shutil.copytree(mine.folder, tmp_path / "again"))).runs(1)


def test_a_lab_is_found_by_number_name_and_path() -> None:
    folder = warm_up().folder
    for word in ("0", "labs/0", "warm-up", "0-warm-up", "labs/0-warm-up", str(folder)):
        assert find_lab(word).resolve() == folder.resolve()
    with pytest.raises(BadInput, match="there is no such lab"):
        find_lab("bufferbleat")


# -- formulas


def test_a_formula_computes_and_does_nothing_else() -> None:
    names: dict[str, Any] = {"rate": 20, "word": "ws"}
    assert evaluate("2 * rate + 1", names) == 41
    assert evaluate("'a' if rate > 10 and word == 'ws' else 'b'", names) == "a"
    assert evaluate("sqrt(rate * 5)", names) == pytest.approx(10)
    assert evaluate("bdp_pkts(20, 60)", {}) == pytest.approx(20e6 * 0.06 / 8 / 1514)
    assert evaluate("queue_ms(100, 10)", {}) == pytest.approx(121.12)
    assert fill_formulas("<2 * rate>ms, <rate / 8>", names) == "40ms, 2.5"
    acts = ("__import__('os')", "(1).__class__", "[1]", "rate[0]", "lambda: 1", "f'{rate}'")
    has_no_value = ("9 ** 9 ** 9", "1 / 0", "nobody", "sqrt(-1)", "1e308 * 10", "'a' + 1", "x" * 10)
    for wrong in (*acts, *has_no_value, "rate(1)", "sqrt", "1 +"):
        with pytest.raises(FormulaError):
            evaluate(wrong, names)


def test_cubic_leaves_renos_region_where_both_windows_are_equal() -> None:
    loss = evaluate("cubic_leaves_reno(80)", {})
    assert cubic_region_window(float(loss), 0.08) == pytest.approx(reno_window(float(loss)))


# -- tickets, seeds, predictions


def test_two_students_have_other_values_and_one_student_the_same_again() -> None:
    lab = warm_up()
    drawn = {tuple(asked_of(lab, f"s{number}").values.values()) for number in range(60)}
    assert len(drawn) > 20
    assert asked_of(lab, "s1") == asked_of(lab, "s1")


def test_a_ticket_hangs_on_course_student_lab_and_secret() -> None:
    lab, other = BY_NUMBER[0], BY_NUMBER[1]
    secrets = (b"0123456789abcdef", b"0123456789abcdeg")
    tickets = {
        *(ticket_of(lab, student, "c", None) for student in "ab"),
        *(ticket_of(one, "a", course, None) for one, course in ((lab, "d"), (other, "c"))),
        *(ticket_of(lab, "a", "c", secret) for secret in secrets),
    }
    assert len(tickets) == 6
    with pytest.raises(BadInput, match="32 digits"):
        assignment_from_ticket(lab, "a", "c", "12")
    for name in ("", "../x", "a b", "a" * 65, "é"):
        with pytest.raises(BadInput, match="letters, digits"):
            ticket_of(lab, name, "c", None)


def test_other_predictions_are_other_runs() -> None:
    assignment = asked_of(warm_up())
    first, second = (assignment.seed({"idle_rtt_ms": text}) for text in ("60", "61"))
    assert first != second
    assert {run.name for run in assignment.runs(first)}.isdisjoint(
        run.name for run in assignment.runs(second)
    )
    assert 1 <= first <= MAX_SEED and ROUNDS >= 10_000
    assert seed_from_predictions("a", "b") != seed_from_predictions("a", "c")


def test_the_largest_seed_is_still_one_that_an_experiments_file_may_have(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(f"name: own\ntitle: t\nseed: {MAX_SEED}\nmatrices: [{{name: a}}]\n", "utf-8")
    assert load_experiment(str(file)).seed == MAX_SEED
    assert (1000 * MAX_SEED + 1000) * 1000 + 1000 < 2**63  # what netem's seed is made of


def test_predictions_are_sealed_once(tmp_path: Path) -> None:
    assignment = asked_of(warm_up())
    create_coursework(assignment, tmp_path)
    with pytest.raises(BadInput, match="nothing there"):
        seal_predictions(tmp_path, assignment)
    told = dict.fromkeys(warm_up().keys("predictions"), "60")
    sheet = tmp_path / "answers.yaml"
    sheet.write_text(sheet_of(Answers("alice", told, {})))
    seal_predictions(tmp_path, assignment)
    rewrite(sheet, 'bdp_pkts: "60"', 'bdp_pkts: "61"')
    with pytest.raises(BadInput, match="others than the sealed"):
        seed_of_predictions(tmp_path, assignment)
    with pytest.raises(BadInput, match="those count"):
        seal_predictions(tmp_path, assignment)
    assert open_coursework(tmp_path) == replace(assignment, lab=open_coursework(tmp_path).lab)


def test_what_a_student_is_to_find_out_is_not_told(tmp_path: Path) -> None:
    lab = BY_NUMBER[8]
    assignment = asked_of(lab)
    create_coursework(assignment, tmp_path)
    told = json.loads((tmp_path / "assignment.json").read_text("utf-8"))
    assert "trap" in assignment.values and "trap" not in told["values"]
    assert f"| trap | {assignment.values['trap']}" not in (tmp_path / "TASK.md").read_text("utf-8")


def test_numbers_are_read_as_people_and_programs_write_them() -> None:
    assert [parse_number(text) for text in ("41.2", "1e-4", " 5 % ", "-0.5")] == [
        41.2,
        1e-4,
        5,
        -0.5,
    ]
    assert parse_number("0.00011840000000000005") == pytest.approx(1.184e-4)
    for text in ("", "4,1", "1_0", "0x10", "nan", "inf", "1e999", "4 Mbit/s", "²", "0." + "1" * 31):
        assert parse_number(text) is None


# -- a good hand-in, and those that are not


def test_a_right_hand_in_has_every_point(hand_in: Path) -> None:
    found = graded(hand_in)
    assert (found.problems, found.points) == ((), found.most)
    assert all(each.asked and each.got and each.band and each.source for each in found.scored)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_every_lab_can_be_graded_from_files(number: int, tmp_path: Path) -> None:
    lab = BY_NUMBER[number]
    folder = make_hand_in(tmp_path / "alice", asked_of(lab))
    found = grade(asked_of(lab), folder)
    assert found.problems == ()
    lost = [each.name for each in found.scored if not each.passed]
    # made-up runs are steady ones: only their bands, and guesses of what they would do, are off
    assert all(name.startswith(("run-", "predict-")) for name in lost)


@pytest.mark.parametrize(
    ("file", "pattern", "says"),
    [
        ("flows.json", r'"p95_ms": 60.0', "flows.json: call: ping_p95_ms 20.0, its report says 60"),
        ("pings.jsonl", r'"rtt_ms": 60.0', "pings.jsonl: call: its round trips are not those"),
    ],
)
def test_a_calls_round_trips_are_those_of_its_report(
    tmp_path: Path, file: str, pattern: str, says: str
) -> None:
    folder = make_hand_in(tmp_path / "alice", asked_of(BY_NUMBER[4]))
    run = next(folder.glob("results/*/manager-fifo-*"))
    rewrite(run / file, pattern, pattern.replace("60", "20"))
    finish(run)
    (problem,) = grade(asked_of(BY_NUMBER[4]), folder).problems
    assert says in problem


@pytest.mark.parametrize(
    ("again_ms", "same", "says"), [(61, True, "within"), (80, False, "80 in the rerun")]
)
def test_a_rerun_compares_the_calls_round_trips(
    tmp_path: Path, again_ms: float, same: bool, says: str
) -> None:
    run = next(run for run in asked_of(BY_NUMBER[4]).runs(1) if run.matrix == "manager")
    first, again = (
        RawRecords(make_run(tmp_path / name, run, Steady(9.0, srtt_ms=rtt_ms)), run)
        for name, rtt_ms in (("first", 60.0), ("again", again_ms))
    )
    is_same, lines = compare_with_rerun(first, again)
    assert is_same == same
    assert says in lines[-1]


def test_a_text_that_yaml_takes_for_something_else_is_to_be_quoted(hand_in: Path) -> None:
    sheet = hand_in / "answers.yaml"
    rewrite(sheet, "^  why_below_rate: .*$", "  why_below_rate: headers: 66 bytes of 1514")
    (problem,) = graded(hand_in).problems
    assert "in quotes" in problem
    rewrite(sheet, "^  why_below_rate: .*$", '  why_below_rate: "headers: 66 bytes, #1"')
    found = graded(hand_in)
    assert (found.problems, found.by_hand[0].text) == ((), "headers: 66 bytes, #1")


def test_values_that_read_alike_are_no_band(hand_in: Path) -> None:
    bands = {each.name: each.band for each in graded(hand_in).scored}
    ends = [re.findall(r"between (\S+) and (\S+)", band) for band in bands.values()]
    assert all(low != high for found in ends for low, high in found)


def test_an_answer_outside_its_band_costs_its_points_alone(tmp_path: Path) -> None:
    wrong = {"read-goodput": "1", "predict-bdp": "7", "where": "rate"}
    found = graded(make_hand_in(tmp_path / "a", asked_of(warm_up()), wrong))
    assert {each.name for each in found.scored if not each.passed} == set(wrong)
    assert found.points == found.most - 5


def test_what_the_run_shows_a_formula_and_all_between_are_right() -> None:
    point = next(each for each in BY_NUMBER[7].points if each.name == "predict-loss")
    names: dict[str, Any] = {"loss": 2, "rtt_ms": 36, "lost_ws": 2.37}
    for given, is_right in (
        ("2.15", 1),
        ("2.79", 1),
        ("2.37", 1),
        ("2.5", 1),
        ("1.6", 0),
        ("3.6", 0),
    ):
        *_, why = score_answer(point, given, names)
        assert (not why) == is_right, given
    del names["lost_ws"]  # a run that does not count
    assert not score_answer(point, "2.15", names)[-1]


def test_a_text_is_still_to_be_marked_and_an_empty_one_is_not(tmp_path: Path) -> None:
    lab = warm_up()
    found = graded(make_hand_in(tmp_path / "a", asked_of(lab)))
    assert (found.points, found.most, found.to_mark) == (
        lab.most,
        lab.most,
        lab.points_with_texts - lab.most,
    )
    assert (
        f"of {lab.points_with_texts} points so far: {found.to_mark} are still to be marked"
        in found.total
    )
    empty = graded(make_hand_in(tmp_path / "b", asked_of(lab), {"explain": ""}))
    assert (empty.to_mark, empty.most) == (0, lab.points_with_texts)


def test_predictions_of_another_receipt_earn_nothing_and_the_rest_does(hand_in: Path) -> None:
    assignment = asked_of(warm_up())
    sealed = read_object(hand_in / "predictions.json") or {}
    receipt = assignment.receipt(sealed["predictions"])
    assert grade(assignment, hand_in, receipt).points == graded(hand_in).points
    predicted = sum(point.points for point in warm_up().points if point.is_prediction)
    for other in ("0000-0000", ""):
        found = grade(assignment, hand_in, other)
        assert found.points == graded(hand_in).points - predicted
        assert all("sealed" in each.why for each in found.scored if not each.passed)


def test_another_students_folder_earns_nothing(tmp_path: Path) -> None:
    folder = make_hand_in(tmp_path / "bob", asked_of(warm_up(), "bob"))
    assert graded(folder, "bob").points > 0
    assert graded(folder, "alice").points == 0
    # with the name in it changed, the runs are still Bob's
    for name in ("answers.yaml", "assignment.json", "predictions.json"):
        rewrite(folder / name, '"bob"', '"alice"')
    found = graded(folder, "alice")
    assert found.points == 0
    assert any("belong to other predictions, another student" in each for each in found.problems)


def test_a_course_with_a_secret_takes_no_tickets_that_anybody_can_make(hand_in: Path) -> None:
    found = grade(asked_of(warm_up(), secret=b"0123456789abcdef"), hand_in)
    assert found.points == 0 and "ticket" in found.problems[0]


def test_a_ticket_checks_itself_its_lab_its_student_and_its_course() -> None:
    lab, other = warm_up(), BY_NUMBER[1]
    digits = ticket_of(lab, "alice", "c", b"0123456789abcdef")
    handed = format_ticket(lab, "alice", "c", digits)
    assert read_ticket(lab, "alice", "c", f" {handed.upper()}\n") == digits
    at = len(lab.name) + 5
    wrong = handed[:at] + ("0" if handed[at] != "0" else "1") + handed[at + 1 :]
    for named, student, course, text, says in (
        (lab, "alice", "c", wrong, "mistyped"),
        (lab, "alice", "public", handed, "--course"),
        (lab, "alicia", "c", handed, "alicia"),
        (other, "alice", "c", handed, f"of lab {lab.name}"),
        (lab, "alice", "c", digits, "copy all of it"),
    ):
        with pytest.raises(BadInput, match=re.escape(says)):
            read_ticket(named, student, course, text)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "'spring'"),
        (["--course", "spring"], "--secret"),
        (["--secret", "SECRET"], "--course"),
        (["--course", "autumn", "--secret", "SECRET"], "'autumn'"),
    ],
)
def test_an_honest_students_work_is_not_graded_by_a_command_that_lacks_the_course(
    here: Path, typed: Typed, refused: Refused, words: list[str], says: str
) -> None:
    (here / "SECRET").write_text("0123456789abcdef")
    lab = warm_up()
    asked = assignment_in_course(lab, "alice", "spring", b"0123456789abcdef")
    make_hand_in(here / "alice", asked)

    assert says in refused("grade", 0, "alice", *words)
    assert "0-warm-up" in refused("grade", 1, "alice", *words)
    done = typed(*"grade 0 alice --course spring --secret SECRET --format json".split())
    assert done.returncode == 0
    assert json.loads(done.stdout)["points"] == lab.most


@pytest.mark.parametrize("text", ["46,1", "46.1 Mbit/s", "nan", "1e400", ""])
def test_a_hand_in_is_not_complete_with_an_answer_that_nobody_can_judge(
    hand_in: Path, text: str
) -> None:
    rewrite(hand_in / "answers.yaml", "^  goodput_mbit: .*$", f"  goodput_mbit: {json.dumps(text)}")
    (line,) = find_unfinished(hand_in, asked_of(warm_up()))
    assert "answers.goodput_mbit" in line


def test_a_word_counts_in_any_case_and_with_a_full_stop(hand_in: Path) -> None:
    rewrite(hand_in / "answers.yaml", '"window"', '" Window."')
    assert graded(hand_in).points == warm_up().most


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON file, and the length that its run's status tells of it."""
    value = read_object(path)
    change(value)
    write_json(path, value)
    if path.name != "status.json" and (path.parent / "status.json").is_file():
        size = path.stat().st_size
        edit(path.parent / "status.json", lambda it: it["files"].update({path.name: size}))


def run_of(hand_in: Path) -> Path:
    """The folder of its run behind one BDP."""
    (folder,) = (hand_in / "results").glob("*/one-*")
    return folder


@pytest.mark.parametrize(
    ("name", "key", "values"),
    [
        ("flows.json", "flows 0", {"goodput_bps": 1e9}),
        ("flows.json", "flows 0", {"bytes": 5}),
        ("flows.json", "flows 0", {"retransmits": 0}),
        ("iperf3.json", "end sum_received", {"bytes": 10**9}),
        ("iperf3.json", "end sum_received", {"bits_per_second": 1}),
        ("iperf3-server.json", "end sum_received", {"bytes": 10**9}),
        ("iperf3-server.json", "intervals 0 sum", {"bytes": 10**9}),
        ("iperf3.json", "start test_start", {"duration": 99}),
        ("iperf3.json", "start", {"cookie": "x"}),
        ("legs.json", "legs 0", {"bytes_acked": 10**9}),
        ("legs.json", "legs 0", {"segments_retransmitted": 900}),
        ("fidelity.json", "", {"verdict": "invalid"}),
        ("fidelity.json", "checks 0", {"verdict": "invalid"}),
        ("fidelity.json", "", {"checks": []}),
        ("fidelity.json", "checks 1", {"got": 0.5}),
        ("status.json", "", {"outcome": "failed"}),
        ("status.json", "", {"files": {}}),
        ("status.json", "files", {"flows.json": 1}),
        ("status.json", "", {"epoch": 0}),
        ("run.json", "", {"seed": 1}),
        ("run.json", "path forward", {"rate_bps": 10**9}),
    ],
)
def test_an_edited_file_makes_the_run_count_for_nothing(
    name: str, key: str, values: dict[str, Any], hand_in: Path
) -> None:
    def change(content: Any) -> None:
        for each in key.split():
            content = content[int(each) if each.isdigit() else each]
        content.update(values)

    edit(run_of(hand_in) / name, change)
    found = graded(hand_in)
    assert (found.points, len(found.problems)) == (0, max(1, len(found.problems)))


def test_a_block_that_the_end_of_a_run_cuts_is_no_contradiction(hand_in: Path) -> None:
    run, most = run_of(hand_in), graded(hand_in).points

    def last_block_later(report: Any) -> None:
        report["intervals"][-1]["sum"]["bytes"] -= 2**17

    edit(run / "iperf3-server.json", last_block_later)
    edit(
        run / "legs.json",
        lambda it: it["legs"][0].update(bytes_acked=it["legs"][0]["bytes_acked"] + 2**17 - 1),
    )
    found = graded(hand_in)
    assert not found.problems and found.points == most > 0


def test_a_block_that_is_in_none_of_iperf3s_intervals_is_no_contradiction(hand_in: Path) -> None:
    run, most = run_of(hand_in), graded(hand_in).points

    def missing(blocks: int) -> tuple[str, ...]:
        def take(report: Any) -> None:
            report["intervals"][0]["sum"]["bytes"] = (
                report["end"]["sum_received"]["bytes"] - blocks * 2**17
            )

        edit(run / "iperf3-server.json", take)
        return tuple(graded(hand_in).problems)

    assert missing(3) == () and graded(hand_in).points == most
    assert "its intervals sum to" in missing(5)[0]


def test_segments_sent_again_after_iperf3_looked_are_no_contradiction(hand_in: Path) -> None:
    legs = run_of(hand_in) / "legs.json"
    before = (read_object(legs) or {})["legs"][0]["segments_retransmitted"]

    def sent_again(count: int) -> tuple[str, ...]:
        edit(legs, lambda it: it["legs"][0].update(segments_retransmitted=count))
        return tuple(graded(hand_in).problems)

    assert sent_again(before + 6) == ()
    assert any("retransmitted" in line for line in sent_again(before + 30))
    assert any("retransmitted" in line for line in sent_again(before - 1))
    # the overflow of a large window is repaired late
    rewrite(legs.with_name("sockets.jsonl"), '"cwnd_pkts": 40', '"cwnd_pkts": 1000')
    finish(legs.parent)
    assert sent_again(before + 30) == ()


def test_bytes_that_only_the_summaries_agree_on_are_seen_in_the_samples(hand_in: Path) -> None:
    run = run_of(hand_in)

    def faster(report: Any) -> None:
        for each in report["intervals"]:
            each["sum"]["bytes"] *= 2
        end = report["end"]["sum_received"]
        end["bytes"] *= 2
        end["bits_per_second"] *= 2

    def doubled(row: Any, *names: str) -> None:
        row.update({name: 2 * row[name] for name in names})

    edit(run / "iperf3.json", faster)
    edit(run / "iperf3-server.json", faster)
    edit(run / "flows.json", lambda it: doubled(it["flows"][0], "bytes", "goodput_bps"))
    edit(run / "legs.json", lambda it: doubled(it["legs"][0], "bytes_acked"))
    assert any("sockets.jsonl" in line for line in graded(hand_in).problems)


def test_predictions_after_the_fact_earn_nothing(hand_in: Path) -> None:
    sealed = read_object(hand_in / "predictions.json") or {}
    sealed["predictions"]["bdp_pkts"] = "1"
    write_json(hand_in / "predictions.json", sealed)
    assert "changed since it was sealed" in graded(hand_in).problems[0]
    sealed["sha256"] = predictions_digest(sealed["predictions"])
    write_json(hand_in / "predictions.json", sealed)
    found = graded(hand_in)
    assert found.points == 0 and "are not there" in found.problems[0]


def test_a_run_that_began_before_its_predictions_earns_nothing(tmp_path: Path) -> None:
    folder = make_hand_in(tmp_path / "a", asked_of(warm_up()), sealed=NOW + timedelta(minutes=1))
    assert "began before the predictions were sealed" in graded(folder).problems[0]


def test_what_answers_yaml_predicts_later_does_not_count(hand_in: Path) -> None:
    rewrite(hand_in / "answers.yaml", "bdp_pkts: .*", 'bdp_pkts: "1"')
    assert graded(hand_in).points == graded(hand_in).most  # the sealed one stands


def test_a_hand_in_without_runs_earns_nothing(hand_in: Path) -> None:
    shutil.rmtree(hand_in / "results")
    found = graded(hand_in)
    assert found.points == 0 and "./lab lab run" in found.problems[0]


def test_own_runs_may_be_called_anything_and_must_be_what_was_asked(tmp_path: Path) -> None:
    lab = BY_NUMBER[8]
    assignment = asked_of(lab)
    folder = make_hand_in(tmp_path / "a", assignment)
    assert "6 of 8 runs are not there" in grade(assignment, folder).problems[0]
    sealed = read_object(folder / "predictions.json") or {}
    for run in assignment.own_runs(assignment.seed(sealed["predictions"])):
        mine = replace(run, experiment="mine", matrix="my-row", factors={})
        make_run(folder / "results", mine, Steady(40.0))
    found = grade(assignment, folder)
    assert found.problems == ()
    outside = next((folder / "results/mine").iterdir())
    edit(outside / "run.json", lambda it: it.update(experiment="../../outside"))
    assert grade(assignment, folder).points == 0


# -- formats


def kinds(**named: str) -> dict[str, str]:
    """Of each key its kind."""
    return {key: kind for kind, keys in named.items() for key in keys.split()}


# What a reader takes, in all and of each test: Gradescope's specs, Classroom 50's wiki.
TAKEN = {
    "gradescope": (
        kinds(int="score", str="output visibility stdout_visibility", dict="extra_data", list="tests"),
        kinds(int="score max_score", str="number name status output output_format visibility", list="tags"),
    ),
    "classroom50": (
        kinds(int="score max-score", list="tests problems", str="schema classroom assignment owner"
              " submission commit release review datetime graded_at"),
        kinds(int="score max-score", bool="passed", str="test-name message"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("student", ["alice", "bob"])
def test_every_format_is_what_its_reader_takes(hand_in: Path, student: str) -> None:
    found = graded(hand_in, student)
    environ = {"CLASSROOM": "cs", "ASSIGNMENT": "lab0", "OWNER": student, "SUBMISSION_TAG": "s/1"}
    told = {
        form: grade_formats.format_grade(found, form, environ, NOW)
        for form in grade_formats.FORMATS
    }
    for form, wanted in TAKEN.items():
        made = json.loads(told[form])
        assert made["score"] == found.points and len(made["tests"]) == len(found.scored)
        for row, keys in ((made, wanted[0]), *((test, wanted[1]) for test in made["tests"])):
            assert {key: type(value).__name__ for key, value in row.items()} == keys
            assert "" not in row.values() and row.get("status", "passed") in ("passed", "failed")
    assert made["schema"] == "classroom50/result/v1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", made["datetime"])
    assert json.loads(told["json"])["points"] == found.points
    junit = ElementTree.fromstring(told["junit"])
    assert junit.tag == "testsuite"
    assert int(junit.attrib["tests"]) == len(junit.findall("testcase")) == len(found.scored)
    assert int(junit.attrib["failures"]) == len(junit.findall("testcase/failure"))
    assert found.total in told["text"]


def test_what_xml_has_no_place_for_is_left_out() -> None:
    assert replace_controls("a\x00\ud800b￾") == "a\ufffd\ufffdb\ufffd"


# -- 10,000 spoilt hand-ins

ODD: list[Any] = [
    *(None, True, -1, 0, 1e308, 10**400, float("nan"), 2**63, -(10**18), "", "x" * 3000, "nan"),
    *([], {}, [[]], {"a": 1}, [None], {"sum": None}),
    *("../../etc/passwd", "\ud800", "2026-13-45T99:99:99Z"),
]


def spoil(rng: random.Random, path: Path) -> None:
    """Break one file: bytes, or a value somewhere inside."""
    data = path.read_bytes()
    how = rng.randrange(8)
    if how == 0:
        path.unlink()
    elif how == 1:
        path.write_bytes(data[: rng.randrange(len(data) + 1)])
    elif how == 2 and data:
        spot = rng.randrange(len(data))
        path.write_bytes(data[:spot] + rng.randbytes(rng.randrange(1, 9)) + data[spot + 1 :])
    elif how == 3:
        path.write_bytes(b"[" * 50_000)
    elif path.suffix == ".json":
        value = json.loads(data)
        change_one(rng, value)
        path.write_text(json.dumps(value), encoding="utf-8", errors="surrogatepass")
    elif path.suffix == ".jsonl":
        lines = data.split(b"\n")
        row = json.loads(lines[0])
        change_one(rng, row)
        lines[rng.randrange(len(lines))] = json.dumps(row).encode("utf-8", "surrogatepass")
        path.write_bytes(b"\n".join(rng.sample(lines, len(lines)) if how == 7 else lines))
    else:
        text = data.decode("utf-8").replace(":", rng.choice([": [", ": &a", ": !!python", "::"]), 1)
        path.write_text(text, encoding="utf-8")


def change_one(rng: random.Random, value: Any) -> None:
    """Put something odd in place of one value."""
    known = list(places(value))
    if not known:
        return
    holder, key = rng.choice(known)
    inner = holder[key]
    if rng.random() < 0.2 and isinstance(holder, dict):
        del holder[key]
    elif rng.random() < 0.3 and isinstance(inner, int | float):
        holder[key] = inner * rng.choice([0.5, 2, -1, 1.01, 1000])
    else:
        holder[key] = rng.choice(ODD)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Where the values within a value stand."""
    inside = isinstance(value, dict | list)
    for key in (value if isinstance(value, dict) else range(len(value))) if inside else ():
        yield value, key
        yield from places(value[key])


@pytest.mark.slow
def test_spoilt_hand_ins_end_in_a_grade_and_none_in_more_points(tmp_path: Path) -> None:
    """Two thousand; with GOSTLAB_SOAK=1 ten thousand."""
    count = 10_000 if os.environ.get("GOSTLAB_SOAK") == "1" else 2_000
    rng = random.Random(12)
    short_lab = shortened(tmp_path / "0-warm-up")
    assignment = asked_of(short_lab)
    wrong = {"read-goodput": "1", "predict-bdp": "7", "read-high-rtt": "3"}
    good = make_hand_in(tmp_path / "good", assignment, wrong)
    most = grade(assignment, good).points
    assert 0 < most < short_lab.most
    kept = {path: path.read_bytes() for path in good.rglob("*") if path.is_file()}
    files = sorted(kept)
    spared = 0
    for number in range(count):
        spoilt = rng.sample(files, rng.choice([1, 1, 1, 2, 3]))
        for path in spoilt:
            if path.exists():
                spoil(rng, path)
        if rng.random() < 0.5 and (status := next(iter(good.glob("results/*/*/run.json")), None)):
            finish(status.parent)  # who mends the lengths in status.json
        found = grade(assignment, good)
        assert found.points <= most, [str(path) for path in spoilt]
        for form in grade_formats.FORMATS if number % 10 == 0 else ():
            grade_formats.format_grade(found, form, {}, NOW).encode("utf-8", "surrogatepass")
        spared += found.points == most
        for path in {*spoilt, *(each for each in kept if each.name == "status.json")}:
            path.write_bytes(kept[path])
    assert spared < 0.4 * count  # most of them were seen
