# SPDX-License-Identifier: MIT
"""Provide a testbed for congestion control, through tunnels or without.

    import gostlab

    experiment = gostlab.Experiment.of(cc=["cubic", "bbr"], loss="1%", repeat=5)
    for result in experiment.run(jobs=2):
        print(result.levels["cc"], result.goodput_mbit)
    found = gostlab.load(f"results/{experiment.name}")
    found.cells[["cell", "n", "goodput_mbit"]]
    found.draw("bars", matplotlib_axes)

A loop gets each result as soon as it is available, those of earlier runs first. `break`, Ctrl-C or
`cancel()` end the active runs; finished runs are kept, and the same experiment continues from
there. If the loop may raise, use `with experiment.run() as running:` around it. No signal handler
is set, and nothing ends the process or prints. Every error is one line: BadInput, MissingPart,
MachineError, ResultsError, or an OSError.

The names in __all__ are public, and so are their attributes that docs/reference/python.md lists: a
later version keeps their meaning, or announces a change in the changelog one version before.
Everything else may change.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"
# Each public name, and its module, which is imported at the first use, because a run inside the
# guest needs none of them. gostlab/__init__.pyi declares the same names for type checkers.
PUBLIC = dict.fromkeys(
    "Experiment Lab Progress Result Results Run Running compare load report".split(), "gostlab.api"
) | {
    "BadInput": "gostlab.errors",
    "MachineError": "gostlab.sandbox",
    "MissingPart": "gostlab.install.locate",
    "ResultsError": "gostlab.results",
    "SAMPLES": "gostlab.results",
    "cc_colour": "gostlab.registry.palette",
    "check_plugin": "gostlab.plugin_check.check_steps",
    "fit": "gostlab.search.fit_api",
}
__all__ = [*PUBLIC, "__version__"]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        return getattr(import_module(PUBLIC[name]), name)
    raise AttributeError(f"module 'gostlab' has no attribute {name!r}")
