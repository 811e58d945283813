# SPDX-License-Identifier: MIT
"""What each shipped experiment asks: a hash of its runs' names, whose own hashes are of everything
that is asked.

python3 -m tests.experiments.run_names          writes tests/data/run_names.json
python3 -m tests.experiments.run_names NAME     prints an experiment's names, to compare by diff
                                                with those of another checkout
"""

import hashlib
import json
import sys

from gostlab.registry.folders import ROOT
from gostlab.spec.expand import expand
from gostlab.spec.experiment import list_experiments, load_experiment

KEPT = ROOT / "tests/data/run_names.json"
FORMS = ("full", "quick")


def kept() -> dict[str, dict[str, str]]:
    """The hashes by experiment and form, as they are to stay."""
    found: dict[str, dict[str, str]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def names_of(experiment: str, form: str) -> list[str]:
    """The names of an experiment's runs, sorted."""
    runs = expand(load_experiment(experiment), quick=form == "quick")
    return sorted(run.name for run in runs)


def said_short(names: list[str]) -> str:
    """How many names there are, and a hash of them."""
    text = "\n".join(names)
    return f"{len(names)} runs, {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def main(words: list[str]) -> None:
    """Write the hashes of all experiments, or print the names of some."""
    for name in words:
        print("\n".join(f"{form} {each}" for form in FORMS for each in names_of(name, form)))
    if not words:
        hashes = {
            name: {form: said_short(names_of(name, form)) for form in FORMS}
            for name in list_experiments()
        }
        KEPT.write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
