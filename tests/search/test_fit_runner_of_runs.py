# SPDX-License-Identifier: MIT
"""./lab fit against a known truth: rates that the lab made, under a loss that it is not told."""

import json
from pathlib import Path
from typing import Any

import pytest

from gostlab.spec.profile import load_profile
from tests.lab_command import Typed

pytestmark = pytest.mark.sandbox

PATH = {"rate": "50mbit", "rtt": "40ms", "streams": "8", "duration": "4s"}
TRUTH = 1.0  # % of loss
# CUBIC's rate goes with 1/loss^0.5 here. Eight streams have some 100 losses in 4 s, so a run's rate
# is known to about 8 % and the loss, of two runs' difference, to about 25 %: a factor of 2 is three
# of its standard deviations. The runs' seeds are fixed, so the test says the same every time.
FACTOR = 2.0


def test_a_loss_that_the_lab_made_is_found_again_and_again(here: Path, typed: Typed) -> None:
    def lab(*words: str) -> Any:
        done = typed(*words, "--machine", "sandbox", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    asked = [word for name, value in PATH.items() for word in (f"--{name}", value)]
    made = lab("try", *asked, "--cc", "cubic", "--forward.loss", f"{TRUTH}%", "--seed", "77")
    rate_bps = made["cells"][0]["goodput_bps"]
    (here / "mine.yaml").write_text(
        f"name: mine\n"
        f"settings: {{{', '.join(f'{name}: {value}' for name, value in PATH.items())}}}\n"
        "screen: 4s\n"
        "free:\n  loss: {sets: forward.loss, from: 0.1%, to: 10%}\n"
        f"measured:\n  - {{factors: {{cc: cubic}}, goodput: {rate_bps / 1000:.0f}kbit, sd: 10%}}\n",
        encoding="utf-8",
    )
    fit = "fit plain-100ms --from ./mine.yaml --out . --points 6 --members 0".split()

    said = lab(*fit)

    profile = load_profile(str(here / "plain-100ms-fitted.yaml"))
    assert TRUTH / FACTOR < 100 * profile.forward.loss.p < TRUTH * FACTOR
    assert profile.fitted is not None and profile.fitted.rows[0].in_band
    (loss,) = profile.fitted.parameters
    least, most = (float(end.rstrip("%")) for end in (loss.least, loss.most))
    assert 0.1 < least < most < 10, "what fits as well is less than what was searched"
    assert (here / "results/fit-plain-100ms-fitted/fitted.png").stat().st_size > 5000
    # Asked again, it finds its runs, and comes to the same.
    runs = here / "results/fit-plain-100ms-fitted"
    before = {status: status.stat().st_mtime_ns for status in runs.glob("*/status.json")}
    text = profile.path_on_disk.read_bytes()
    again = lab(*fit, "--force")
    assert {status: status.stat().st_mtime_ns for status in runs.glob("*/status.json")} == before
    assert profile.path_on_disk.read_bytes() == text and again == said
    assert said["runs"] == len(before)
