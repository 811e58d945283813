# SPDX-License-Identifier: MIT
"""A cluster behind TLS, by the lines of docs/how-to/dask-cluster.md: a scheduler, and a worker on
each of two machines.

A machine is a namespace with a name of its own, without the results' folder; the network is this
machine's loopback.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gostlab.registry import folders
from gostlab.sandbox import CHECKOUT
from tests.lab_command import Typed, said_by
from tests.sandboxed import Lab
from tests.skips import NEEDS_ROOT, require_mounts

pytestmark = [pytest.mark.sandbox, NEEDS_ROOT]
EXPERIMENT = """\
name: over
title: Over TLS
settings: {duration: 1s, rate: 10mbit, rtt: 10ms}
matrices:
  - name: main
    factors: {cc: [cubic]}
    repetitions: 2
"""


DASK = [sys.executable, "-m", "dask"]  # the environment's, whatever its folder


def documented(*beginnings: str) -> list[str]:
    """The blocks of commands in docs/how-to/dask-cluster.md that begin with these words."""
    text = (CHECKOUT / "docs/how-to/dask-cluster.md").read_text("utf-8")
    blocks = [block.replace("\n    ", "\n") for block in re.findall(r"(?m)((?:^    .*\n)+)", text)]
    found = [[block for block in blocks if block.strip().startswith(each)] for each in beginnings]
    assert all(len(each) == 1 for each in found), beginnings
    return [each[0].strip() for each in found]


def make_certificates(home: Path, key: str) -> None:
    """An authority, a certificate, and Dask's configuration of both in a home folder."""
    home.mkdir()
    steps = documented("mkdir -p -m 700 ~/gostlab-tls", "mkdir -p ~/.config/dask")
    assert steps[0].count(" rsa:3072 ") == 2
    for step in (each.replace("rsa:3072", key) for each in steps):
        subprocess.run(
            ["sh", "-euc", step], env=environ(home), check=True, capture_output=True, cwd=home
        )


def environ(home: Path) -> dict[str, str]:
    """An environment with another home folder, and what the set-up made."""
    own = {key: value for key, value in os.environ.items() if not key.startswith("DASK")}
    return own | {"HOME": str(home), "GOSTLAB_CACHE": str(folders.cache_folder())}


def on_a_machine(name: str, hidden: Path, words: list[str]) -> list[str]:
    """A command on a "machine" of that name which does not see a folder."""
    script = 'hostname "$1"; mount -t tmpfs none "$2"; shift 2; exec "$@"'
    return [
        *("unshare", "--uts", "--mount", "--propagation", "private"),
        *("sh", "-euc", script, "sh", name, str(hidden), *words),
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require_mounts()
    made = tmp_path_factory.mktemp("tls")
    make_certificates(made / "home", "rsa:3072")
    make_certificates(made / "elsewhere", "rsa:2048")  # found sooner, and as good for a stranger
    (made / "results").mkdir()
    (made / "over.yaml").write_text(EXPERIMENT)
    return made


@pytest.fixture(scope="module")
def address(lab: Lab, folder: Path) -> Iterator[str]:
    """The scheduler's address, with two workers behind it."""
    pytest.importorskip("distributed", reason="no distributed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begins = "~/.cache/gostlab/python/bin/dask scheduler"
    head, worker = map(shlex.split, documented(begins)[0].replace("\\\n", " ").splitlines())
    here = [*DASK, *head[1:], "--host", "127.0.0.1", "--port", str(port)]
    at = f"tls://127.0.0.1:{port}"
    assert worker[0] == "PYTHONPATH=$PWD"
    words = [*DASK, *(at if each == "tls://head:8786" else each for each in worker[2:])]
    words[words.index("--nworkers") + 1] = "1"
    words += ["--no-nanny", "--local-directory", str(folder / "scratch")]  # it starts sooner
    told = environ(folder / "home")
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "log.txt").open("wb") as log:
        try:
            for argv in (here, *(on_a_machine(n, folder / "results", words) for n in "ab")):
                started.append(
                    subprocess.Popen(
                        argv,
                        cwd=CHECKOUT,
                        env=told | {"PYTHONPATH": str(CHECKOUT)},
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                    )
                )
            deadline = time.monotonic() + 60
            while (folder / "log.txt").read_text().count("Register worker") < 2:
                assert time.monotonic() < deadline, (folder / "log.txt").read_text()
                time.sleep(0.2)
            yield at
        finally:
            # The scheduler last: a worker that has lost it looks for it before it ends.
            for each in reversed(started):
                each.terminate()
                try:
                    each.wait(10)
                except subprocess.TimeoutExpired:
                    each.kill()
                    each.wait()


def asked(folder: Path, address: str) -> list[str]:
    """The experiment's runs, on a cluster."""
    return ["run", str(folder / "over.yaml"), "--machine", "sandbox", "--dask", address]


def test_with_certificates_of_one_authority_two_machines_make_the_runs(
    address: str, folder: Path
) -> None:
    """The certificates are those of a home folder."""
    words = [*asked(folder, address), "--check-hosts", "--results", "results"]
    done = said_by(
        *(sys.executable, "-P", "-m", "gostlab", *words),
        cwd=folder,
        env=environ(folder / "home") | {"PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.DEVNULL,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    assert "agree bit for bit" in done.stdout + done.stderr
    made = sorted((folder / "results/over").glob("main-*"))
    assert len(made) == 2
    for each in made:
        assert json.loads((each / "status.json").read_text())["outcome"] == "ok"
        # as tars: the workers do not see this folder
        worker = json.loads((each / "env.json").read_text())["host"]["worker"]
        assert worker.endswith(("(a)", "(b)")), worker


@pytest.mark.filterwarnings("ignore:make_current:DeprecationWarning")  # distributed's own
@pytest.mark.parametrize("home", ["elsewhere", "stranger"])
def test_with_anothers_certificates_it_is_refused_in_one_line(
    address: str, typed: Typed, folder: Path, home: str
) -> None:
    pytest.importorskip("distributed", reason="no distributed")  # whose settings are among Dask's
    from dask import config

    before = (folder / "log.txt").read_text().count("Register worker")
    configured = (folder / "elsewhere/.config/dask/gostlab.yaml").read_text()
    if home == "stranger":  # trusts the cluster's authority, and has another's certificate
        mine = f"ca-file: {folder}/home/gostlab-tls/ca.pem"
        configured = re.sub("ca-file: .*", mine, configured)

    with config.set(config.merge(config.config, yaml.safe_load(configured))):
        done = typed(*asked(folder, address), "--results", folder / "results")

    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert "need certificates of one authority: docs/how-to/dask-cluster.md" in done.stderr
    assert (folder / "log.txt").read_text().count("Register worker") == before
