# SPDX-License-Identifier: MIT
"""Photograph pages in eight states, and measure what the eye may miss.

    python3 -m tools.contact_sheet --results results --out sheets
    python3 -m tools.contact_sheet class=few.html,many.html --out sheets
    python3 -m tools.contact_sheet --live --results results

Each page type is one picture, sheets/TYPE.png: above the page with few cells, below the one with
many; each at 1,280 px, at 400 px, dark, and as printed. Without pages, the types are an
experiment's report and a run's page, of the experiments of --results with the fewest and the most
cells. --live: the page of `./lab serve` alone, with one flow and with five; its runs go to
--results. A page is a file or an address. Printed for each state are the px by which the page is
wider than its view, and the lowest contrast ratio of a text (WCAG 2.2 asks for 4.5). Needs Debian's
chromium and chromium-driver.
"""

import argparse
import base64
import io
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from PIL import Image, ImageDraw, ImageFont

from gostlab import api
from gostlab.errors import BadInput
from tests.analysis.browser import Browser
from tests.serve.server_process import ServerProcess

MIN_CONTRAST = 4.5  # minimum of a text (WCAG 2.2, 1.4.3, level AA)
MAX_HEIGHT_PX = 3600  # maximum of a photograph; beyond it are lists and tables
GAP_PX, HEAD_PX = 24, 40
# Questions of the live page: one flow, and as many as its table and legends have to hold.
LIVE = (
    "rate=10mbit&rtt=40ms&buffer=1bdp&duration=5s&flows={alone: {cc: cubic}}",
    "rate=20mbit&rtt=40ms&buffer=4bdp&duration=6s&repeat=5&flows={first: {cc: cubic},"
    " second: {cc: bbr}, third: {cc: bbr3, start: 2s}, fourth: {cc: reno}, ping: {kind: ping}}",
)


@dataclass(frozen=True)
class View:
    """A way in which a page is looked at."""

    name: str
    width_px: int
    scheme: str = "light"
    medium: str = "screen"


VIEWS = (
    View("1,280 px", 1280),
    View("400 px", 400),
    View("dark", 1280, "dark"),
    View("print", 720, medium="print"),
)

# Return [px by which the page is wider than its view, lowest contrast of a text, that text].
MEASURE = """
const channel = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
const luminance = ([red, green, blue]) => 0.2126 * channel(red / 255)
  + 0.7152 * channel(green / 255) + 0.0722 * channel(blue / 255);
const parts = (colour) => (colour.match(/[0-9.]+/g) || []).map(Number);
const paper = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = parts(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] > 0.99) return colour;
  }
  return [255, 255, 255];
};
let lowest = [21, ""];
for (const element of [document.body, ...document.body.querySelectorAll("*")]) {
  const own = [...element.childNodes].filter((node) => node.nodeType === 3)
    .map((node) => node.textContent.trim()).join("");
  const box = element.getBoundingClientRect();
  if (!own || !box.width || !box.height || element.closest("script, style, canvas")) continue;
  if (getComputedStyle(element).visibility === "hidden") continue;
  const [low, high] = [luminance(parts(getComputedStyle(element).color)),
    luminance(paper(element))].sort((one, other) => one - other);
  const ratio = (high + 0.05) / (low + 0.05);
  if (ratio < lowest[0]) lowest = [ratio, own.slice(0, 30)];
}
const root = document.documentElement;
return [Math.max(0, root.scrollWidth - root.clientWidth), ...lowest];
"""


@dataclass(frozen=True)
class Photograph:
    """A page in one state, and what was measured of it."""

    picture: Image.Image
    overflow_px: int
    contrast: float
    text: str  # the text of the lowest contrast

    @property
    def is_good(self) -> bool:
        return self.overflow_px == 0 and self.contrast >= MIN_CONTRAST


def photograph(browser: Browser, page: Path | str, view: View) -> Photograph:
    """Open a file or an address in a view, and return its picture from the top and its measures."""
    browser.show_as(view.width_px, view.scheme)
    features = [{"name": "prefers-color-scheme", "value": view.scheme}]
    media = {"media": view.medium, "features": features}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get("about:blank")  # an address that differs in its query alone
    browser.get(page if isinstance(page, str) else page.resolve(strict=True).as_uri())
    browser.until("document.readyState === 'complete'")
    if isinstance(page, str) and page.startswith("http"):
        browser.until("document.documentElement.dataset.state === 'answered'")
    elif browser.look("document.getElementById('runs-data') !== null"):
        browser.until("'ready' in document.documentElement.dataset")
    overflow_px, contrast, text = browser.execute_script(MEASURE)
    height_px = min(MAX_HEIGHT_PX, int(browser.look("document.documentElement.scrollHeight")))
    clip = {"x": 0, "y": 0, "width": view.width_px, "height": height_px, "scale": 1}
    how = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    png = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", how)["data"])
    return Photograph(Image.open(io.BytesIO(png)).convert("RGB"), overflow_px, contrast, text)


def arrange(rows: Sequence[Sequence[tuple[str, Image.Image]]]) -> Image.Image:
    """Return one picture of rows of named pictures."""
    widths = [sum(picture.width + GAP_PX for _, picture in row) + GAP_PX for row in rows]
    heights = [max(picture.height for _, picture in row) + HEAD_PX + GAP_PX for row in rows]
    sheet = Image.new("RGB", (max(widths), sum(heights)), "#8a8f98")
    pen, font, top = ImageDraw.Draw(sheet), ImageFont.load_default(24), 0
    for row, height in zip(rows, heights, strict=True):
        left = GAP_PX
        for name, picture in row:
            pen.text((left, top + 6), name, font=font, fill="black")
            sheet.paste(picture, (left, top + HEAD_PX))
            left += picture.width + GAP_PX
        top += height
    return sheet


def write_sheets(pages: Mapping[str, Sequence[Path | str]], out: Path, browser: Browser) -> bool:
    """Write the sheet of each page type; return whether every state was good.

    pages: the page with few cells and the one with many, by type. Raises OSError.
    """
    out.mkdir(parents=True, exist_ok=True)
    are_good = True
    for name, of_type in pages.items():
        rows = []
        for cells, page in zip(("few", "many"), of_type, strict=False):
            row = []
            for view in VIEWS:
                one = photograph(browser, page, view)
                row.append((f"{name}, {cells} cells, {view.name}", one.picture))
                are_good &= one.is_good
                print(
                    f"{name:8} {cells:5} {view.name:9} {one.overflow_px:4} px too wide"
                    f"  contrast {one.contrast:5.2f}  {'ok' if one.is_good else repr(one.text)}"
                )
            rows.append(row)
        arrange(rows).save(out / f"{name}.png", optimize=True)
        print(out / f"{name}.png")
    return are_good


def result_pages(results: Path, out: Path) -> dict[str, list[Path]]:
    """Write the reports and run pages of the experiments with the fewest and the most cells.

    Raises BadInput, OSError.
    """
    cells = {
        name: len(set(cells_of(results / name))) for name in api.select_experiments(results, ())
    }
    names = sorted(cells, key=lambda name: cells[name])
    pages: dict[str, list[Path]] = {"report": [], "run": []}
    for name in dict.fromkeys((names[0], names[-1])):
        pages["report"].append(api.report(results, [name], out / name))
        run = sorted((results / name).glob("*/run.json"))[0].parent
        pages["run"].append(api.write_run_page(results, run, out / name))
    return pages


@contextmanager
def live_pages(results: Path) -> Iterator[dict[str, list[str]]]:
    """Serve the live page in the block, and give the addresses of its questions."""
    server = ServerProcess("--results", str(results))
    try:
        yield {"live": [server.address + quote(question, "=&") for question in LIVE]}
    finally:
        server.stop()


def cells_of(experiment: Path) -> Iterator[str]:
    """Yield the name of each run without its repetition."""
    for run in experiment.glob("*/run.json"):
        yield run.parent.name.rpartition("-r")[0]


def read_pages(word: str) -> tuple[str, list[Path | str]]:
    """Return the type and the pages of TYPE=FEW,MANY; addresses stay texts."""
    name, _, pages = word.partition("=")
    return name, [page if "://" in page else Path(page) for page in pages.split(",")]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.contact_sheet", description=__doc__)
    parser.add_argument("pages", nargs="*", metavar="TYPE=FEW.html,MANY.html")
    parser.add_argument("--live", action="store_true", help="photograph ./lab serve's page")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where the runs are")
    parser.add_argument("--out", type=Path, default=Path("sheets"), help="folder to write")
    arguments = parser.parse_args(argv)
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        print("contact_sheet: needs chromium and chromedriver: apt install chromium-driver")
        return 2
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory()))
        pages: Mapping[str, Sequence[Path | str]]
        try:
            if arguments.live:
                pages = stack.enter_context(live_pages(arguments.results))
            elif arguments.pages:
                pages = dict(map(read_pages, arguments.pages))
            else:
                pages = result_pages(arguments.results, scratch)
            browser = stack.enter_context(Browser(chromium, driver, scratch / "profile"))
            return 0 if write_sheets(pages, arguments.out, browser) else 1
        except (BadInput, OSError) as error:
            print(f"contact_sheet: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
