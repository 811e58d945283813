"""The pages of the site: what runs say of studies, tunnels, kernels and the lab itself.

    site/pages/*.md · site/pages/studies/*.png

Each page of site_pages/ has marks (gostlab.analysis.report.generated_tables), which runs fill. The
page of studies has every figure and number. The page of fits is made from fitted profiles, the
page of speed is that of the reference. All of it can be deleted and made again.
"""

import shutil
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from gostlab.analysis.load.published import load_study
from gostlab.analysis.report.generated_tables import fill, load_fullest
from gostlab.analysis.report.paper_reproductions import write_studies_page
from gostlab.analysis.stats.text_table import Column, Table, texts
from gostlab.registry.folders import ROOT
from gostlab.results import write_whole
from gostlab.spec.fit_record import FitRecord
from gostlab.spec.profile import list_profiles, load_profile

TEMPLATES = Path(__file__).with_name("site_pages")
STYLE = Path(__file__).with_name("site.css")
SPEED = ROOT / "docs/reference/speed.md"  # by ./lab bench --write
CONFIGURATION = """\
project = "gostlab"
copyright = "its authors"
extensions = ["myst_parser"]
html_theme = "alabaster"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
suppress_warnings = ["myst.header", "myst.xref_missing"]
"""


def write_site(results: Path, names: Sequence[str], folder: Path, *, keep: bool = False) -> Path:
    """Write the site's pages from a results folder; the folder with them.

    names: the experiments of the page of studies; keep: its other sections stay. Raises BadInput,
    OSError.
    """
    pages = folder / "pages"
    pages.mkdir(parents=True, exist_ok=True)
    load = cache(partial(load_fullest, results))
    for template in sorted(TEMPLATES.glob("*.md")):
        text = fill(template, load, ROOT, none=not_run)
        write_whole(pages / template.name, text)
    write_studies_page(results, [*map(load_study, names)], pages / "studies.md", keep=keep)
    write_whole(pages / "fits.md", fits_page())
    shutil.copyfile(SPEED, pages / SPEED.name)
    write_whole(pages / "conf.py", CONFIGURATION)
    write_whole(pages / "_static" / STYLE.name, STYLE.read_bytes())
    return pages


def not_run(experiment: str, matrices: Sequence[str]) -> str:
    """What stands in the place of a table without runs."""
    named = "".join(f" --matrix {name}" for name in matrices)
    return f"Not run here: `./lab run {experiment}{named} --repeat 5`, then `make results`."


def fits_page() -> str:
    """Every fitted profile: what it was fitted to, and how near the lab comes."""
    parts = [
        "# Fits\n\nA fit finds a path on which the lab says what was measured. Several paths can:"
        " a fit is no measurement.\nEach is a profile in `netem_profiles/`, made by `./lab fit`.\n"
    ]
    for name in list_profiles():
        profile = load_profile(name)
        if profile.fitted is not None:
            parts.append(f"## {profile.title}\n\n{fit_tables(name, profile.fitted)}")
    return "\n".join(parts)


def fit_tables(name: str, fitted: FitRecord) -> str:
    """A fit's free parameters, and its numbers beside the lab's."""
    free = [
        {"name": each.sets, "value": each.value, "range": f"{each.least} to {each.most}"}
        for each in fitted.parameters
    ]
    numbers = [
        {
            "label": each.label,
            "use": each.use,
            "asked": each.asked_mbit,
            "band": f"{each.band_least_mbit:g} to {each.band_most_mbit:g}",
            "lab": each.lab_mbit,
            "span": span(each.least_mbit, each.most_mbit),
        }
        for each in fitted.rows
    ]
    columns = (
        *texts(label="number", use="use"),
        Column("asked", "measured (Mbit/s)"),
        Column("band", "band"),
        Column("lab", "lab, best path"),
        Column("span", "lab, paths that fit as well"),
    )
    of_free = texts(name="free", value="best", range="fits as well")
    both = ((of_free, free), (columns, numbers))
    tables = ["\n".join(Table("", "", "", of, tuple(rows)).lines()) for of, rows in both]
    said = f"Profile `{name}`, from `{fitted.measurements}`, by {fitted.by}: {fitted.runs} runs."
    return "\n\n".join([said, *tables]) + "\n"


def span(least: float | None, most: float | None) -> str:
    return "" if least is None or most is None else f"{least:g} to {most:g}"
