# SPDX-License-Identifier: MIT
"""The made-up results are made by a module beside the tests; and figures are drawn where they are
looked at.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parent))

import synthetic

from gostlab.analysis.plotting import style
from gostlab.analysis.plotting.image_map import cell_regions
from gostlab.analysis.plotting.plot_registry import ReportFigure
from gostlab.analysis.report import report
from tools.results_pages import paper_reproductions

# These ask what is on a page, and which files lie beside it, or on a figure, not where. Fixtures of
# a module have real pictures unless they sketch theirs, and a test marked `rendered` draws its own.
SKETCHED = (
    *("test_report", "test_studies", "test_drawings", "test_plain", "test_timelines"),
    *("test_curves", "test_cc_state", "test_delay_drawings", "test_tunnel_drawings"),
    *("test_measuring_drawings", "test_report_folder"),
)


def sketch(figure: Figure, kind: str) -> bytes:
    """In a picture's place: what is written in it, at once instead of after a second."""
    written = "\n".join(sorted(text.get_text() for text in figure.findobj(Text)))
    return b"\x89PNG" + written.encode() if kind == "png" else SVG % written.encode().hex().encode()


@contextmanager
def saved_here(
    wide: Sequence[ReportFigure], narrow: Sequence[ReportFigure]
) -> Iterator[Iterator[report.SavedFigure]]:
    """In this process: for a sketch no other is forked, with all that the tests have read."""
    yield (
        report.SavedFigure(sketch(each, "svg"), sketch(each, "png"), b"", cell_regions(each))
        for each in (picture.figure for picture in [*wide, *narrow])
    )


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><desc>%s</desc></svg>'


def sketch_all(patched: pytest.MonkeyPatch) -> None:
    """Until it is undone."""
    patched.setattr(paper_reproductions, "save_figure", sketch)
    patched.setattr(report, "figures_saved", saved_here)
    patched.setattr(style, "lay_out", lambda figure: None)


@pytest.fixture(autouse=True)
def _figures_are_sketched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    named = request.module.__name__.rpartition(".")[2]
    if named not in SKETCHED or request.node.get_closest_marker("rendered"):
        return
    sketch_all(monkeypatch)


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up experiment's results, whole."""
    results = tmp_path_factory.mktemp("everything")
    synthetic.write_everything(results)
    return results


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of every kind: ok, degraded, failed, unfinished, spoilt."""
    results = tmp_path_factory.mktemp("kinds")
    synthetic.write_kinds(results)
    return results


@pytest.fixture(scope="session")
def singles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its matrix of streams, a run of each cell."""
    results = tmp_path_factory.mktemp("singles")
    synthetic.write_matrix(results, 1)
    return results
