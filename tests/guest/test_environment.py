# SPDX-License-Identifier: MIT
"""A run is refused where the kernel is not the one that it asks for: this machine's own is not."""

import json
import subprocess
import sys
from pathlib import Path

from gostlab.guest import environment
from gostlab.sandbox import CHECKOUT
from tests.sandboxed import describe


def test_a_run_on_a_kernel_that_charges_otherwise_than_asked_is_not_begun(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(describe().to_json()))
    (tmp_path / "parts.json").write_text("{}")

    ended = subprocess.run([sys.executable, "-m", "gostlab.guest.run", tmp_path], cwd=CHECKOUT)

    outcome = json.loads((tmp_path / "outcome.json").read_text())
    assert (ended.returncode, outcome["outcome"], outcome["cause"]) == (1, "failed", None)
    assert outcome["error"].startswith("system-call cost: requested 5.0 us, the kernel has None")


def test_the_real_clock_charges_nothing_and_asks_for_no_such_kernel() -> None:
    environment.check_virtual_clock(describe(clock="real"))
