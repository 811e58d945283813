# SPDX-License-Identifier: MIT
"""`import gostlab`: the public names, what importing them does to a process, and an experiment that
is run by a loop.
"""

import inspect
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import gostlab
from tests.asked import refusal
from tests.lab_command import said_by
from tests.scheduler.test_executor import Job
from tools.reference.public import PARTS

ROOT = Path(gostlab.__file__).parent
# What a later version keeps. A name that leaves was said to leave one version before.
NAMES = """BadInput Experiment Lab MachineError MissingPart Progress Result Results ResultsError Run Running
SAMPLES __version__ cc_colour check_plugin compare fit load report""".split()


def test_the_public_names_are_these_and_checkers_of_types_know_them() -> None:
    stub = (ROOT / "__init__.pyi").read_text("utf-8")

    assert sorted(gostlab.__all__) == NAMES
    assert sorted({*re.findall(r" as (\w+)$", stub, re.MULTILINE), "__version__"}) == NAMES
    assert (ROOT / "py.typed").is_file()
    with pytest.raises(AttributeError, match="nothing"):
        _ = gostlab.nothing  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", sorted(PARTS))
def test_the_parts_of_a_public_class_are_there_and_say_what_they_are(name: str) -> None:
    kind = getattr(gostlab, name)
    for part in PARTS[name].split():
        known = getattr(kind, part, None) or kind.__dataclass_fields__[part]
        assert not callable(known) or inspect.getdoc(known), part
    assert inspect.getdoc(kind)


@pytest.mark.slow
def test_importing_it_reads_no_library_and_touches_no_signal() -> None:
    script = (
        "import signal, sys\n"
        "def handlers(): return [signal.getsignal(each) for each in signal.valid_signals()]\n"
        "before = handlers()\n"
        "import gostlab\n"
        "gostlab.Experiment.of(machine='sandbox')\n"
        "print(sorted({'pandas', 'numpy', 'matplotlib', 'scipy'} & set(sys.modules)))\n"
        "print(before == handlers())"
    )
    done = said_by(sys.executable, "-c", script)
    assert done.stdout.split("\n")[:2] == ["[]", "True"], done.stderr


# -- describe


def test_settings_are_words_numbers_or_lists_of_them() -> None:
    asked = gostlab.Experiment.of(
        cc=["cubic", "bbr"], streams=[1, 4], loss="1%", repeat=2, machine="sandbox"
    )

    assert {run.cc for run in asked.runs} == {"cubic", "bbr"} and len(asked.runs) == 8
    assert asked.levels["try"] == {"streams": ["1", "4"], "cc": ["cubic", "bbr"]}
    more = gostlab.Experiment.of(
        cc="cubic,bbr", streams="1,4", loss="1%", repeat=3, machine="sandbox"
    )
    assert more.name == asked.name and {run.name for run in asked.runs} < {
        run.name for run in more.runs
    }


def test_a_run_has_one_level_of_everything() -> None:
    described = gostlab.Run(cc="bbr", rate="50mbit", machine="sandbox").description

    assert (described.cc, described.path.forward.rate_bps) == ("bbr", 50e6)
    for several in (["cubic", "bbr"], "cubic,bbr"):
        with pytest.raises(gostlab.BadInput, match="one level"):
            gostlab.Run(cc=several, machine="sandbox")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"loss": "much"}, "^loss"),
        ({"cc": "cubik"}, "cubic"),
        ({"ccs": "bbr"}, "ccs"),
        ({"repeat": 0}, "repeat 0"),
    ],
)
def test_a_wrong_setting_is_one_line_that_names_it(settings: dict[str, Any], says: str) -> None:
    said = refusal(lambda: gostlab.Experiment.of(machine="sandbox", **settings))
    assert re.search(says, said) and not said.startswith("--")


# -- run


@pytest.fixture
def jobs(no_machine: None) -> list[Job]:
    """The jobs that are started from here on: on machines that the test makes up."""
    return []


def on(jobs: list[Job], slots: int = 2, ending: int = 99) -> Callable[..., Any]:
    """Workers, as `run` takes them, of which the first so many jobs end."""

    def start(_run: object, folder: Path, _slot: object) -> Job:
        failed = {"outcome": "failed", "error": "no answer"}
        jobs.append(Job(folder, failed, polls=1 if len(jobs) < ending else sys.maxsize))
        return jobs[-1]

    return lambda _say: nullcontext((range(slots), start))


def asked(repeat: int = 3) -> gostlab.Experiment:
    return gostlab.Experiment.of(cc="cubic", repeat=repeat, machine="sandbox")


def test_a_loop_gets_every_result_once_and_the_next_one_those_that_are_there(
    jobs: list[Job], tmp_path: Path
) -> None:
    told: list[gostlab.Progress] = []
    running = asked().run(tmp_path, workers=on(jobs), progress=told.append)
    assert not any(tmp_path.iterdir())  # nothing before the first result is asked for

    results = list(running)

    assert sorted(each.repetition for each in results) == [1, 2, 3] and len(jobs) == 3
    assert {each.outcome for each in results} == {"failed"} and results[0].error == "no answer"
    assert [each.counts for each in results] == [False] * 3
    assert [told[0].done, told[-1].done, told[-1].total] == [0, 3, 3]
    assert len(running.outcome.runs) == 3
    assert len(list(asked().run(tmp_path, workers=on(jobs)))) == 3 and len(jobs) == 3


def test_a_loop_that_is_left_ends_what_runs_and_the_folder_is_free(
    jobs: list[Job], tmp_path: Path
) -> None:
    with asked().run(tmp_path, workers=on(jobs, ending=1)) as running:
        for _ in running:
            break

    assert jobs[1:] and all(job.killed for job in jobs[1:])
    assert len(list(asked().run(tmp_path, workers=on(jobs)))) == 3


def test_cancelled_from_a_callback_it_ends_with_what_is_there(
    jobs: list[Job], tmp_path: Path
) -> None:
    def cancel(progress: gostlab.Progress) -> None:
        if progress.done:
            running.cancel()

    running = asked().run(tmp_path, workers=on(jobs, ending=1), progress=cancel)
    outcome = running.wait()

    assert len(outcome.runs) == 1 and len(jobs) > 1 and all(job.killed for job in jobs[1:])
    assert list(running) == []


def test_what_cannot_run_is_refused_before_anything_is_made(
    jobs: list[Job], tmp_path: Path
) -> None:
    with pytest.raises(gostlab.BadInput, match="jobs 0"):
        asked().run(tmp_path / "new", jobs=0)
    assert not (tmp_path / "new").exists()
