# SPDX-License-Identifier: MIT
"""Execute one run that a file describes, for engines that distribute commands."""

import json
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gostlab import results
from gostlab.results import ResultsError
from gostlab.results.run_result import RunResult
from gostlab.safe_read import read_named
from gostlab.sandbox import MAX_WAIT_S, MachineError, wait_for_end
from gostlab.sandbox.cpu_claims import alone_on_the_real_clock, claimed_cpus
from gostlab.scheduler.eta import expected_s
from gostlab.scheduler.executor import Starter
from gostlab.spec.preflight import guards
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput


@dataclass(frozen=True)
class RunTask:
    """Represent a run and the folder for its result."""

    run: RunSpec
    folder: Path

    def to_json(self) -> dict[str, object]:
        """Return the task as `run --dry-run --json` lists it and `exec` reads it."""
        return {
            "name": self.run.name,
            "folder": str(self.folder),
            "finished": results.is_finished(self.folder, self.run),
            "expected_s": round(expected_s(self.run), 1),
            "run": self.run.to_json(),
        }


def read_task(file: str, folder: Path | None) -> RunTask:
    """Return the run that a file describes.

    file: the path of a run.json or of one entry of `run --dry-run --json`, which names its folder;
    - for standard input. Raises BadInput.
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
    return RunTask(run, folder)


def read_run(values: Mapping[str, object], file: str) -> RunSpec:
    """Return a run from run.json's values. Raises BadInput that names the file."""
    try:
        run = RunSpec.from_json(values)
        guards(run), run.name  # both raise if a value makes no sense
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from None
    except results.BROKEN_RECORDS as error:
        raise BadInput(f"{file}: not a run that a lab wrote: {error!r}") from None
    return run


def execute(task: RunTask, start: Starter, *, retry_failed: bool = False) -> RunResult:
    """Execute a run in its folder, unless it is finished, and return how it ended.

    The run executes in a temporary folder that is renamed when finished, so the folder is complete
    or missing, however many processes do this at once. Raises ResultsError if the folder is used by
    something else, MachineError if this machine cannot start the run (then nothing is left, and
    another machine may), OSError.
    """
    run, target = task.run, task.folder.resolve()
    if results.is_settled(target, run, retry_failed=retry_failed):
        return RunResult.read(target, run)
    reject_foreign_folder(target, run)
    target.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.enter_context(results.shared_experiment_lock(target))
        if run.clock == "real":
            stack.enter_context(alone_on_the_real_clock())
        cpus = stack.enter_context(claimed_cpus(1))
        part = results.create_sibling_folder(target, run)
        stack.callback(part.discard)
        started_s = time.monotonic()
        job = start(run, part.folder, cpus[0])
        stack.callback(job.kill)
        try:
            while job.poll() is None:
                wait_for_end([job], MAX_WAIT_S)
            complaint = job.complaint
        except MachineError:
            raise
        except Exception as error:  # the run's programs damaged its folder
            job.kill()
            complaint = f"it cannot be watched: {error}"
        wall_s = time.monotonic() - started_s
        try:
            results.clean_folder(part.folder)
            results.finish_run_folder(
                part.folder, wall_s, complaint, from_outside=job.from_outside, run=run
            )
        except Exception as error:  # the run's programs left unreadable files
            results.replace_unreadable(part.folder, run, wall_s, error)
        part.settle(run, retry_failed=retry_failed)
    return RunResult.read(target, run)


def reject_foreign_folder(target: Path, run: RunSpec) -> None:
    """Raise ResultsError if a folder has contents of something else than this run."""
    try:
        names = [entry.name for entry in target.iterdir()]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise ResultsError(f"{target}: a file; a run needs a folder of its own") from None
    if names and results.read_object(target / "run.json") != run.to_json():
        occupant = "another run's folder" if "run.json" in names else "a folder of something else"
        raise ResultsError(f"{target}: {occupant}: choose another for this run")
