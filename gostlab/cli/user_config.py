# SPDX-License-Identifier: MIT
"""Read the user's defaults of options: GOSTLAB_CONFIG, or config.yaml in XDG_CONFIG_HOME/gostlab.

`jobs: 1` is the default of --jobs for every verb that has it. An option on the command line wins.
A run's settings have no place here: they belong into an experiment, which others can repeat.
"""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gostlab.cli.common import ArgumentParser
from gostlab.errors import BadInput
from gostlab.registry.folders import home
from gostlab.spec.yaml_source import Node, known_fields, load_document

OPTIONS: Mapping[str, str] = {
    "results": "folder of results",
    "jobs": "number of parallel runs",
    "machine": "`sandbox`, `native` or `auto`",
    "gost": "the GOST to use: a program, the name of one that was added, or `relay`",
    "repeat": "runs of each cell",
    "quiet": "`true`: no progress on standard error",
    "verbose": "`true`: a line for each run that starts and ends",
    "open": "`true`: `./lab report` opens its page",
}


def config_file() -> Path | None:
    """Return the file with the user's defaults; None if there is none."""
    named = os.environ.get("GOSTLAB_CONFIG")
    if named is not None:
        return Path(named) if named else None
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else home() / ".config"
    path = folder / "gostlab" / "config.yaml"
    return path if path.exists() else None


def set_user_defaults(parser: ArgumentParser) -> None:
    """Give a verb's parser the user's defaults. Raises BadInput with the line of a wrong one."""
    file = config_file()
    if file is None:
        return
    for name, node in known_fields(load_document(file), OPTIONS).items():
        for action in parser.declared:
            if f"--{name}" in action.option_strings:
                parser.set_defaults(**{action.dest: read_default(node, action)})


def read_default(node: Node, action: argparse.Action) -> Any:
    """Return a default as the option's own reader takes it. Raises BadInput."""
    if node.text is None:
        raise node.bad(f"{node.type_phrase}, where a value should be")
    if action.nargs == 0:
        if node.text not in ("true", "false"):
            raise node.bad_value("neither true nor false")
        return node.text == "true"
    if action.choices is not None and node.text not in action.choices:
        raise node.bad_value(f"not one of {', '.join(map(str, action.choices))}")
    read: Any = action.type or str
    try:
        return read(os.path.expanduser(node.text))
    except (argparse.ArgumentTypeError, ValueError, BadInput) as error:
        raise node.bad_value(str(error)) from None
