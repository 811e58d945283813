# SPDX-License-Identifier: MIT
"""Find the names that the analysis declares: plots, models and metrics.

Each is declared once, where it is drawn or computed: `Drawing("by-loss", …)`,
`ThroughputModel("rfc9438", …)`, `Metric("jain", …)`. These files import matplotlib and pandas only
in the functions that need them: reading an experiment imports the files of its plots.
"""

import re
from pathlib import Path
from typing import Any

from gostlab.errors import BadInput
from gostlab.registry.folders import ANALYSIS, DRAWINGS, from_root
from gostlab.registry.installed_plugins import installed
from gostlab.registry.plugin_loader import import_file, import_installed

# The folders of plots, one plot per file. A test may add a folder.
DRAWING_FOLDERS: tuple[Path, ...] = (DRAWINGS,)
MODELS = ANALYSIS / "stats" / "throughput_model.py"
METRICS = ANALYSIS / "stats" / "metrics.py"
# The form of a plot with factors: heatmap(loss, rtt).
WITH_FACTORS = re.compile(r"([a-z0-9-]+)\((.+), (.+)\)")


def drawing_files() -> dict[str, Path]:
    """Return the file of every plot by name: by_loss.py is by-loss. No file is opened.

    Raises BadInput for two of one name.
    """
    files = [path for folder in DRAWING_FOLDERS for path in sorted(folder.glob("[!_]*.py"))]
    by_name = {path.stem.replace("_", "-"): path for path in files}
    for plugin in installed(DRAWINGS.name):
        path = plugin.file
        if (name := path.stem.replace("_", "-")) in by_name:
            raise BadInput(f"plugin {plugin} and {from_root(by_name[name])} are both called {name}")
        by_name[name] = path
    return by_name


def load_drawing(plot: str, path: Path) -> Any:
    """Return the plot that a file is named after. Raises BadInput if it does not declare it."""
    plugin = next((one for one in installed(DRAWINGS.name) if one.file == path), None)
    module = import_file(path) if plugin is None else import_installed(plugin)
    drawing = getattr(module, "DRAWING", None)
    if getattr(drawing, "word", None) != plot:
        raise BadInput(
            f'{from_root(path)}: no drawing {plot}: it must have DRAWING = Drawing("{plot}", …)'
            " (analysis/plotting/plot_registry.py says how)"
        )
    return drawing


def takes_factors(plot: str, path: Path) -> bool:
    """Return whether an experiment may name the two factors of a plot. Raises BadInput."""
    return load_drawing(plot, path).over is not None


def format_with_factors(plot: str, across: str, down: str) -> str:
    """Return the name of a plot with its two factors, as one string."""
    return f"{plot}({across}, {down})"


def split_plot_name(plot: str) -> tuple[str, tuple[str, str] | None]:
    """Return a plot's name, and its two factors if the file names them."""
    match = WITH_FACTORS.fullmatch(plot)
    return (plot, None) if match is None else (match[1], (match[2], match[3]))


def model_names() -> tuple[str, ...]:
    """Return the models that can be drawn beside the measured points."""
    return tuple(model.name for model in import_file(MODELS).MODELS)


def publishable_metrics() -> tuple[str, ...]:
    """Return the metrics that a study may have published."""
    return tuple(metric.name for metric in import_file(METRICS).METRICS)


def metrics_by_name() -> dict[str, Any]:
    """Return every metric by its name and by its column in tables."""
    metrics = import_file(METRICS).METRICS
    return {name: metric for metric in metrics for name in (metric.key, metric.name)}
