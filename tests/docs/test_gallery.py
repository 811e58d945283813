# SPDX-License-Identifier: MIT
"""docs/gallery/: each script runs, and leaves a picture in the colours of its congestion
controls.
"""

import re
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import pytest
from PIL import Image

import gostlab
from gostlab.registry.palette import CC_COLOURS
from tests.lab_command import script_here
from tests.sandboxed import Lab
from tools import gallery

SCRIPTS = gallery.scripts()
MAX_LINES = 25
NEEDED = {"polars_frame": "polars"}


def test_there_are_twelve_short_scripts_on_the_public_names() -> None:
    assert len(SCRIPTS) == 12
    for script in SCRIPTS:
        text = script.read_text("utf-8")
        assert len(text.splitlines()) <= MAX_LINES and gallery.question_of(script).count("?") == 1
        assert set(re.findall(r"\bgostlab\.(\w+)", text)) <= {*gostlab.__all__}
        assert not re.search(r"from gostlab|import gostlab\.", text)


def test_the_page_shows_every_script_and_its_picture() -> None:
    assert gallery.PAGE.read_text("utf-8") == gallery.page()
    for script in SCRIPTS:
        assert Image.open(script.with_suffix(".png")).width == 1050


@pytest.mark.sandbox
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_script_draws_its_picture(script: Path, lab: Lab, here: Path) -> None:
    needed = NEEDED.get(script.stem)
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"no {needed}")
    with mpl.rc_context(fname=gallery.GALLERY / "matplotlibrc"):
        mpl.use("agg")
        done = script_here(script)
    assert done.returncode == 0, done.stderr
    picture = Image.open(here / f"{script.stem}.png").convert("RGB")
    colours = {f"#{red:02X}{green:02X}{blue:02X}" for red, green, blue in picture.getdata()}
    assert len(colours & {*CC_COLOURS.values()}) >= 1
