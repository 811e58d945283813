"""What the page's scripts get and may do: small numbers that lose no peak, data that ends no
element, and no script but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import synthetic

from analysis.page import interactive
from analysis.page.report import shortened, write_studies
from analysis.read.runs import load_results
from analysis.read.series import Series
from analysis.read.study import Study

VENDOR = Path(interactive.VENDOR)
HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='x'\">"
)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def unpacked(told: dict[str, object]) -> np.ndarray:
    numbers = np.frombuffer(base64.b64decode(str(told["of"])), dtype="<u2")
    return float(str(told["lo"])) + float(str(told["step"])) * numbers


def test_sixteen_bits_are_within_a_step() -> None:
    values = np.array([0.0, 1.5, 1234.5678, 99999.9, 3.0])
    told = interactive.packed(values)
    assert np.abs(unpacked(told) - values).max() <= float(told["step"])
    assert list(unpacked(interactive.packed(np.array([7.0, 7.0])))) == [7.0, 7.0]


def test_thinning_keeps_the_peaks() -> None:
    values = np.ones(100_000)
    values[777], values[50_001] = 1e6, -5.0
    kept = interactive.thinned(Series(np.arange(100_000) / 10, values), 2000)
    assert len(kept) <= 2000 and kept.value.max() == 1e6 and kept.value.min() == -5.0
    assert (np.diff(kept.t_s) > 0).all()


def test_no_words_end_the_data_block() -> None:
    text = interactive.as_data({"name": HOSTILE, "line": "\u2028"})
    assert "<" not in text and ">" not in text and "\u2028" not in text
    assert json.loads(text)["name"] == HOSTILE


def test_the_charts_library_is_the_one_that_was_read() -> None:
    sums = {
        "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    }
    for name, digest in sums.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest
    assert "MIT License" in (VENDOR / "uPlot.LICENSE").read_text(encoding="utf-8")


def test_outlines_are_shorter_and_scales_stay() -> None:
    svg = b'<g transform="scale(0.015625)"><path d="M 1.23456 2.5 L 30.999999 4"/></g>'
    assert shortened(svg) == (
        b'<g transform="scale(0.015625)"><path d="M 1.23 2.5 L 30.99 4"/></g>'
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two runs over time, whose words are somebody's."""
    results = tmp_path_factory.mktemp("results")
    for cc in ("cubic", "bbr"):
        run = synthetic.several(
            {"cc": cc}, {"cc": cc}, factors={"cc": cc, "buffer": HOSTILE}, duration_s=20.0
        )
        folder = synthetic.write_run(results, run, name=f"fair-{cc}", log=HOSTILE)
        synthetic.write_over_time(folder, run, {"flow1": lambda _: 60.0, "flow2": lambda _: 30.0})
    study = Study("made-up", HOSTILE, HOSTILE, matrix_draws=(("fair", ("cells",)),))
    return write_studies(results, [study], tmp_path_factory.mktemp("out"))


def test_only_the_page_s_own_scripts_may_run(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    said = policy[1].replace("&#39;", "'")
    ran = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    hashes = {
        "'sha256-" + base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() + "'"
        for each in ran
    }
    assert len(ran) == 2
    assert hashes == set(re.findall(r"'sha256-[^']*'", said))
    assert "default-src 'none'" in said and "unsafe-eval" not in said
    assert "unsafe-inline" not in said.partition("script-src")[2]


def test_the_page_has_every_run_s_series(page: Path) -> None:
    html = page.read_text(encoding="utf-8")
    block = re.search(r'<script type="application/json" id="runs-data">(.*?)</script>', html)
    assert block is not None
    runs = json.loads(block[1])["e1"]
    assert {run["name"] for run in runs} == {"fair-cubic", "fair-bbr"}
    rate = next(panel for panel in runs[0]["panels"] if panel["title"] == "Rate (Mbit/s)")
    assert [line["name"] for line in rate["lines"]] == ["flow1", "flow2"]
    assert np.median(unpacked(rate["lines"][0]["v"])) == pytest.approx(60, rel=0.05)
    assert "flows.flow1.cc" in runs[0]["told"] and runs[0]["levels"]["cc"] in ("BBR", "CUBIC")


def test_what_tells_two_runs_apart_is_only_what_differs(tmp_path: Path) -> None:
    for cc in ("cubic", "bbr"):
        synthetic.write_run(tmp_path, synthetic.cell(cc, 1))
    told = interactive.told_apart(load_results(tmp_path, "made-up").runs)
    assert {each["cc"] for each in told} == {"cubic", "bbr"}
    assert "kernel" not in told[0] and "streams" not in told[0]


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_in_a_browser_charts_are_drawn_and_nobody_s_words_run(page: Path, tmp_path: Path) -> None:
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            f"--user-data-dir={tmp_path}",
            "--virtual-time-budget=3000",
            "--dump-dom",
            f"{page.as_uri()}#in=e1&f.cc=BBR&run=fair-bbr&with=fair-cubic",
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    assert "<title>owned" not in done.stdout and "<title>x" not in done.stdout
    assert done.stdout.count('class="uplot') >= 2
    assert "1 of 2 runs" in done.stdout and "What differs" in done.stdout
