# SPDX-License-Identifier: MIT
"""Write PDFs with copies of the style's fonts that hold only the usual characters.

matplotlib embeds of each font the glyphs of a figure, which fontTools cuts out of the whole font
each time: of a small one in a quarter of the time. A glyph looks the same in both, and a character
that the copy lacks comes from the font itself. matplotlib's cache folder keeps the copies.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gostlab.atomic_write import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

FAMILY, SMALL_FAMILY = "DejaVu Sans", "gostlab Sans"
FILES = ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf")
FORM = 1  # it changes with RANGES, so that older copies are not used
# Latin, Greek, punctuation, superscripts, currencies, arrows and mathematical operators.
RANGES = ((0x20, 0x7F), (0xA0, 0x180), (0x370, 0x400), (0x2000, 0x20C0), (0x2190, 0x2300))
# The name IDs of a font's family in its table `name` (OpenType).
FAMILY_NAMES = (1, 16)


@contextmanager
def small_fonts(figure: Figure) -> Iterator[None]:
    """Have a figure's texts use the small fonts in the block."""
    from matplotlib.text import Text

    texts = [text for text in figure.findobj(Text) if is_covered(text)] if register() else []
    for text in texts:
        text.set_fontfamily([SMALL_FAMILY, FAMILY])
    try:
        yield
    finally:
        for text in texts:
            text.set_fontfamily([FAMILY])


def is_covered(text: Text) -> bool:
    """Return whether the small fonts have the family and the slant of a text."""
    return text.get_fontfamily() == [FAMILY] and text.get_fontstyle() == "normal"


@cache
def register() -> bool:
    """Add the small fonts to those that matplotlib knows; return whether they could be made."""
    import matplotlib
    from matplotlib import font_manager

    # get_cachedir gives a temporary folder where the user's cannot be written
    folder = Path(matplotlib.get_cachedir()) / f"gostlab-fonts-{FORM}-{matplotlib.__version__}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if not (folder / name).is_file():
                write_small_font(Path(matplotlib.get_data_path(), "fonts/ttf", name), folder / name)
            font_manager.fontManager.addfont(folder / name)
    except (OSError, RuntimeError):  # the latter for a file that is no font
        return False
    return True


def write_small_font(source: Path, target: Path) -> None:
    """Write a copy of a font with RANGES' characters and another family name. Raises OSError."""
    from fontTools import subset
    from fontTools.ttLib import TTFont

    options = subset.Options(
        layout_features=["*"], name_IDs=["*"], notdef_outline=True, glyph_names=True
    )
    # FontForge's time stamp, of which the subsetter would say on standard error that it is dropped.
    options.drop_tables += ["FFTM"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for low, high in RANGES for code in range(low, high)])
    with TTFont(source) as font:
        subsetter.subset(font)
        for record in font["name"].names:
            if record.nameID in FAMILY_NAMES:
                record.string = SMALL_FAMILY
        content = io.BytesIO()
        font.save(content)
    write_whole(target, content.getvalue())
