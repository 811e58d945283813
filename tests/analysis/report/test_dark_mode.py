# SPDX-License-Identifier: MIT
"""A figure on dark paper: what is read can be seen, and what is a number stays."""

import re

import pytest

from gostlab.analysis.plotting import style
from gostlab.analysis.plotting.style import FAINT, INK
from gostlab.analysis.report.dark_mode import (
    CARD,
    add_dark_mode,
    contrast,
    dark_colour,
    mix_colours,
)
from gostlab.registry.palette import CC_COLOURS, OTHER_COLOURS


def svg(*colours: str, inside: str = "") -> bytes:
    paths = "".join(f'<path style="fill: {colour}; stroke: {colour}"/>' for colour in colours)
    return f'<svg xmlns="http://www.w3.org/2000/svg">{paths}{inside}</svg>'.encode()


def dark(picture: bytes) -> dict[str, str]:
    """What becomes of each colour by night."""
    day, night = (
        dict(re.findall(r"(--c\d+):(#[0-9a-f]{6})", block))
        for block in re.findall(r":root{([^}]*)}", add_dark_mode(picture).decode())
    )
    return {day[name]: night[name] for name in day}


@pytest.mark.parametrize("colour", [*CC_COLOURS.values(), *OTHER_COLOURS, INK, FAINT])
def test_every_line_is_seen_on_dark_paper(colour: str) -> None:
    colour = colour.lower()
    assert contrast(dark(svg(colour, INK)).get(colour, colour), CARD) >= 3


def test_letters_change_places_with_the_paper_and_pale_fields_are_dimmed() -> None:
    found = dark(svg("#ffffff", INK, "#d9e6d3"))
    assert found["#ffffff"] == CARD and contrast(found[INK], CARD) > 10
    assert contrast(found["#d9e6d3"], found[INK]) > 4.5


def test_a_hatched_bar_is_no_white_slab() -> None:
    figure, [[axes]] = style.new_figure(2.0)
    axes.bar([1], [1], facecolor="white", hatch="//")
    assert (
        b"#ffffff" not in add_dark_mode(style.save_figure(figure, "svg")).partition(b"</style>")[2]
    )
    assert dark_colour("#0072b2") in ("", mix_colours("#ffffff", "#0072b2", 0.05))


def test_a_scale_of_colours_stays_as_it_is() -> None:
    picture = svg("#fde725", "#440154", INK, inside='<g id="QuadMesh_1"/>')
    assert set(dark(picture)) == {INK}
    assert b"fill: #fde725" in add_dark_mode(picture)


@pytest.mark.slow
def test_what_is_no_colour_stays_and_a_figure_has_a_dark_form() -> None:
    assert add_dark_mode(b'<svg><use href="#abcdef"/></svg>') == b'<svg><use href="#abcdef"/></svg>'
    figure, _ = style.new_figure(2.0)
    saved = add_dark_mode(style.save_figure(figure, "svg"))
    assert b"prefers-color-scheme:dark" in saved and b"fill: #ffffff" not in saved
    assert style.save_figure(figure, "pdf") == style.save_figure(figure, "pdf")
