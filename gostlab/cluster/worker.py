# SPDX-License-Identifier: MIT
"""Identify a cluster's worker, and make runs on it by `./lab exec`.

These functions are called by name on another machine, which must have the same version of the lab.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from gostlab import safe_read, sandbox
from gostlab.cli.common import end_process
from gostlab.install import locate
from gostlab.install.rootfs import require_root
from gostlab.registry import folders
from gostlab.results import read_object
from gostlab.sandbox.uml import host_facts

# A run's folder has about 15 files with a total of 0.1 to 5 MB; see schedule.SPACE_PER_RUN_BYTES.
MAX_BYTES = 40_000_000
RUN_FOLDER = "made"  # name of the run's folder in its scratch folder
ENDS_WITHIN_S = 10.0
POLL_S = 0.02
# A job ends with its worker, however the worker ends, and its sandbox ends with it; ./lab exec
# cleans up on SIGTERM.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


@dataclass(frozen=True)
class Identity:
    """The properties of a worker on which its results depend."""

    host: str
    cpu: str
    lab: str  # digest of the lab's sources
    kernel: str  # SHA-256 of the sandbox's kernel
    tunnel: str | None  # SHA-256 of the tunnel program
    iperf3: Mapping[str, str]  # SHA-256 of the lab's own versions
    root: str  # SHA-256 of the sandboxes' root file system

    def differences(self, other: Self) -> list[str]:
        """Return a sentence for each property that must be equal and is not."""
        names = ("lab", "kernel", "root", "tunnel", "iperf3")
        return [
            f"another {name} ({short(getattr(other, name))}, not {short(getattr(self, name))})"
            for name in names
            if getattr(self, name) != getattr(other, name)
        ]


def short(value: object) -> str:
    """Return a shortened hash for people."""
    return str(value)[:12] if isinstance(value, str) else json.dumps(value)


def identify(gost: Path | None = None) -> dict[str, Any]:
    """Return this machine's identity as plain data. Raises MissingPart."""
    parts = locate.find_parts(gost)
    handed = sandbox.build_parts_json(parts)
    tunnel, root = handed["tunnel"], require_root()
    return asdict(
        Identity(
            host=os.uname().nodename,
            cpu=str(host_facts("")["cpu"]),
            lab=locate.hash_of_named(folders.sources("gostlab")),
            kernel=locate.file_sha256(locate.require_kernel(parts)),
            tunnel=tunnel and tunnel["sha256"],
            iperf3={
                version: one["sha256"] for version, one in sorted(root.record["iperf3"].items())
            },
            root=root.hash,
        )
    )


def make_run(
    values: Mapping[str, object],
    place: str,
    gost: str | None,
    worker: str,
    wanted: Callable[[], bool],
) -> dict[str, object]:
    """Make a run from the values of its run.json, and return its outcome and the folder's files.

    `place` is the folder on the scheduler's side. A worker that sees it with the same run.json
    shares its file system: the run is made there, and no files are returned. `wanted` tells whether
    the result is still wanted.
    """
    shared = read_object(Path(place) / "run.json") == values
    with tempfile.TemporaryDirectory(prefix="gostlab-worker-") as scratch:
        made_folder = Path(place if shared else scratch) / RUN_FOLDER
        complaint = execute(values, made_folder, gost, worker, wanted)
        if complaint:
            return {"complaint": complaint}
        return {"complaint": None, "files": None if shared else read_files(made_folder)}


def execute(
    values: Mapping[str, object],
    made: Path,
    gost: str | None,
    worker: str,
    wanted: Callable[[], bool],
) -> str | None:
    """Run `./lab exec` in a process; return the reason for a missing status, or None."""
    args = [*DIE_WITH_PARENT, sys.executable, "-P", "-m", "gostlab", "exec", "-", str(made)]
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folders.CODE), os.environ.get("PYTHONPATH", "")]),
        "GOSTLAB_WORKER": worker,
    }
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [*args, *(["--gost", gost] if gost else [])],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=output,
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as stdin:
            stdin.write(json.dumps(values).encode())
        while process.poll() is None:
            if not wanted():
                end_process(process, ENDS_WITHIN_S)
                return "nobody waits for it now"
            time.sleep(POLL_S)
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    if process.returncode == 0:
        return None
    return lines[-1].removeprefix("gostlab: ") if lines else f"exit code {process.returncode}"


def read_files(folder: Path) -> dict[str, bytes]:
    """Return a folder's files. Raises ValueError if they exceed the limit of a run."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink()]
    if sum(path.stat().st_size for path in files) > MAX_BYTES:
        raise ValueError(f"a run's folder of more than {MAX_BYTES / 1e6:.0f} MB is not sent back")
    return {path.name: safe_read.read_bytes(path) for path in files}


def save_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write a run's files into its folder.

    Raises ValueError for a name outside the folder and for too many bytes, because a worker may not
    be trustworthy.
    """
    if sum(map(len, files.values())) > MAX_BYTES:
        raise ValueError("the files are too large")
    if wrong := [name for name in files if name != Path(name).name or name[:1] in ("", ".")]:
        raise ValueError(f"{wrong[0]!r} is no file of a run's folder")
    for name, content in files.items():
        (folder / name).unlink(missing_ok=True)  # unlinked first, so that a link is not followed
        (folder / name).write_bytes(content)
