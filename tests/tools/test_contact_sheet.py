# SPDX-License-Identifier: MIT
"""A sheet has each state of each page, and tells what is too wide or too pale."""

from pathlib import Path

import pytest
from PIL import Image

from tests.analysis.browser import Browser
from tools import contact_sheet

PAGE = '<meta name="viewport" content="width=device-width"><body style="{style}">A page.</body>'


@pytest.mark.parametrize(
    ("style", "overflow_px", "contrast"),
    [("margin: 0", 0, 21.0), ("margin: 0; width: 500px; color: #777; background: #fff", 100, 4.48)],
)
def test_it_measures_width_and_contrast(
    browser: Browser, tmp_path: Path, style: str, overflow_px: int, contrast: float
) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(style=style), encoding="utf-8")
    found = contact_sheet.photograph(browser, page, contact_sheet.VIEWS[1])
    assert found.picture.width == 400
    assert (found.overflow_px, round(found.contrast, 2)) == (overflow_px, contrast)
    assert found.is_good == (overflow_px == 0)


def test_a_sheet_has_a_place_for_every_state() -> None:
    tile = Image.new("RGB", (100, 50))
    sheet = contact_sheet.arrange([[("one", tile), ("two", tile)], [("three", tile)]])
    assert sheet.width > 200 and sheet.height > 100


def test_pages_are_files_or_addresses() -> None:
    read = contact_sheet.read_pages("class=few.html,http://127.0.0.1:8420/?rate=1mbit")
    assert read == ("class", [Path("few.html"), "http://127.0.0.1:8420/?rate=1mbit"])


def test_a_page_that_is_not_there_is_an_error(browser: Browser, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        contact_sheet.photograph(browser, tmp_path / "none.html", contact_sheet.VIEWS[0])
