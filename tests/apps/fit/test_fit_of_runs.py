"""./lab fit against a known truth: rates that the lab itself made, under a loss that the fit is not
told.
"""

import json
from pathlib import Path

import pytest

from gostlab.describe.file.profile import load_profile
from tests.lab_command import said_by

pytestmark = pytest.mark.sandbox

LAB = Path(__file__).resolve().parents[3] / "lab"
PATH = {"rate": "100mbit", "rtt": "40ms", "streams": "8", "duration": "4s"}
TRUTH = 0.5  # % of loss
# CUBIC's rate goes with 1/loss^0.5 here. Eight streams have some 80 losses in 4 s, so a run's rate
# is known to about 8 % and the loss, of two runs' difference, to about 25 %: a factor of 2 is three
# of its standard deviations. The runs' seeds are fixed, so the test says the same every time.
FACTOR = 2.0


def lab(folder: Path, *words: str) -> str:
    done = said_by(LAB, *words, cwd=folder, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_loss_that_the_lab_made_is_found_again_and_again(tmp_path: Path) -> None:
    asked = [word for name, value in PATH.items() for word in (f"--{name}", value)]
    made = json.loads(
        lab(
            tmp_path,
            *("try", *asked, "--cc", "cubic", "--forward.loss", f"{TRUTH}%"),
            *("--seed", "77", "--machine", "sandbox", "--json"),
        )
    )
    rate_bps = made["cells"][0]["goodput_bps"]
    (tmp_path / "mine.yaml").write_text(
        f"name: mine\n"
        f"settings: {{{', '.join(f'{name}: {value}' for name, value in PATH.items())}}}\n"
        "screen: 4s\n"
        "free:\n  loss: {sets: forward.loss, from: 0.05%, to: 5%}\n"
        f"measured:\n  - {{factors: {{cc: cubic}}, goodput: {rate_bps / 1000:.0f}kbit, sd: 10%}}\n",
        encoding="utf-8",
    )
    fit = ("fit", "plain-100ms", "--from", "./mine.yaml", "--out", ".", "--machine", "sandbox")
    fit += ("--points", "6", "--members", "0", "--json")

    said = json.loads(lab(tmp_path, *fit))

    profile = load_profile(str(tmp_path / "plain-100ms-fitted.yaml"))
    assert TRUTH / FACTOR < 100 * profile.forward.loss.p < TRUTH * FACTOR
    assert profile.fitted is not None and profile.fitted.rows[0].in_band
    (loss,) = profile.fitted.parameters
    least, most = (float(end.rstrip("%")) for end in (loss.least, loss.most))
    assert 0.05 < least < most < 5, "what fits as well is less than what was searched"
    assert (tmp_path / "results/fit-plain-100ms-fitted/fitted.png").stat().st_size > 5000
    # Asked again, it finds its runs, and comes to the same.
    runs = tmp_path / "results/fit-plain-100ms-fitted"
    before = {status: status.stat().st_mtime_ns for status in runs.glob("*/status.json")}
    text = profile.path_on_disk.read_bytes()
    again = json.loads(lab(tmp_path, *fit, "--force"))
    assert {status: status.stat().st_mtime_ns for status in runs.glob("*/status.json")} == before
    assert profile.path_on_disk.read_bytes() == text and again == said
    assert said["runs"] == len(before)
