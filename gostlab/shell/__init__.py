# SPDX-License-Identifier: MIT
"""Open Mininet's prompt in the lab for `./lab shell`, in the sandbox or natively."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gostlab import safe_read, sandbox
from gostlab.install.locate import Parts, kernel_for
from gostlab.registry.folders import PYTHON_PATH
from gostlab.sandbox import uml
from gostlab.spec.run_spec import RunSpec

PROMPT = f"{__name__}.in_guest"
LOOK_S = 0.05  # interval between checks of a prompt


def open_shell(run: RunSpec, parts: Parts) -> int:
    """Lay out and shape a run's topology and run Mininet's prompt on the terminal.

    Returns the prompt's exit status. Raises MissingPart, MachineError, OSError.
    """
    with tempfile.TemporaryDirectory(prefix="gostlab-shell-") as scratch:
        folder, handed = Path(scratch), sandbox.build_parts_json(parts)
        (folder / "run.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
        if run.machine == "native":
            (folder / "parts.json").write_text(json.dumps(handed), encoding="utf-8")
            environ = {**os.environ, "PYTHONPATH": PYTHON_PATH}
            command = [sys.executable, "-P", "-m", PROMPT, str(folder)]
            return subprocess.run(command, env=environ, check=False).returncode
        keep, cpu = sandbox.visible_paths(parts), sandbox.usable_cpus()[0]
        kernel = kernel_for(run.kernel, parts)
        guest = uml.start_run(kernel, run, folder, handed, keep, cpu, None, prompt=PROMPT)
        return prompt_in(guest, folder)


def prompt_in(guest: sandbox.TimedProcess, folder: Path) -> int:
    """Run a guest's prompt to its end; return 1 if the guest ended first."""
    on_a_terminal = os.isatty(0)
    try:
        # A terminal that closes sends SIGHUP, which nohup makes a program ignore.
        while guest.poll() is None:
            if on_a_terminal and has_hung_up(0):
                raise KeyboardInterrupt
            time.sleep(LOOK_S)
    finally:
        guest.kill()
        # The guest's console has changed the terminal's settings.
        subprocess.run(["stty", "sane"], check=False, stderr=subprocess.DEVNULL)
    try:
        return int(safe_read.read_bytes(folder / "exit", 16))
    except (OSError, ValueError):
        return 1


def has_hung_up(descriptor: int) -> bool:
    """Return whether a terminal has been closed."""
    poller = select.poll()
    poller.register(descriptor, 0)  # POLLHUP is reported without being requested
    return bool(poller.poll(0))
