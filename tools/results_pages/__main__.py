# SPDX-License-Identifier: MIT
"""Write the site, or the pages of docs/ that results fill."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from gostlab import api
from gostlab.errors import BadInput
from gostlab.install.locate import MissingPart
from gostlab.registry.folders import ROOT
from tools.results_pages import generated_tables, site, summary


def write_site(results: Path, experiments: Sequence[str], out: Path) -> Path:
    """Write the site's pages of results, build it, and return its first page.

    experiments: sections of the page of studies to renew, the others stay (none: all that have
    results, and no others). Raises BadInput, MissingPart, OSError.
    """
    names = api.select_experiments(results, experiments)
    if find_spec("sphinx") is None:
        raise MissingPart("the site's generator is not there: run ./lab setup --with site")
    sources = site.write_site(results, names, out, keep=bool(experiments))
    arguments = ("-m", "sphinx", "-q", "-b", "html")
    argv: list[str | Path] = [sys.executable, *arguments, sources, out / "html"]
    process = subprocess.run(argv, capture_output=True, text=True)
    if process.returncode != 0:
        last_line = (process.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise OSError(f"{sources}: the site cannot be built: {last_line}")
    return out / "html" / "index.html"


def write_docs(results: Path, experiments: Sequence[str], out: Path) -> list[Path]:
    """Write results into the pages of docs/, and return the pages that were written.

    They have cells with five runs and more; what has none stays as it is. Raises BadInput, OSError.
    """
    names = api.select_experiments(results, experiments)
    results_page = out / "results.md"
    summary.update_pages(out)
    pages = sorted(page for page in out.rglob("*.md") if page != results_page)
    changed = generated_tables.write_marked(pages, results, ROOT)
    return [summary.write_summary(results, names, results_page), *changed]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.results_pages", description=__doc__)
    parser.add_argument("experiment", nargs="*", help="name (default: every one with results)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where the runs are")
    parser.add_argument("--out", type=Path, help="folder to write (default: site or docs)")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--site", action="store_true", help="write the site")
    which.add_argument("--docs", action="store_true", help="write the pages of docs/")
    arguments = parser.parse_args(argv)
    given = arguments.results, arguments.experiment
    try:
        if arguments.site:
            print(write_site(*given, arguments.out or ROOT / "site"))
        else:
            print(*write_docs(*given, arguments.out or ROOT / "docs"), sep="\n")
    except (BadInput, MissingPart, OSError) as error:
        print(f"results_pages: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
