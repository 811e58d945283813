"""Write commands.sh: what the lab ran, as a script that repeats it by hand with `ip netns`.

The script's functions are in commands_prelude.sh. `FORMAT` changes when new scripts can no longer
be replayed like earlier ones.
"""

import base64
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gostlab.registry.folders import NODE_PROGRAMS

PRELUDE = NODE_PROGRAMS / "commands_prelude.sh"
FORMAT = "# format: 2 (./lab replay reads it)"
STEPS = "\n# -- what the lab did\n"  # reports show the lines after this one
END_OF_FILE = "END_OF_FILE"  # delimiter of the here-documents
ABOUT = """# What the lab ran, in order, as a script that repeats it on this machine's own kernel:
#     sudo sh commands.sh [FOLDER]      its reports go to FOLDER, by default a new one under /tmp
# It says what it lacks before it begins, waits where the lab waited, prints what each flow got, and
# takes away the namespaces, processes and folders that it made, and only those. (./lab replay runs
# it on the lab's own kernel and clock, and compares.)"""


@dataclass(frozen=True)
class ScriptRequirements:
    """The requirements of a run's script, checked before it begins."""

    nodes: Sequence[str] = ()
    programs: Sequence[str] = ()  # programs besides those that every run needs
    congestion_controls: Sequence[str] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)  # program's path -> SHA-256
    environ: Mapping[str, str] = field(default_factory=dict)  # environment of every command
    tcp_memory_mib: int | None = None  # memory limit of all TCP sockets in the run


class CommandLog:
    """The script while it is written: each method writes what repeats one action of the lab.

    The file has all actions up to the start of the load, and has the others at the end.
    """

    def __init__(self, path: Path, title: str, needs: ScriptRequirements) -> None:
        self._file: IO[str] = path.open("w", encoding="utf-8")
        self.write(f"#!/bin/sh\n# {title}\n{FORMAT}\n{ABOUT}\nset -eu\n")
        self._write_environment(needs.environ)
        for name, values in (
            ("NODES", needs.nodes),
            ("PROGRAMS", needs.programs),
            ("CONGESTION_CONTROLS", needs.congestion_controls),
        ):
            self.write(f"{name}={shlex.quote(' '.join(values))}")
        hashes = "\n".join(f"{sha256} {program}" for program, sha256 in needs.hashes.items())
        self.write(f"HASHES={shlex.quote(hashes)}\n")
        self._file.write(PRELUDE.read_text(encoding="utf-8"))
        if needs.tcp_memory_mib:
            self.write(
                f"say 'all TCP sockets together could hold {needs.tcp_memory_mib} MiB in the run;"
                ' here\' $(awk -v page="$(getconf PAGESIZE)"'
                " '{ print int($3 * page / 1048576) }' /proc/sys/net/ipv4/tcp_mem) MiB"
            )
        self.write(STEPS)

    def _write_environment(self, environ: Mapping[str, str]) -> None:
        """Write the environment of all commands; of its PATH, the existing folders."""
        for folder in reversed(environ.get("PATH", "").split(os.pathsep)):
            if folder:
                quoted = shlex.quote(folder)
                self.write(f"[ ! -d {quoted} ] || PATH={quoted}:$PATH")
        self.write("export PATH LC_ALL=C.UTF-8 HOME=/")
        if "TC_LIB_DIR" in environ:
            self.write(f"export TC_LIB_DIR={shlex.quote(environ['TC_LIB_DIR'])}")

    def write(self, line: str) -> None:
        """Write a line to be run in the root namespace."""
        self._file.write(line + "\n")

    def run(
        self,
        node: str,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str] = {},
        stdout: str | None = None,
        may_fail: bool = False,
    ) -> None:
        tail = (f" >{shlex.quote(stdout)}" if stdout else "") + (" || true" if may_fail else "")
        self.write(f"on {node} {shlex.join(with_environ(argv, environ))}{tail}")

    def serve(
        self, node: str, argv: Sequence[str], report: str, environ: Mapping[str, str] = {}
    ) -> None:
        """Write the start of a process that stays until the load is over."""
        command = shlex.join(with_environ(argv, environ))
        self.write(f"serve {node} {shlex.quote(report)} {command}")

    def charge(self, cost: str | None) -> None:
        """Write the cost of the next program's calls on the virtual clock.

        None: the cost of all programs applies.
        """
        if cost is not None:
            self.write(f"charge {shlex.quote(cost)}")

    def flow(self, name: str, node: str, argv: Sequence[str], report: str) -> None:
        self.write(f"flow {shlex.quote(name)} {node} {shlex.quote(report)} {shlex.join(argv)}")

    def listening(self, node: str, protocol: str, port: int) -> None:
        """Write that the lab waited until a process listened on a port."""
        self.write(f"listening {node} {protocol} {port}")

    def record_load_begin(self) -> None:
        """Write the start of the load, from which times are counted."""
        self.write("load_begins")
        self._file.flush()

    def at(self, instant_s: float) -> None:
        """Write that the next lines happened this long after the start of the load."""
        self.write(f"at {instant_s:.9g}")

    def record_load_end(self, reports: Mapping[str, tuple[str, str]]) -> None:
        """Write that the lab waited until every flow was over.

        `reports` has each flow's type and report.
        """
        self.write("load_ends")
        for name, (traffic_type, report) in reports.items():
            self.write(f"goodput {shlex.quote(name)} {traffic_type} {shlex.quote(report)}")

    def write_file(self, path: Path, content: bytes, mode: int) -> None:
        """Write a file as a here-document, in Base64 if it is not text."""
        text = content.decode("utf-8", errors="replace")
        is_text = text.encode() == content and text.endswith("\n") and END_OF_FILE not in text
        body = text if is_text else base64.encodebytes(content).decode("ascii")
        quoted = shlex.quote(str(path))
        self.write(f"make_folder {shlex.quote(str(path.parent))}")
        self.write(f"{'cat' if is_text else 'base64 -d'} >{quoted} <<'{END_OF_FILE}'")
        self._file.write(f"{body}{END_OF_FILE}\n")
        self.write(f"chmod {mode:o} {quoted}")

    def close(self) -> None:
        """Close the complete script."""
        self._file.close()


def with_environ(argv: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return a command that sets environment variables first."""
    if not environ:
        return list(argv)
    return ["env", *(f"{name}={value}" for name, value in environ.items()), *argv]
