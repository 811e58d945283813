# SPDX-License-Identifier: MIT
"""The site: pages that runs write, and their HTML."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from gostlab.registry.folders import ROOT
from tests.analysis.report.test_generated_tables import write_runs
from tools.results_pages import __main__ as results_pages
from tools.results_pages.__main__ import main
from tools.results_pages.site import TEMPLATES, write_site

PAGES = {"findings", "studies", "validation", "tunnels", "bbr-versions", "kernels", "fits", "speed"}


@pytest.mark.slow
def test_every_page_is_written_from_the_results(tmp_path: Path) -> None:
    write_runs(tmp_path / "results", 5)
    pages = write_site(tmp_path / "results", ["download"], tmp_path / "site")
    assert {path.stem for path in pages.glob("*.md")} == PAGES | {"index"}
    findings = (pages / "findings.md").read_text()
    assert "| BBR |" in findings or "| CUBIC | BBR |" in findings
    assert "Not run here: `./lab run thesis-tunnel --matrix main --repeat 5`" in findings
    assert "download" in (pages / "studies.md").read_text()
    assert "la-hamina-fitted" in (pages / "fits.md").read_text()
    style = (pages / "_static/site.css").read_text()
    assert "overflow-x: auto" in style and "prefers-color-scheme: dark" in style
    assert '"site.css"' in (pages / "conf.py").read_text()
    assert "tools.bench" in (pages / "speed.md").read_text()
    for name in PAGES:
        assert name in (TEMPLATES / "index.md").read_text()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("sphinx") is None, reason="no site tools: ./lab setup --with site")
def test_the_command_line_builds_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_runs(tmp_path / "results", 5)
    words = ["download", "--site", "--results", str(tmp_path / "results")]
    assert main([*words, "--out", str(tmp_path / "site")]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert page == tmp_path / "site/html/index.html" and "validation.html" in page.read_text()
    assert "<table" in (page.parent / "findings.html").read_text()
    index = (page.parent / "searchindex.js").read_text()
    assert '"manual/docs/reference/settings"' in index and "pareto" in index
    assert 'action="search.html"' in page.read_text()
    made = {path.stem for path in (page.parent / "manual/docs/how-to").glob("*.html")}
    assert made == {path.stem for path in (ROOT / "docs/how-to").glob("*.md")}


def test_without_the_generator_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(results_pages, "find_spec", lambda _: None)
    write_runs(tmp_path / "results", 1)
    words = ["--site", "--results", str(tmp_path / "results")]
    assert main([*words, "--out", str(tmp_path / "site")]) == 2
    assert "./lab setup --with site" in capsys.readouterr().err
