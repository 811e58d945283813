"""What a cluster's worker does: says what it is, and makes runs by `./lab exec`.

These functions are called on another machine, by their names: the lab must be there, the same.
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
from gostlab.install.rootfs import chosen_root
from gostlab.registry import folders
from gostlab.results import read_object
from gostlab.sandbox.uml import host_facts

# A run's folder is about 15 files of 0.1 to 5 MB together; see schedule.SPACE_PER_RUN_BYTES.
MAX_BYTES = 40_000_000
MADE = "made"  # where a run is made within its scratch folder
ENDS_WITHIN_S = 10.0
POLL_S = 0.02
# What becomes of a job that nobody wants any more: ./lab exec clears away on SIGTERM. It ends with
# the worker, however that ends, and its sandbox with it.
WITH_ITS_PARENT = ("setpriv", "--pdeathsig", "KILL")


@dataclass(frozen=True)
class Identity:
    """A worker as far as its results depend on it."""

    host: str
    cpu: str
    lab: str  # a hash of its sources
    kernel: str  # SHA-256 of the sandbox's
    tunnel: str | None  # SHA-256 of the tunnel's program
    iperf3: Mapping[str, str]  # version -> SHA-256, of the lab's own
    iproute2: str | None  # the machine's, where sandboxes boot on its files
    root: str | None  # SHA-256 of what sandboxes boot on; None: the machine's files

    def differences(self, other: Self) -> list[str]:
        """What must be the same and is not, in words."""
        names = ("lab", "kernel", "root", "tunnel", "iperf3", "iproute2")
        return [
            f"another {name} ({short(getattr(other, name))}, not {short(getattr(self, name))})"
            for name in names
            if getattr(self, name) != getattr(other, name)
        ]


def short(value: object) -> str:
    """A hash as people compare it."""
    return str(value)[:12] if isinstance(value, str) else json.dumps(value)


def identify(gost: Path | None = None) -> dict[str, Any]:
    """This machine's identity, as plain data. Raises MissingPart."""
    found = locate.find_parts(gost)
    handed = sandbox.hand_over(found)
    tunnel, root = handed["tunnel"], chosen_root()
    iperf3s = root.record["iperf3"] if root else handed["iperf3"]
    return asdict(
        Identity(
            host=os.uname().nodename,
            cpu=str(host_facts("")["cpu"]),
            lab=locate.hash_of_named(folders.sources("gostlab")),
            kernel=locate.file_sha256(locate.require_kernel(found)),
            tunnel=tunnel and tunnel["sha256"],
            iperf3={version: one["sha256"] for version, one in sorted(iperf3s.items())},
            iproute2=None if root else found.iproute2.version,
            root=root.hash if root else None,
        )
    )


def make_run(
    values: Mapping[str, Any], place: str, gost: str | None, worker: str, wanted: Callable[[], bool]
) -> dict[str, Any]:
    """Make a run from its run.json's values; how that went, and the folder's files.

    place   the folder on the scheduler's side. A worker that sees it, with the same run.json in it,
            shares its file system: the run is made there, and no files go back
    wanted  whether anybody still waits for it
    """
    shared = read_object(Path(place) / "run.json") == values
    with tempfile.TemporaryDirectory(prefix="gostlab-worker-") as scratch:
        made = Path(place if shared else scratch) / MADE
        complaint = execute(values, made, gost, worker, wanted)
        if complaint:
            return {"complaint": complaint}
        return {"complaint": None, "files": None if shared else files_of(made)}


def execute(
    values: Mapping[str, Any], made: Path, gost: str | None, worker: str, wanted: Callable[[], bool]
) -> str | None:
    """`./lab exec` in a process of its own; why there is no status, None if there is one."""
    words = [*WITH_ITS_PARENT, sys.executable, "-P", "-m", "gostlab", "exec", "-", str(made)]
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folders.CODE), os.environ.get("PYTHONPATH", "")]),
        "GOSTLAB_WORKER": worker,
    }
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*words, *(["--gost", gost] if gost else [])],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        assert process.stdin is not None
        with process.stdin as asked:
            asked.write(json.dumps(values).encode())
        while process.poll() is None:
            if not wanted():
                end_process(process, ENDS_WITHIN_S)
                return "nobody waits for it now"
            time.sleep(POLL_S)
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
    if process.returncode == 0:
        return None
    return lines[-1].removeprefix("gostlab: ") if lines else f"exit code {process.returncode}"


def files_of(folder: Path) -> dict[str, bytes]:
    """A folder's files. Raises ValueError if they are more than a run's may be."""
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink()]
    if sum(path.stat().st_size for path in files) > MAX_BYTES:
        raise ValueError(f"a run's folder of more than {MAX_BYTES / 1e6:.0f} MB is not sent back")
    return {path.name: safe_read.read_bytes(path) for path in files}


def keep(files: Mapping[str, bytes], folder: Path) -> None:
    """A run's files into its folder. Raises ValueError for the name of any other place, and for too
    many bytes: a worker may be anybody's by now.
    """
    if sum(map(len, files.values())) > MAX_BYTES:
        raise ValueError("the files are too large")
    if wrong := [name for name in files if name != Path(name).name or name[:1] in ("", ".")]:
        raise ValueError(f"{wrong[0]!r} is no file of a run's folder")
    for name, content in files.items():
        (folder / name).unlink(missing_ok=True)  # a link is not followed
        (folder / name).write_bytes(content)
