# SPDX-License-Identifier: MIT
"""What a contributor would write: a tunnel in a file of its own, a topology as one class. The tests
put each into a copy of the lab and touch nothing else in it.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gostlab.sandbox import CHECKOUT
from tests.lab_command import said_by
from tests.sandboxed import Done


def not_needed(folder: str, names: list[str]) -> set[str]:
    """What no run needs of the checkout: its own results, documents and tests among it."""
    top = {"results", "docs", "tests"} if folder == str(CHECKOUT) else set()
    return {name for name in names if name[0] == "." or name in top}


FORWARDER = '''"""forwarder: a plain TCP forwarder in Python at each end."""

from gostlab.registry.tunnels import TunnelKind
from gostlab.guest.tunnel_context import LOOPBACK, TunnelLaunch, Tunnel
from gostlab.tunnels._forwarder_legs import forwarder_legs

TUNNEL = TunnelKind(
    name="forwarder",
    says="a TCP forwarder in Python",
    program="/usr/bin/python3",
    packages=("python3-minimal",),
)
SCRIPT = """\\
import json, socket, sys, threading

def copy(source, sink):
    while data := source.recv(65536):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)

with open(sys.argv[1]) as file:
    listen, connect = (tuple(end) for end in json.load(file))
server = socket.create_server(listen)
while True:
    near, _ = server.accept()
    far = socket.create_connection(connect)
    for ends in ((near, far), (far, near)):
        threading.Thread(target=copy, args=ends, daemon=True).start()
"""


def start(launch: TunnelLaunch) -> Tunnel:
    import json

    script = str(launch.write_file("forward.py", SCRIPT, 0o755))
    for node, listen, connect in (
        (launch.far, ["0.0.0.0", launch.port], list(launch.sink)),
        (launch.near, [LOOPBACK, launch.port], [launch.far_address, launch.port]),
    ):
        ends = json.dumps([listen, connect])
        secret = str(launch.write_file(f"{node}.json", ends, 0o600))
        launch.start_end(node, [launch.program_path, script, secret])
        launch.wait_until_listening(node, launch.port)
    return forwarder_legs(launch)
'''

# topo.py's dumbbell by another name, which nothing in the lab knows.
TOPO = (CHECKOUT / "topo.py").read_text("utf-8")
DUMBBELL = TOPO.partition("class DumbbellTopo(Topo):")[2].partition("\n\n\nclass ")[0]
PAIRS = f"class PairsTopo(Topo):{DUMBBELL}\n\n\n".replace('"dumbbell"', '"pairs"')


@dataclass(frozen=True)
class CopiedLab:
    """A copy of the lab to add to."""

    root: Path

    def add_tunnel(self, name: str, text: str) -> None:
        """A file in its place."""
        (self.root / "gostlab" / "tunnels" / f"{name}.py").write_text(text)

    def add_topology(self, text: str) -> None:
        """A class in topo.py."""
        topo = self.root / "topo.py"
        before, mark, after = topo.read_text().partition("topos = {")
        topo.write_text(before.rstrip() + "\n\n" + text + mark + after)

    def lab(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`./lab WORDS`."""
        return said_by(self.root / "lab", *words, cwd=self.root)

    def runs(self, experiment: str) -> list[Path]:
        """The folders of an experiment's runs in the sandbox."""
        file = self.root / "mine.yaml"
        file.write_text(experiment)
        results = self.root / "mine"
        done = self.lab("run", str(file), "--machine", "sandbox", "--results", str(results))
        assert done.returncode == 0, done.stdout + done.stderr
        return [path.parent for path in results.rglob("run.json")]

    def run(self, experiment: str) -> Done:
        """The one run of an experiment."""
        [folder] = self.runs(experiment)
        return Done(folder)

    def python(self, script: str) -> str:
        """What a script prints that imports the copy."""
        return said_by(sys.executable, "-c", script, cwd=self.root, check=True).stdout


def copy_lab(folder: Path, copy: Callable[[str, str], object] = shutil.copy2) -> CopiedLab:
    """A copy of this checkout, without its tests and documents."""
    shutil.copytree(CHECKOUT, folder, ignore=not_needed, copy_function=copy)
    return CopiedLab(folder)
