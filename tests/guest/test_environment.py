"""A run is refused where the kernel is not the one that it asks for: this machine's own is not."""

import json
import subprocess
import sys
from pathlib import Path

from gostlab.guest import environment
from gostlab.guest.shell import TUNNEL_COMMAND, link_programs
from gostlab.machine import CHECKOUT
from tests.sandboxed import PLAIN, describe


def test_a_run_on_a_kernel_that_charges_otherwise_than_asked_is_not_begun(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(describe().to_json()))
    (tmp_path / "parts.json").write_text("{}")

    ended = subprocess.run([sys.executable, "-m", "gostlab.guest.run", tmp_path], cwd=CHECKOUT)

    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert (ended.returncode, outcome["outcome"], outcome["cause"]) == (1, "failed", None)
    assert outcome["error"].startswith("system-call cost: requested 5.0 us, the kernel has None")


def test_the_real_clock_charges_nothing_and_asks_for_no_such_kernel() -> None:
    environment.check_virtual_clock(describe(clock="real"))


def test_the_prompts_programs_are_the_runs(tmp_path: Path) -> None:
    built = {"path": "/opt/iperf3", "version": PLAIN.iperf3, "sha256": "0" * 64}
    parts = {"iperf3": {PLAIN.iperf3: built}, "tunnel": {"path": "/opt/gost"}}

    folder = link_programs(tmp_path, describe(), parts)

    links = {link.name: str(link.readlink()) for link in folder.iterdir()}
    assert links == {"iperf3": "/opt/iperf3", TUNNEL_COMMAND: "/opt/gost"}
