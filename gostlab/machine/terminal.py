"""Mininet's prompt in the lab, on the caller's terminal, in either machine."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gostlab import machine
from gostlab.declared.folders import PYTHON_PATH
from gostlab.describe.resolve.cpu_model import MachineModel
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.machine import sandbox
from gostlab.machine.own_root import OwnRoot, own_root
from gostlab.setup.parts import Parts, kernel_for

SHELL = "gostlab.guest.shell"
WEEK_S = 7 * 24 * 3600
LOOK_S = 0.05  # how often a prompt is looked after


def open_shell(run: RunDescription, parts: Parts) -> int:
    """Lay out and shape a run's topology, and hand the terminal to Mininet's prompt until it ends.

    Returns the prompt's exit status. Raises MissingPart, MachineError, OSError.
    """
    with tempfile.TemporaryDirectory(prefix="gostlab-shell-") as scratch:
        folder = Path(scratch)
        (folder / "run.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
        handed = machine.hand_over(parts)
        root = own_root(handed, run)
        told = json.dumps(root.parts if root else handed)
        (folder / "parts.json").write_text(told, encoding="utf-8")
        if run.machine == "native":
            return open_here(folder)
        return open_in_sandbox(run, parts, folder, root)


def open_here(folder: Path) -> int:
    """The prompt on this machine's kernel."""
    environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    command = [sys.executable, "-m", SHELL, str(folder)]
    return subprocess.run(command, env=environ, check=False).returncode


def open_in_sandbox(
    run: RunDescription, parts: Parts, folder: Path, root: OwnRoot | None = None
) -> int:
    """The prompt in a sandbox; 1 if the guest ended before its prompt did."""
    kernel = kernel_for(run.kernel, parts)
    guest = sandbox.boot(
        kernel,
        folder,
        ["/usr/bin/python3", "-m", SHELL, sandbox.GUEST_FOLDER],
        MachineModel.of(run),
        environ={"TERM": os.environ.get("TERM", "dumb")},
        keep=[machine.CHECKOUT, *machine.kept_visible(parts)],
        cpu=machine.usable_cpus()[0],
        limit_s=WEEK_S,
        terminal=True,
        modules=sandbox.modules_of(run, kernel),
        root=root,
    )
    on_a_terminal = os.isatty(0)
    try:
        # A terminal that goes away says so by SIGHUP, which nohup has a program ignore.
        while guest.poll() is None:
            if on_a_terminal and has_hung_up(0):
                raise KeyboardInterrupt
            time.sleep(LOOK_S)
    finally:
        guest.kill()
        # The guest's console has set the terminal to its own needs.
        subprocess.run(["stty", "sane"], check=False, stderr=subprocess.DEVNULL)
    exit_file = folder / "exit"
    return int(exit_file.read_text()) if exit_file.exists() else 1


def has_hung_up(descriptor: int) -> bool:
    """Whether what was a terminal has gone."""
    poller = select.poll()
    poller.register(descriptor, 0)  # what is told unasked is that it hung up
    return bool(poller.poll(0))
