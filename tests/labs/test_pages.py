# SPDX-License-Identifier: MIT
"""The labs' pages: whoever follows one literally finds each word, number, formula and command."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from gostlab.classroom.lab import CourseLab, list_labs, load_lab
from gostlab.classroom.lint_lab import check_lab
from gostlab.classroom.workspace import task_of
from gostlab.cli.live_view import MAX_RUNS
from gostlab.cli.main import build_parser, main
from tests.classroom.handins import asked_of
from tests.lab_command import ROOT

LABS = [load_lab(str(folder)) for folder in list_labs()]
PAGES = sorted(
    [
        ROOT / "labs/README.md",
        *(ROOT / "labs").glob("*/README.md"),
        *(ROOT / "labs").glob("*/plan.md"),
    ]
)
HEADINGS = {"Goal", "Background", "Tasks", "Questions", "Hand in"}
NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
# Where a formula of check.yaml is used, the page has it: a part that no other formula has.
FORMULAS = {
    "bdp_pkts": "8 × 1514",
    "payload_mbit": "1448 / 1514",
    "window_mbit": "8 / round trip",
    "queue_ms": "Q × 1514 × 8 / C",
    "reno_window": "√(3/2) / √p",
    "cubic_window": "1.054 · (RTT / p)^¾",
    "cubic_leaves_reno": "1.054 · (RTT / p)^¾",
    "pftk_window": "3 · √(3p/8) · p · (1 + 32 p²)",
}
# Constants that a formula needs and no page has to say: units, a share of equals, and instants that
# are the answer itself, reached from a clock of ten seconds that lasts 0.2 s.
UNITS = {"0", "1", "2", "8", "100", "1000", "1024", "0.5", "1448", "10.2", "20.4"}


def commands(text: str) -> Iterator[str]:
    """Every ./lab command of a page: in blocks, and between backticks."""
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        if re.match(r" {4,}\./lab ", line):
            yield line.strip()
    for command in re.findall(r"`(\./lab [^`]+)`", joined):
        yield " ".join(command.split())


def can_be_typed(words: list[str]) -> bool:
    """Whether the command line takes them."""
    try:
        build_parser(words[0]).parse_args(words)
    except SystemExit as stop:
        return stop.code == 0
    return True


@pytest.mark.parametrize("page", NAMES)
def test_every_run_that_a_page_asks_for_can_be_made(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    for command in commands((ROOT / page).read_text("utf-8")):
        words = shlex.split(command, comments=True)[1:]
        if words[0] not in ("try", "run") or len(words) < 3 or "mended" in command:
            continue
        asked = [word for word in words if word not in ("--live", "--pace", "2", "4")]
        status = main([*asked, "--dry-run", "--machine", "sandbox", "--results", str(tmp_path)])
        printed = capsys.readouterr()
        assert status == 0, f"{command}: {printed.err}"
        if "--live" in words:
            runs = printed.out.split()
            assert 1 <= len(runs) <= MAX_RUNS, command


@pytest.mark.parametrize("page", NAMES)
def test_no_command_or_link_leads_nowhere(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((ROOT / page).parent / target).exists(), target
    for command in commands(text):
        for word in shlex.split(command, comments=True):
            if word.startswith("labs/"):
                assert (ROOT / word).exists(), word


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_lab_is_whole_and_its_page_has_every_question_value_and_section(lab: CourseLab) -> None:
    check_lab(lab)
    assert (lab.folder / "figure.png").is_file()
    page = (lab.folder / "README.md").read_text("utf-8")
    assert set(re.findall(r"^## (.+)$", page, re.MULTILINE)) >= HEADINGS
    typed = re.findall(r"^    \./lab lab (\S+) (\S+)", section(page, "Tasks"), re.MULTILINE)
    assert [step for step, _ in typed] == ["start", "predict", "run", "report", "hand-in"]
    assert {word for _, word in typed} == {str(lab.number)}
    listed = (ROOT / "labs/README.md").read_text("utf-8")
    for name in ("README.md", "plan.md"):
        assert f"({lab.name}/{name})" in listed
    runs = [*asked_of(lab).runs(1), *asked_of(lab).own_runs(1)]
    assert re.search(rf"\({lab.name}/README\.md\) \| [^|]+ \| {len(runs)} \|", listed)


def numbers_in(formula: str) -> set[str]:
    """The constants of a formula, as people write them; those of a comparison aside."""
    tree = ast.parse(formula, mode="eval")
    compared = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for side in (node.left, *node.comparators)
        for part in ast.walk(side)
    }
    return {
        f"{node.value:g}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and id(node) not in compared
    }


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_what_an_answer_is_computed_from_stands_on_the_page(lab: CourseLab) -> None:
    page = " ".join((lab.folder / "README.md").read_text("utf-8").split())
    for point in lab.points:
        if point.answer is None or point.expect is None:
            continue
        for function, words in FORMULAS.items():
            if f"{function}(" in point.expect:
                assert words in page, f"{point.name}: {function}: {words}"
        for number in numbers_in(point.expect) - UNITS:
            assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d])", page), (
                f"{point.name}: {number} of {point.expect}"
            )


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_column_that_a_page_names_is_one_of_the_reports(lab: CourseLab) -> None:
    source = "".join(
        (ROOT / path).read_text("utf-8").replace("\\u00a0", " ")
        for path in (
            *("analysis/stats/table_formats.py", "analysis/stats/metrics.py"),
            "analysis/report/tables.py",
        )
    )
    page = " ".join((lab.folder / "README.md").read_text("utf-8").split())
    named = re.findall(r"(?:[Cc]olumn|table) \*([^*]+)\*", page)
    assert named or lab.number == 8
    for words in named:
        flow = re.sub(r"^(cubic|second|short|yours|theirs)\b", "{flow}", words)
        # A metric's heading is its description with a capital.
        assert f'"{flow}' in source or f'"{flow[0].lower()}{flow[1:]}' in source, words


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_the_task_has_every_setting_of_the_students_runs(lab: CourseLab) -> None:
    task = task_of(asked_of(lab))
    for setting in ("rate", "rtt", "buffer", "duration", *lab.sets):
        experiment = lab.experiment_path.read_text("utf-8")
        if f"{setting}:" in experiment.partition("matrices:")[0] or setting in lab.sets:
            assert re.search(rf"^\| {re.escape(setting)} \| `.+` \|$", task, re.MULTILINE), setting


def section(text: str, heading: str) -> str:
    """What stands below a heading."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert found, heading
    return found[1]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_question_that_says_try_has_its_command(lab: CourseLab) -> None:
    text = section((lab.folder / "README.md").read_text("utf-8"), "Questions")
    for question in re.split(r"^- ", text, flags=re.MULTILINE)[1:]:
        if re.search(r"\btry\b", question, re.IGNORECASE):
            assert re.search(r"^ {4,}\./lab |`\./lab ", question, re.MULTILINE), question
            assert "…" not in question


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_plan_says_what_to_show_and_what_to_do_in_either_time(lab: CourseLab) -> None:
    plan = (lab.folder / "plan.md").read_text("utf-8")
    assert plan.startswith(f"# Plan: lab {lab.number}")
    by_command = f"<!-- from: labs/times.py {lab.number} --write -->\n"
    projector = section(plan, "On the projector")
    assert len(re.findall(r"^    (\./lab .*--live.*)$", projector, re.M)) == 1
    assert re.findall(rf"{by_command}(?!```\n.*verdict *\n─)", projector) == []
    # Measured numbers stand in the table that the command prints.
    for number in re.findall(r"(\d[\d.]*) Mbit/s", re.sub(r"```[^`]*```", "", projector)):
        assert f"{number}mbit" in projector
    for minutes in (45, 90):
        rows = re.findall(r"^\| (\d+) \| ", section(plan, f"{minutes} minutes"), re.MULTILINE)
        assert sum(map(int, rows)) == minutes
    mistakes = re.findall(r"^- \*.+?\*: \S", section(plan, "Common mistakes"), re.M | re.S)
    assert len(mistakes) >= 4
    measured = section(plan, "The machine's time")
    assert by_command in measured
    assert re.search(r"^\| CPU time, s \|( [0-9.]+ \|){6}$", measured, re.MULTILINE)


def test_a_formula_that_is_left_out_is_seen() -> None:
    assert numbers_in("window_mbit(0.632 * 1024 * rmem_kib, 8 * base_ms)") == {"0.632", "1024", "8"}
    assert numbers_in("'yes' if theirs > 1.5 * cubic else 'no'") == set()


def test_pages_are_found() -> None:
    assert len(PAGES) == 1 + 2 * len(LABS) and Path(PAGES[0]).is_file()
