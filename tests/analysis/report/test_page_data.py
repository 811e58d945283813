# SPDX-License-Identifier: MIT
"""What the page's scripts get and may do: small numbers that lose no peak, data that ends no
element, and no script but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import re
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pytest
import synthetic

from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.series import TimeSeries
from gostlab.analysis.load.study import Study
from gostlab.analysis.plotting.style import new_figure, save_figure
from gostlab.analysis.report import page_data, report
from gostlab.analysis.report.report import (
    SavedFigure,
    figure_uris,
    minify_svg,
    svg_uri,
    write_report,
    write_run,
)
from gostlab.cli.main import main
from gostlab.errors import BadInput
from gostlab.results import read_series
from tests.analysis.conftest import sketch_all

if TYPE_CHECKING:
    from browser import Browser

VENDOR = Path(page_data.VENDOR)
HOSTILE = (
    """</script><script>document.title='owned'</script><img src=x onerror="document.title=1">"""
)


def unpacked(block: str) -> tuple[Any, bytes]:
    """What a data block says, and its columns."""
    whole = zlib.decompress(base64.b64decode(block), wbits=-15)
    end = 4 + int.from_bytes(whole[:4], "little")
    return json.loads(whole[4:end]), whole[end:]


def numbers(told: dict[str, Any], columns: bytes) -> np.ndarray:
    if "step" not in told:
        return np.frombuffer(columns, dtype="<f8", count=told["n"], offset=told["at"])
    found = np.frombuffer(columns, dtype="<u2", count=told["n"], offset=told["at"])
    return told["lo"] + told["step"] * (np.cumsum(found) % 2**16)


def block_of(page: Path) -> tuple[Any, bytes]:
    html = page.read_text(encoding="utf-8")
    found = re.search(r'<script type="text/plain" id="runs-data">([A-Za-z0-9+/=]*)</script>', html)
    assert found is not None
    return unpacked(found[1])


@pytest.mark.parametrize("steps", [page_data.VALUE_STEPS, page_data.TIME_STEPS])
def test_quantised_numbers_are_within_half_a_step(steps: int) -> None:
    columns = page_data.ColumnStore()
    values = np.array([0.0, 1.5, 1234.5678, 99999.9, 3.0])
    told = columns.quantised(values, steps)
    found = numbers(told, bytes(columns.content))
    assert np.abs(found - values).max() <= 0.5001 * told["step"]
    same = columns.quantised(np.array([7.0, 7.0]), steps)
    assert list(numbers(same, bytes(columns.content))) == [7.0, 7.0]


def test_a_column_that_two_lines_share_stands_there_once() -> None:
    columns = page_data.ColumnStore()
    instants = np.linspace(0, 10, 100)
    assert columns.exact(instants)["at"] == columns.exact(instants.copy())["at"]
    assert len(columns.content) == 800


def test_thinning_keeps_the_peaks() -> None:
    values = np.ones(100_000)
    values[777], values[50_001] = 1e6, -5.0
    kept = page_data.thin_out(TimeSeries(np.arange(100_000) / 10, values), 2000)
    assert len(kept) <= 2000 and kept.value.max() == 1e6 and kept.value.min() == -5.0
    assert (np.diff(kept.t_s) > 0).all()


def test_no_words_end_the_data_block() -> None:
    text = page_data.pack({"name": HOSTILE, "line": "\u2028"}, page_data.ColumnStore())
    assert re.fullmatch(r"[A-Za-z0-9+/=]*", text)
    assert unpacked(text)[0]["name"] == HOSTILE


def test_the_charts_library_is_the_one_that_was_read() -> None:
    sums = {
        "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    }
    for name, digest in sums.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest
    assert "MIT License" in (VENDOR / "uPlot.LICENSE").read_text(encoding="utf-8")


def test_outlines_are_shorter_and_scales_stay() -> None:
    svg = (
        b'<?xml version="1.0"?><!-- words --><g id="axes_1" transform="scale(0.015625)">\n  '
        b'<path id="used" d="M 1.23456 2.5 L 30.999999 4"/>\n <use xlink:href="#used"/></g>'
    )
    assert minify_svg(svg) == (
        b'<g transform="scale(0.015625)"><path id="used" d="M 1.23 2.5 L 30.99 4"/>'
        b'<use xlink:href="#used"/></g>'
    )


def test_a_figure_s_address_ends_no_attribute_and_is_the_same_picture() -> None:
    svg = b'<svg xmlns="http://www.w3.org/2000/svg"><desc>&lt;a&gt; 100 % #1</desc></svg>'
    uri = svg_uri(svg)
    assert not set(uri) & set('"&#')
    assert unquote(uri.partition(",")[2]) == svg.decode().replace('"', "'")
    assert '"' not in svg_uri(svg.replace(b"100", b"it's"))


def test_the_heaviest_figures_are_bitmaps_where_all_would_be_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure, _ = new_figure(2.0)
    png = save_figure(figure, "png")
    svgs = {"small": b"<svg>1</svg>", "large": b"<svg>" + b"1" * 200_000 + b"</svg>"}
    drawn = {name: SavedFigure(svg, png, b"", []) for name, svg in svgs.items()}
    assert all(uri.startswith("data:image/svg") for uri in figure_uris(drawn).values())
    monkeypatch.setattr(report, "MAX_FIGURE_BYTES", 100_000)
    found = figure_uris(drawn)
    assert found["small"].startswith("data:image/svg")
    assert found["large"].startswith("data:image/webp")
    assert sum(map(len, found.values())) < 100_000


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two runs over time on a path that changes, whose words are somebody's."""
    results = tmp_path_factory.mktemp("results")
    change = {"at_s": 5.0, "direction": "forward", "rate_bps": 50_000_000}
    for cc in ("cubic", "bbr"):
        levels = {"cc": cc, "buffer": HOSTILE}
        run = synthetic.several({"cc": cc}, {"cc": cc}, factors=levels, duration_s=20.0)
        run["changes"] = [change]
        env = {"qdiscs_before": {"a": HOSTILE}}
        folder = synthetic.write_run(results, run, name=f"fair-{cc}", log=HOSTILE, env=env)
        (folder / "commands.sh").write_text(f"# {HOSTILE}\n")
        synthetic.write_over_time(folder, run, {"flow1": 60.0, "flow2": 30.0})
        rows = read_series(folder, "sockets")
        app = [row | {"leg": "app", "bytes_acked": int(1e6 * row["t_s"])} for row in rows]
        synthetic.put_lines(folder, "sockets", [*rows, *app])
        asked = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(asked | {"tunnel": "gost+ws"}))
    study = Study("made-up", HOSTILE, HOSTILE, matrix_draws=(("fair", ("cells", "shares")),))
    return write_report(results, [study], tmp_path_factory.mktemp("out"))


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_page_has_every_run_s_series_checks_queues_and_commands(page: Path) -> None:
    told, columns = block_of(page)
    runs = told["e1"]
    assert {run["name"] for run in runs} == {"fair-cubic", "fair-bbr"}
    rate = next(panel for panel in runs[0]["panels"] if panel["title"] == "Rate (Mbit/s)")
    legs = [("flow1", ""), ("flow2", ""), ("flow1, app leg", "app"), ("flow2, app leg", "app")]
    assert [(line["name"], line["leg"]) for line in rate["lines"]] == legs
    assert np.median(numbers(rate["lines"][0]["v"], columns)) == pytest.approx(60, rel=0.05)
    assert np.median(numbers(rate["lines"][2]["v"], columns)) == pytest.approx(8, rel=0.05)
    assert "flows.flow1.cc" in runs[0]["told"] and runs[0]["levels"]["cc"] in ("BBR", "CUBIC")
    assert runs[0]["changes"] == [[5.0, "50 Mbit/s"]]
    assert runs[0]["commands"] == f"# {HOSTILE}\n" and runs[0]["qdiscs"][0][1] == HOSTILE
    assert all(len(check) == 5 for check in runs[0]["checks"]) and runs[0]["checks"]


def test_what_tells_two_runs_apart_is_only_what_differs(tmp_path: Path) -> None:
    for cc in ("cubic", "bbr"):
        cpu = {"busy_ns": len(cc), "cpus": len(cc), "now_ns": 10 * len(cc)}
        env = {
            "sysctls": {"client": {"net.ipv4.tcp_congestion_control": cc}},
            "host_cpu": {"client": cpu},
            "cc_state": {"rows": len(cc)},
        }
        synthetic.write_run(tmp_path, synthetic.cell(cc, 1), env=env)
    told = page_data.differing_values(load_results(tmp_path, "made-up").runs)
    assert {each["cc"] for each in told} == {"cubic", "bbr"}
    sysctl = "env: sysctls.client.net.ipv4.tcp_congestion_control"
    assert {each[sysctl] for each in told} == {"cubic", "bbr"}
    assert "env: kernel" not in told[0] and "streams" not in told[0]
    # what was counted until a run ended differs between any two and says nothing
    of_cpus = [name for name in told[0] if "host_cpu" in name or "cc_state" in name]
    assert of_cpus == ["env: host_cpu.client.cpus"]


def test_the_page_of_one_run_has_every_sample_as_it_is(tmp_path: Path) -> None:
    run = synthetic.several({"cc": "cubic"}, {"cc": "bbr"}, duration_s=500.0)
    folder = synthetic.write_run(tmp_path, run)
    synthetic.write_over_time(folder, run, {"flow1": lambda t: 1 / 3 + t, "flow2": 3.0})
    page = write_run(folder, tmp_path / "one.html")
    told, columns = block_of(page)
    (found,) = told["run"]
    rtt = next(panel for panel in found["panels"] if panel["title"] == "Round trip (ms)")
    sampled = [row["t_s"] for row in read_series(folder, "sockets") if row["flow"] == "flow1"]
    assert len(sampled) > page_data.MAX_POINTS
    assert list(numbers(rtt["lines"][0]["t"], columns)) == sampled
    with pytest.raises(BadInput, match="not a run's folder"):
        write_run(tmp_path / "nothing", tmp_path / "none.html")


@pytest.mark.slow
def test_the_command_opens_a_run_by_its_folder_and_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for experiment in ("one", "two"):
        run = synthetic.description(experiment=experiment, duration_s=5.0)
        folder = synthetic.write_run(tmp_path, run, name=f"main-{experiment}")
        synthetic.write_run(tmp_path, run, name="same")
        synthetic.write_over_time(folder, run, {"flow1": lambda t: 1 + t})
    here = ["--results", str(tmp_path)]
    for asked in (str(tmp_path / "one/main-one"), "main-one", "one/main-one"):
        assert main(["report", "--open", asked, *here]) == 0
        page = Path(capsys.readouterr().out.strip())
        assert page == tmp_path / "report/main-one.html"
        assert "main-one" in page.read_text(encoding="utf-8")
        page.unlink()
    out = str(tmp_path / "mine.html")
    assert main(["report", "--open", "two/same", *here, "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"report": out} and Path(out).is_file()
    folder_out = ["--out", str(tmp_path / "pages")]
    assert main(["report", "--open", "two/same", *here, *folder_out]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "pages/same.html")
    for asked in ("main-one", "one/main-one"):
        assert main(["report", asked, *here]) == 0
        assert Path(capsys.readouterr().out.strip()) == tmp_path / "report/main-one.html"
    for asked, words in (
        ("same", "several runs"),
        ("/etc/passwd", "no run of that name"),
        ("nothing", "no run of that name"),
        (str(tmp_path), "not a run's folder"),
    ):
        assert main(["report", "--open", asked, *here]) == 2
        said = capsys.readouterr()
        assert words in said.err and said.err.count("\n") == 1 and not said.out
    assert main(["report", "one", "--open", "main-one", *here]) == 2
    assert "name no experiment" in capsys.readouterr().err


X11, WAYLAND = {"DISPLAY": ":7"}, {"WAYLAND_DISPLAY": "wayland-0"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "desktop"),
    [
        (["--open"], X11),
        (["--open", "main-run"], WAYLAND),
        (["--open", "main-run"], {}),
        (["--open", "--json"], X11),
    ],
)
def test_the_page_is_opened_where_there_is_a_desktop(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    desktop: dict[str, str],
    asked: list[str],
) -> None:
    """The desktop's opener is given the page; its path is printed anyway."""
    sketch_all(monkeypatch)
    results, opened = tmp_path / "results", tmp_path / "opened"
    synthetic.write_run(results, synthetic.description(duration_s=5.0), name="main-run")
    opener = tmp_path / "xdg-open"
    opener.write_text(f'#!/bin/sh\necho "$*" > {opened}.part; mv {opened}.part {opened}\n')
    opener.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in desktop.items():
        monkeypatch.setenv(name, value)

    assert main(["report", "--results", str(results), *asked]) == 0

    page = capsys.readouterr().out.splitlines()[-1]
    if "--json" in asked or not desktop:
        assert page.removesuffix('"}').endswith(".html")
        assert not opened.exists()
        return
    while not opened.exists():
        time.sleep(0.01)
    assert opened.read_text().strip() == page


# -- in a browser


OPEN_ITEMS = (
    "[...document.querySelectorAll('details[data-run][open]')].map((one) => one.dataset.run)"
)
FOCUSED = "document.activeElement.className + ' ' + document.activeElement.tagName"


@pytest.mark.slow
def test_in_a_browser_the_address_says_what_is_shown(browser: Browser, page: Path) -> None:
    browser.show_as(1280, "light")
    words = "in=e1&f.cc=BBR&run=fair-bbr&with=fair-cubic&zoom=4-9&legs=1"
    browser.open(f"{page.as_uri()}#{words}")
    assert browser.look(OPEN_ITEMS) == ["fair-bbr"]
    assert browser.look("document.querySelectorAll('.uplot').length") >= 3
    shown = browser.look("document.body.innerText")
    assert "1 of 2 runs" in shown and "What differs" in shown and "5 s: 50 Mbit/s" in shown
    assert "flow1, app leg" in shown
    # dragging over a chart zooms, and the address keeps it over a reload
    box = browser.look(
        "(() => { const over = document.querySelector('.u-over'); over.scrollIntoView();"
        " const {x, y, width, height} = over.getBoundingClientRect(); return [x, y, width, height];"
        " })()"
    )
    x, y, width, height = box
    browser.drag((x + 0.2 * width, y + height / 2), (x + 0.6 * width, y + height / 2))
    browser.until("!location.hash.includes('zoom=4-9')")
    zoom = browser.look("new URLSearchParams(location.hash.slice(1)).get('zoom')")
    low, high = map(float, zoom.split("-"))
    assert low == pytest.approx(5.0, abs=0.1) and high == pytest.approx(7.0, abs=0.1)
    browser.open(browser.look("location.href"))
    assert browser.look("new URLSearchParams(location.hash.slice(1)).get('zoom')") == zoom
    assert browser.look(OPEN_ITEMS) == ["fair-bbr"]
    assert browser.complaints() == []


@pytest.mark.slow
def test_in_a_browser_a_point_leads_to_its_runs_by_mouse_and_by_keyboard(
    browser: Browser, page: Path
) -> None:
    browser.show_as(1280, "light")
    browser.open(page.as_uri())
    first = "document.querySelector('.spot')"
    assert "n = 1" in browser.look(f"{first}.getAttribute('aria-label')")
    # by the keyboard: one stop of the tab key, arrows inside, Enter, and Escape back
    for _ in range(12):
        browser.press("Tab")
        if browser.look(FOCUSED).startswith("spot"):
            break
    assert browser.look(FOCUSED) == "spot A"
    assert browser.look("getComputedStyle(document.activeElement).outlineStyle") != "none"
    cell = browser.look("document.activeElement.dataset.cells")
    browser.press("ArrowRight")
    assert browser.look("document.activeElement.dataset.cells") != cell
    browser.press("ArrowLeft")
    assert browser.look("document.activeElement.dataset.cells") == cell
    browser.press("Enter")
    browser.until("document.querySelectorAll('.uplot').length")
    assert browser.look(f"location.hash.includes('cell={cell}')")
    (name,) = browser.look(OPEN_ITEMS)
    assert browser.look(FOCUSED).strip() == "SUMMARY"
    told = browser.look(f"document.querySelector('[data-run={name}]').innerText")
    for words in ("seed", "Asked", "Got", "Queueing disciplines", "Commands", "Folder"):
        assert words in told
    browser.press("Escape")
    assert browser.look("document.activeElement.dataset.cells") == cell
    # by the mouse
    browser.look(f"{first}.click()")
    browser.until("document.activeElement.tagName === 'SUMMARY'")
    browser.press("Space")
    # A fold tells its page later that it opened or closed: the next key waits for the charts.
    browser.until(f"!{OPEN_ITEMS}.length && !document.querySelector('.uplot')")
    browser.press("Enter")
    browser.until(f"{OPEN_ITEMS}.length === 1 && document.querySelector('.uplot')")
    # the charts by the keyboard
    browser.look("document.querySelector('.charts [tabindex]').focus()")
    browser.press("ArrowRight")
    browser.press("+")
    browser.until("location.hash.includes('zoom=')")
    browser.press("0")
    browser.until("!location.hash.includes('zoom=')")
    assert browser.complaints() == []


@pytest.mark.slow
def test_in_a_browser_nobody_s_words_run(browser: Browser, page: Path) -> None:
    browser.show_as(1280, "light")
    browser.open(f"{page.as_uri()}#in=e1&run=fair-bbr&run=fair-cubic&with=fair-bbr&f.cc={HOSTILE}")
    browser.look("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.look("document.title") == HOSTILE
    assert browser.look("document.querySelectorAll('img[src=x], [onerror]').length") == 0
    assert HOSTILE in browser.look("document.querySelector('pre.commands').textContent")
    assert browser.complaints() == []


# The least contrast of any text with what is behind it (WCAG 2.1), and whose.
CONTRAST = """(() => {
  const parse = (colour) => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const over = (top, under) => top.slice(0, 3).map((v, at) => v * top[3] + under[at] * (1 - top[3]));
  const behind = (node) => {
    if (!node) return [255, 255, 255];
    const own = parse(getComputedStyle(node).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(node.parentElement));
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let least = [99, ""];
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.textContent.trim() || !node.checkVisibility() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(node.tagName)) continue;
    const under = behind(node), ink = over(parse(getComputedStyle(node).color), under);
    const [low, high] = [light(ink), light(under)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < least[0]) least = [contrast, `${node.tagName}.${node.className}: ${text.textContent.trim().slice(0, 40)}`];
  }
  return least;
})()"""
BROADER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.slow
def test_in_a_browser_it_fits_any_width_and_is_read_dark_and_light(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    for width, scheme in itertools.product((360, 768, 1280, 2000), ("light", "dark")):
        browser.show_as(width, scheme)
        browser.open(f"{page.as_uri()}#in=e1&run=fair-bbr&with=fair-cubic&legs=1")
        browser.look("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        browser.until("document.querySelectorAll('.uplot').length >= 6")
        assert browser.look(BROADER) <= 0, (width, scheme)
        contrast, whose = browser.look(CONTRAST)
        assert whose and contrast >= 4.5, (width, scheme, contrast, whose)
        browser.picture(tmp_path / "screenshots" / f"{width}-{scheme}-run.png")
        browser.look("scrollTo(0, 0)")
        browser.picture(tmp_path / "screenshots" / f"{width}-{scheme}.png")
    assert browser.complaints() == []
    assert len(list((tmp_path / "screenshots").iterdir())) == 16


@pytest.mark.slow
def test_in_a_browser_the_page_is_read_without_scripts(browser: Browser, page: Path) -> None:
    able = "Emulation.setScriptExecutionDisabled"
    browser.execute_cdp_cmd(able, {"value": True})
    try:
        browser.get("about:blank")
        browser.get(page.as_uri() + "#")
        figures = "[...document.querySelectorAll('figure img')]"
        assert browser.look(f"{figures}.every((one) => one.naturalWidth > 100)")
        assert browser.look(f"{figures}.length") >= 2
        link = browser.look("document.querySelector('.spot').getAttribute('href')")
        assert browser.look(f"document.querySelector('{link}').dataset.run").startswith("fair-")
        assert "seed" in browser.look(f"document.querySelector('{link}').textContent")
        assert not browser.look("document.querySelectorAll('.uplot').length")
    finally:
        browser.execute_cdp_cmd(able, {"value": False})
