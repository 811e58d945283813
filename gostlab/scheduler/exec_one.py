"""One run, described by a file, made in a folder: what any engine that runs commands can drive."""

import json
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from gostlab import results
from gostlab.results import ResultsError
from gostlab.safe_read import read_named
from gostlab.sandbox import MachineError
from gostlab.sandbox.cpu_claims import alone_on_the_real_clock, claimed_cpus
from gostlab.scheduler.eta import expected_s
from gostlab.scheduler.queue import POLL_S, Finished, Starter, end_in
from gostlab.spec.preflight import guards
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput


@dataclass(frozen=True)
class Task:
    """A run and the folder that its answer is to be in."""

    run: RunSpec
    folder: Path

    def to_json(self) -> dict[str, Any]:
        """For programs: what `run --dry-run --json` lists and `exec` takes."""
        return {
            "name": self.run.name,
            "folder": str(self.folder),
            "finished": results.is_finished(self.folder, self.run),
            "expected_s": round(expected_s(self.run), 1),
            "run": self.run.to_json(),
        }


def read_task(file: str, folder: Path | None) -> Task:
    """The run that a file describes: a run.json, or one entry of what `run --dry-run --json` lists,
    which has its folder. file: its path, or - for standard input. Raises BadInput.
    """
    try:
        text = sys.stdin.read() if file == "-" else read_named(Path(file)).decode()
        value = json.loads(text)
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file}: not JSON ({error})") from None
    if not isinstance(value, Mapping):
        raise BadInput(f"{file}: not one run's description (a JSON object, like a run.json)")
    listed = value.get("run")
    run = read_run(listed if isinstance(listed, Mapping) else value, file)
    if folder is None:
        if not isinstance(value.get("folder"), str) or not isinstance(listed, Mapping):
            raise BadInput(f"{file}: its folder is missing: write ./lab exec {file} FOLDER")
        folder = Path(value["folder"])
    return Task(run, folder)


def read_run(values: Mapping[str, Any], file: str) -> RunSpec:
    """A run from run.json's values. Raises BadInput naming the file."""
    try:
        run = RunSpec.from_json(values)
        check_kinds(run)
        guards(run), run.name  # what is nonsense inside is found out here
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from None
    except results.BROKEN_RECORDS as error:
        raise BadInput(f"{file}: not a run that a lab wrote: {error!r}") from None
    return run


def check_kinds(run: RunSpec) -> None:
    """Whether a run's plain fields hold what they are declared to. Raises TypeError."""
    kinds = {int: int, float: int | float, str: str, bool: bool}
    for name, declared in get_type_hints(type(run)).items():
        value, kind = getattr(run, name), kinds.get(declared)
        if kind and (not isinstance(value, kind) or isinstance(value, bool) != (kind is bool)):
            raise TypeError(f"{name}: {value!r} is no {declared.__name__}")


def execute(task: Task, start: Starter, *, retry_failed: bool = False) -> Finished:
    """Make a run in its folder, unless it is there; how it ended.

    It is made beside the folder and renamed into place: the folder is whole or not there, however
    many do this at once. Raises ResultsError if the folder is something else's, MachineError if
    this machine cannot start it (then nothing is left, and another may), OSError.
    """
    run, place = task.run, task.folder.resolve()
    if results.is_settled(place, run, retry_failed=retry_failed):
        return end_in(place, run)
    check_place(place, run)
    place.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        held.enter_context(results.shared_with_runs(place))
        if run.clock == "real":
            held.enter_context(alone_on_the_real_clock())
        cpus = held.enter_context(claimed_cpus(1))
        part = results.prepare_beside(place, run)
        held.callback(part.discard)
        began = time.monotonic()
        job = start(run, part.folder, cpus[0])
        held.callback(job.kill)
        try:
            while job.poll() is None:
                time.sleep(POLL_S)
            complaint = job.complaint
        except MachineError:
            raise
        except Exception as error:  # what the run's programs did to its folder
            job.kill()
            complaint = f"it cannot be watched: {error}"
        wall_s = time.monotonic() - began
        try:
            results.clean_folder(part.folder)
            results.finish(part.folder, wall_s, complaint, from_outside=job.from_outside, run=run)
        except Exception as error:  # what the run's programs left there
            results.finish_anew(part.folder, run, wall_s, error)
        part.settle(run, retry_failed=retry_failed)
    return end_in(place, run)


def check_place(place: Path, run: RunSpec) -> None:
    """Raises ResultsError if a folder is there, not empty, and of something else than this run."""
    try:
        names = [each.name for each in place.iterdir()]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise ResultsError(f"{place}: a file; a run needs a folder of its own") from None
    if names and results.read_object(place / "run.json") != run.to_json():
        what = "another run's folder" if "run.json" in names else "a folder of something else"
        raise ResultsError(f"{place}: {what}: choose another for this run")
