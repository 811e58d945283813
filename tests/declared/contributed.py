"""What a contributor would write: a tunnel in a file of its own, a topology as one class. The tests
put each into a copy of the lab and touch nothing else in it.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.machine import CHECKOUT
from tests.lab_command import said_by


def not_needed(folder: str, names: list[str]) -> set[str]:
    """What no run needs of the checkout: its own results, documents and tests among it."""
    top = {"results", "docs", "tests"} if folder == str(CHECKOUT) else set()
    return {name for name in names if name[0] == "." or name == "__pycache__" or name in top}


FORWARDER = '''"""forwarder: a plain TCP forwarder in Python at each end."""

from gostlab.declared.tunnels import TunnelKind
from gostlab.guest.tunnels.launch import LOOPBACK, Launch, Tunnel

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


def start(launch: Launch) -> Tunnel:
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
    return launch.three_legs()
'''

PARKING_LOT = '''
class ParkingLotTopo(Topo):
    """s1 crosses both bottlenecks, s2 the first, s3 the second.

        s1, s2 ── left ═════ middle ═════ right ── r1, r3
                            r2, s3
    """

    name = "parking"
    says = "two bottlenecks in a row: one flow crosses both, two cross one each"
    sender = "s{}"
    receiver = "r{}"
    most_hosts = 3
    own_rtts = True

    def build(self, **_params):
        routers, home = ["left", "middle", "right"], dict(s1=0, s2=0, s3=1, r1=2, r2=1, r3=2)
        nets = {name: f"10.1.{number}" for number, name in enumerate(home, 1)}
        own = ["10.0.1.1/24", "10.0.1.2/24", "10.0.2.2/24"]
        before, behind = ["", "10.0.1.1", "10.0.2.1"], ["10.0.1.2", "10.0.2.2", ""]
        other_link = [[("10.0.2.0/24", "10.0.1.2")], [], [("10.0.1.0/24", "10.0.2.1")]]
        for at, router in enumerate(routers):
            routes = [
                (f"{nets[name]}.0/24", (behind if there > at else before)[at])
                for name, there in home.items()
                if there != at
            ]
            self.addHost(router, cls=Router, ip=own[at], routes=routes + other_link[at])
        for at, hosts in enumerate([("s1", "s2"), ("s1", "s3")]):
            one, other = (
                {"ip": f"10.0.{at + 1}.{end}/24", "role": ("bottleneck", way, hosts)}
                for end, way in ((1, "forward"), (2, "reverse"))
            )
            self.addLink(routers[at], routers[at + 1], params1=one, params2=other)
        for name, router in home.items():
            net, way = nets[name], "reverse" if name[0] == "s" else "forward"
            self.addHost(name, cls=LabHost, ip=f"{net}.1/24", defaultRoute=f"via {net}.2")
            self.addLink(
                name,
                routers[router],
                params1={"ip": f"{net}.1/24"},
                params2={"ip": f"{net}.2/24", "role": ("delay", way, name)},
            )


'''


@dataclass(frozen=True)
class CopiedLab:
    """A copy of the lab to add to."""

    root: Path

    def add_tunnel(self, name: str, text: str) -> None:
        """A file in its place."""
        (self.root / "gostlab" / "guest" / "tunnels" / f"{name}.py").write_text(text)

    def add_topology(self, text: str) -> None:
        """A class in topo.py."""
        topo = self.root / "topo.py"
        before, mark, after = topo.read_text().partition("topos = {")
        topo.write_text(before.rstrip() + "\n\n" + text + mark + after)

    def lab(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`./lab WORDS`."""
        return said_by(self.root / "lab", *words, cwd=self.root)

    def run(self, experiment: str) -> Path:
        """Run an experiment's one run in the sandbox; returns its folder."""
        file = self.root / "mine.yaml"
        file.write_text(experiment)
        results = self.root / "mine"
        done = self.lab("run", str(file), "--machine", "sandbox", "--results", str(results))
        folders = [path.parent for path in results.rglob("run.json")]
        assert done.returncode == 0 and len(folders) == 1, done.stdout + done.stderr
        return folders[0]

    def python(self, script: str) -> str:
        """What a script prints that imports the copy."""
        return said_by(sys.executable, "-c", script, cwd=self.root, check=True).stdout


def copy_lab(folder: Path) -> CopiedLab:
    """A copy of this checkout, without its tests and documents."""
    shutil.copytree(CHECKOUT, folder, ignore=not_needed)
    return CopiedLab(folder)


def read_json(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))
