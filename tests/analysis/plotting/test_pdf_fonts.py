# SPDX-License-Identifier: MIT
"""Compare figures in the small fonts of PDFs with the fonts that they were cut from."""

import pytest
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.text import Text

from gostlab.analysis.plotting import pdf_fonts, style

TEXTS = ("goodput 1,430 Mbit/s: final – “AV” × 2 µs", "naïve Łódź, ∆t ≤ 1.5 σ², A→B, 5 €")


@pytest.fixture
def figure():
    with rc_context(style.STYLE):
        figure, axes = style.new_figure(2.0)
        for line, text in enumerate(TEXTS):
            for column, weight in enumerate(("normal", "bold")):
                axes[0, 0].text(column / 2, line / 2, text, fontweight=weight)
        figure.set_layout_engine(None)
    return figure


def families(figure: Figure) -> set[str]:
    return {family for text in figure.findobj(Text) for family in text.get_fontfamily()}


def test_small_fonts_draw_the_same_glyphs(figure):
    whole = style.save_figure(figure, "png")

    with pdf_fonts.small_fonts(figure):
        assert families(figure) == {pdf_fonts.SMALL_FAMILY, pdf_fonts.FAMILY}
        small = style.save_figure(figure, "png")

    assert small == whole
    assert families(figure) == {pdf_fonts.FAMILY}


def test_a_character_that_only_the_whole_font_has_is_drawn_by_it(figure):
    figure.texts.clear()
    figure.text(0.1, 0.8, "потери, %")
    whole = style.save_figure(figure, "png")

    with pdf_fonts.small_fonts(figure):
        assert style.save_figure(figure, "png") == whole


def test_a_pdf_embeds_fonts_of_the_same_names(figure):
    pdf = style.save_figure(figure, "pdf")

    assert b"+DejaVuSans " in pdf
    assert b"+DejaVuSans-Bold " in pdf
    assert b"gostlab" not in pdf
    assert style.save_figure(figure, "pdf") == pdf
