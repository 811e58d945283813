# SPDX-License-Identifier: MIT
"""Runs in the sandbox for tests: describe a run by what differs from a plain one, get its folder
back.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
import signal
import subprocess
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import pytest

from gostlab import sandbox
from gostlab.install.locate import (
    MissingPart,
    TunnelBinary,
    file_sha256,
    find_parts,
    kernel_for,
    require_kernel,
)
from gostlab.registry.folders import cache_folder
from gostlab.registry.kernels import SHIPPED
from gostlab.sandbox import uml
from gostlab.sandbox.cpu_claims import claimed_cpus
from gostlab.spec.cpu_model import MachineModel
from gostlab.spec.expand import single_run
from gostlab.spec.run_spec import RunSpec
from tests.asked import runs_of
from tests.offspring import sandboxes

Started = TypeVar("Started", bound=sandbox.TimedProcess)
DEBIAN_BUFFERS = {"rmem": [4096, 131072, 6291456], "wmem": [4096, 16384, 4194304]}
PLAIN = single_run(
    profile="plain-100ms",
    cc="cubic",
    machine="sandbox",
    clock="virtual",
    overrides={
        "duration": "5s",
        "rate": "100mbit",
        "delay": "20ms",
        "buffer": "1000pkts",
        "buffers": "debian",
        "offloads": "off",
    },
)
SAMPLED = ("sockets.jsonl", "queues.jsonl", "hosts.jsonl", "flows.json", "legs.json")
BIG_BUFFERS = {"rmem": [4096, 131072, 67108864], "wmem": [4096, 16384, 67108864]}


def direction(
    rate_bps: int | None = 100_000_000,
    delay_ms: float = 20.0,
    loss: float = 0.0,
    buffer_pkts: int = 1000,
    jitter_ms: float = 0.0,
) -> dict[str, Any]:
    """One direction of a path."""
    return {
        "rate_bps": rate_bps,
        "delay_ms": delay_ms,
        "jitter_ms": jitter_ms,
        "ordered": False,
        "distribution": None,
        "loss": {"model": "random", "p": loss},
        "buffer_pkts": buffer_pkts,
    }


def flow(name: str = "flow1", **changes: Any) -> dict[str, Any]:
    """One flow of a run: cubic, client to target, 5 s, 40 ms."""
    return PLAIN.to_json()["flows"][0] | {"name": name, "buffers": DEBIAN_BUFFERS, **changes}


def describe(
    forward: dict[str, Any] | None = None, reverse: dict[str, Any] | None = None, **changes: Any
) -> RunSpec:
    """A run: one cubic stream, direct, 5 s, 100 Mbit/s, 40 ms, virtual clock; `changes` replace
    run.json's keys.
    """
    values = PLAIN.to_json() | {
        "experiment": "test",
        "matrix": "test",
        "profile": "test",
        "seed": 7,
        "path": {"forward": forward or direction(), "reverse": reverse or direction()},
        "memory_mib": 1024,
        "tcp_memory_mib": 512,
    }
    del values["flows"]
    values.update(changes)
    rtt_ms = sum(values["path"][way]["delay_ms"] for way in ("forward", "reverse"))
    as_run = ("cc", "streams", "direction", "duration_s", "buffers")
    own = flow(rtt_ms=rtt_ms, **{key: values[key] for key in as_run})
    values.setdefault("flows", [own])
    if values["clock"] == "real":  # nothing is charged there (gostlab.spec.expand)
        values["syscall_cost_us"] = 0.0
        charged = ("host_cpus", "cpus_by_host", "packet_cost_ns", "byte_cost_ns", "clock_reads")
        values = {key: value for key, value in values.items() if key not in charged}
    return RunSpec.from_json(values)


def written(settings: str) -> RunSpec:
    """The one run of an experiment with these settings, 100 Mbit/s, 40 ms, as somebody would write
    them.
    """
    [run] = runs_of(
        "name: test\ntitle: test\nsettings: {profile: plain-100ms, rtt: 40ms, rate: 100mbit,"
        " duration: 5s, buffers: bdp, sample: 100ms, start_spread: 0s}\nmatrices:\n"
        f"  - name: m\n    settings: {settings}\n"
    )
    return run


@dataclass(frozen=True)
class Done:
    """A run that has ended."""

    folder: Path

    @property
    def run(self) -> RunSpec:
        """The run as its folder describes it."""
        return RunSpec.from_json(self.json("run.json"))

    def json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_text(encoding="utf-8"))

    def lines(self, name: str) -> list[dict[str, Any]]:
        text = (self.folder / name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    @property
    def outcome(self) -> dict[str, Any]:
        path = self.folder / "outcome.json"
        return self.json("outcome.json") if path.exists() else {"outcome": None, "error": self.log}

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text(encoding="utf-8", errors="replace")

    @property
    def commands(self) -> str:
        return (self.folder / "commands.sh").read_text(encoding="utf-8")

    @property
    def printed(self) -> list[Any]:
        """The lines of its log that are JSON, and more than a number."""
        found = []
        for line in self.log.splitlines():
            with suppress(ValueError):
                found += [json.loads(line)] if line[:1] in ("{", "[") else []
        return found

    @property
    def goodput_bps(self) -> float:
        return float(self.json("iperf3.json")["end"]["sum_received"]["bits_per_second"])

    @property
    def checks(self) -> dict[str, dict[str, Any]]:
        """What fidelity.json says, by check."""
        return {check["name"]: check for check in self.json("fidelity.json")["checks"]}

    @property
    def verdicts(self) -> dict[str, str]:
        return {name: check["verdict"] for name, check in self.checks.items()}

    @property
    def samples(self) -> dict[str, bytes]:
        """What runs of one seed have to the bit: all that was sampled, and each ACK's row."""
        found = {name: (self.folder / name).read_bytes() for name in SAMPLED}
        acks = self.folder / "acks.csv.gz"
        return found | ({acks.name: gzip.decompress(acks.read_bytes())} if acks.exists() else {})

    def unlike(self, other: Done) -> list[str]:
        """In what another run differs."""
        theirs = other.samples
        return [name for name, content in self.samples.items() if content != theirs.get(name)]

    @property
    def faults(self) -> dict[str, dict[str, Any]]:
        """The checks that are not ok."""
        return {name: check for name, check in self.checks.items() if check["verdict"] != "ok"}

    @property
    def acks(self) -> list[dict[str, str]]:
        with gzip.open(self.folder / "acks.csv.gz", "rt", encoding="ascii") as file:
            return list(csv.DictReader(file))

    def queue(self, role: str = "bottleneck", direction: str = "forward") -> list[dict[str, Any]]:
        """The samples of a queue."""
        rows = self.lines("queues.jsonl")
        return [row for row in rows if (row["role"], row["direction"]) == (role, direction)]

    @property
    def flows(self) -> dict[str, dict[str, Any]]:
        """The rows of flows.json, by flow."""
        return {row["name"]: row for row in self.json("flows.json")["flows"]}

    @property
    def legs(self) -> list[dict[str, Any]]:
        return list(self.json("legs.json")["legs"])

    def leg(self, name: str) -> dict[str, Any]:
        return next(leg for leg in self.legs if leg["leg"] == name)

    def counter(self, host: str, name: str) -> int:
        """One of a host's counters, by how much it grew."""
        return int(self.json("legs.json")["nstat"][host][name])


def is_itself(tunnel: dict[str, Any]) -> bool:
    """Whether a tunnel's program is the one that it is said to be: none that poses as it."""
    return file_sha256(Path(tunnel["path"])) == tunnel.get("sha256")


class Lab:
    """The sandbox as tests use it.

    cpu  that of its last guest, which no other worker of pytest-xdist has, where there is one
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.parts = find_parts()
        self.kernel = require_kernel(self.parts)
        self.handed = sandbox.build_parts_json(self.parts)
        self.keep = sandbox.visible_paths(self.parts)
        self.cpu = sandbox.usable_cpus()[0]
        self._count = 0

    def folder(self) -> Path:
        self._count += 1
        made = self.scratch / f"run-{self._count}"
        made.mkdir()
        return made

    def start(self, run: RunSpec, **handed: Any) -> tuple[sandbox.TimedProcess, Path]:
        """Start a run. With programs that pose as the lab's its guest has the host's
        files, where those are.
        """
        folder = self.folder()
        (folder / "run.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
        parts = {**self.handed, **handed}
        kernel = self.kernel_named(run.kernel)
        with pytest.MonkeyPatch.context() as patched:
            if not (handed.keys() <= {"tunnel"} and all(map(is_itself, handed.values()))):
                self.require_programs_of_the_host()
                patched.setattr(uml, "root_for_run", lambda *_: None)
            started = self._on_a_cpu(
                lambda cpu: uml.start_run(kernel, run, folder, parts, self.keep, cpu, None)
            )
        return started, folder

    def _on_a_cpu(self, start: Callable[[int], Started]) -> Started:
        """Start a guest on a CPU that is its own as long as anybody refers to the guest."""
        claim = ExitStack()
        [self.cpu] = claim.enter_context(claimed_cpus(1))
        guest = start(self.cpu)
        weakref.finalize(guest, claim.close)
        return guest

    def require_programs_of_the_host(self) -> None:
        """Skip a test whose guest has the host's files, where set-up brought no programs for it."""
        if PLAIN.iperf3 not in self.parts.iperf3:
            pytest.skip("no programs for a guest on the host's files: ./lab setup as root")

    def by(self, program: TunnelBinary) -> dict[str, Any]:
        """What a run is handed besides whose tunnel is this program."""
        self.keep.append(program.path)
        return {"tunnel": program.to_json()}

    def posing(self, folder: Path, script: str, name: str = "posing") -> Path:
        """A script of the test's own, where a guest finds it, in the place of a program."""
        program = folder / name
        program.write_text(script, encoding="utf-8")
        program.chmod(0o755)
        self.keep.append(folder)
        return program

    def posing_gost(self, folder: Path, script: str) -> dict[str, Any]:
        """What a run is handed besides whose tunnel's program is a script."""
        return {"tunnel": {**self.handed["tunnel"], "path": str(self.posing(folder, script))}}

    def kernel_named(self, name: str) -> Path:
        """The shipped kernel, or another one; a test is skipped where that is not built: the set-up
        builds the shipped one alone.
        """
        try:
            return self.kernel if name == SHIPPED else kernel_for(name, self.parts)
        except MissingPart:
            pytest.skip(f"kernel {name} is not built: ./lab kernel add {name}")

    def run(self, run: RunSpec | str, *, ends: str = "ok", **handed: Any) -> Done:
        """Make a run, which may be `written` settings: it ends so, or anyhow: ""."""
        guest, folder = self.start(written(run) if isinstance(run, str) else run, **handed)
        guest.wait()
        done = Done(folder)
        assert done.outcome["outcome"] == ends or not ends, done.outcome
        return done

    def boot(self, argv: Sequence[str], folder: Path | None = None, **asked: Any) -> uml.Guest:
        """A guest that runs a command; `asked`: what sandbox.boot takes, what a MachineModel has,
        kernel, by its name, and what is added to its environment.

        What `argv` may name is the checkout's, and the run's folder at /run/gostlab.
        """
        kernel = asked.pop("kernel", SHIPPED)
        asked.setdefault("limit_s", 300)  # a busy machine is ten times as slow
        named = {"memory_mib": 256} | {
            each.name: asked.pop(each.name) for each in fields(MachineModel) if each.name in asked
        }
        program, folder = self.kernel_named(kernel), folder or self.folder()
        model = MachineModel(**named)
        return self._on_a_cpu(lambda cpu: uml.boot(program, folder, argv, model, cpu=cpu, **asked))

    def command(self, script: str, keep: Sequence[Path] = (), **asked: Any) -> Done:
        """Run a shell script in a guest; its output is the log."""
        usual = {"memory_mib": 512, "syscall_cost_us": 5.0, "keep": [sandbox.CHECKOUT, *keep]}
        folder = self.folder()
        self.boot(["/bin/sh", "-c", script], folder, **usual | asked).wait()
        return Done(folder)


# `mn` raises its limit of open files to 16,384, and each of its nodes starts by closing as many:
# most of its time. What it may not raise it leaves, with a warning.
FEW_OPEN_FILES = "setpriv --bounding-set -sys_resource prlimit --nofile=256"
BEGUN = "begun"
STARTING = f": >/run/gostlab/{BEGUN}; while :; do /bin/true; done"
BOOTING = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from gostlab.spec.cpu_model import MachineModel
from gostlab.sandbox import uml
options = json.loads(sys.argv[5])
guest = uml.boot(
    Path(sys.argv[2]), Path(sys.argv[3]), ["/bin/sh", "-c", sys.argv[4]],
    MachineModel(256, options.pop("clock")), **options,
)
print("up,", uml.available_isolation(), flush=True)
guest.wait()
"""


def booting(lab: Lab, kernel: Path, folder: Path, script: str, **asked: Any) -> list[str]:
    """The words of a process that boots a guest, says "up" and how the guest is held, and waits for
    its end.
    """
    options = {"cpu": lab.cpu, "clock": "real", "limit_s": 1000, **asked}
    given = (sandbox.CHECKOUT, kernel, folder, script, json.dumps(options))
    return ["/usr/bin/python3", "-B", "-c", BOOTING, *map(str, given)]


def kill_a_guests_parent(lab: Lab, kernel: Path, command: str, *, after_s: float) -> Path:
    """A guest on the real clock that runs a command, whose parent is killed so many seconds after
    it was started, or if the command is STARTING, after that has begun: its folder.
    """
    folder, (up, says_up) = lab.folder(), os.pipe()
    parent = os.fork()  # has imported all that it needs, which is half of what a kill takes else
    if not parent:
        try:
            model, words = MachineModel(256, "real"), ["/bin/sh", "-c", command]
            guest = uml.boot(kernel, folder, words, model, cpu=lab.cpu, limit_s=1000)
            os.write(says_up, b"up")
            guest.wait()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(says_up)
    with open(up, "rb") as said:
        assert said.read(2) == b"up"
    deadline = time.monotonic() + 60
    while command == STARTING and not (folder / BEGUN).exists():
        assert time.monotonic() < deadline, Done(folder).log
        time.sleep(0.005)
    time.sleep(after_s)
    assert sandboxes()
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    return folder


def link_or_copy(source: str, target: str) -> None:
    """The same file, or a copy where that is another file system."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def cache_at(place: Path) -> Path:
    """What a run needs of the set-up's, in a folder of another name, where others can read it."""
    names = ("*tools", "*.lock", "build", "byte-code", "headers", "log", "python")
    left_out = shutil.ignore_patterns(*names)
    shutil.copytree(
        cache_folder(), place, symlinks=True, ignore=left_out, copy_function=link_or_copy
    )
    return place


def as_nobody(folder: Path) -> list[str]:
    """The words before a command that an ordinary user runs on a test's folder; the test is skipped
    where he cannot read this checkout.
    """
    for parent in [folder, *folder.parents]:
        if parent != Path("/") and parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)
    words = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]
    if subprocess.run([*words, "test", "-r", str(uml.INIT)], check=False).returncode:
        pytest.skip("no ordinary user may read this checkout")
    return words


def without_root(cache: Path) -> Path:
    """A cache folder with what set-up made but the root."""
    cache.mkdir()
    for part in cache_folder().iterdir():
        if part.is_dir() and part.name != "root":
            (cache / part.name).symlink_to(part)
    return cache
