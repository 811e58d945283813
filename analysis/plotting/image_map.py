# SPDX-License-Identifier: MIT
"""Record the position of cells in a figure, where a page adds links to their runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

SIGN = "cell:"  # prefix of an artist's gid; the keys of cells follow


@dataclass(frozen=True)
class CellRegion:
    """A rectangle of a figure, in shares of it from its upper left corner."""

    keys: tuple[str, ...]  # keys of its cells
    left: float
    top: float
    width: float
    height: float


def tag_artist(artist: Any, keys: str | Iterable[str]) -> None:
    """Tag an artist with a cell, or with several."""
    known = [keys] if isinstance(keys, str) else [key for key in dict.fromkeys(keys) if key]
    if known and all(known):
        artist.set_gid(SIGN + " ".join(known))


def tag_artist_with_row(artist: Any, row: pd.Series) -> None:
    """Tag an artist with the cell of a table's row."""
    tag_artist(artist, str(row.get("key") or ""))


def cell_regions(figure: Figure) -> list[CellRegion]:
    """Return the cells' positions in a laid-out figure, largest first: points lie above areas."""

    def stands_for_cells(artist: Artist) -> bool:
        return str(artist.get_gid() or "").startswith(SIGN) and artist.get_visible()

    spots = []
    figure_box = figure.bbox
    for artist in figure.findobj(stands_for_cells):
        box = artist.get_window_extent()
        left, right = (min(max(x / figure_box.width, 0.0), 1.0) for x in (box.x0, box.x1))
        below, above = (min(max(y / figure_box.height, 0.0), 1.0) for y in (box.y0, box.y1))
        keys = tuple(str(artist.get_gid()).removeprefix(SIGN).split())
        spots.append(CellRegion(keys, left, 1 - above, right - left, above - below))
    unique = dict.fromkeys(spots)  # not a set, whose order differs between processes
    return sorted(unique, key=lambda spot: (-spot.width * spot.height, spot.left, spot.top))
