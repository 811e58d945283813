# SPDX-License-Identifier: MIT
"""Start runs on the host's own kernel, as root, in network namespaces of the host.

Everything is in namespaces held by Mininet's shells, and ends with them. There is one run at a
time: runs share the CPUs and, on the real clock, would disturb each other.
"""

import json
import os
from pathlib import Path

from gostlab.install.parts_json import PartsJson
from gostlab.registry.folders import PYTHON_PATH
from gostlab.sandbox import (
    QUICK_IMPORTS,
    RUN,
    TimedProcess,
    guest_argv,
    plugin_environ,
    require_own_files,
    require_plugins,
    start_logged,
    time_limit_s,
)
from gostlab.sandbox.uml import host_facts
from gostlab.spec.run_spec import RunSpec

# The command that ends all processes of a run with it: Mininet's shells would otherwise survive a
# killed parent and keep their namespaces.
CONTAINMENT = (
    "setpriv --pdeathsig KILL unshare --pid --mount --mount-proc --fork --kill-child=KILL"
).split()
# The isolation of a native run, which is root, in the terms of env.json.
ISOLATION = "namespaces of networks, mounts and processes (as root)"


def start_run(run: RunSpec, folder: Path, parts: PartsJson, commit: str | None) -> TimedProcess:
    """Start a run on this kernel. Raises OSError."""
    files = {name: str(folder) for name, folder in require_own_files(run).items()}
    handed: PartsJson = {**parts, "commit": commit, "files": files}
    plugins = require_plugins(run)
    (folder / "parts.json").write_text(json.dumps(handed), encoding="utf-8")
    environ = {
        **os.environ,
        **QUICK_IMPORTS,
        "PYTHONPATH": PYTHON_PATH,
        "PYTHONSAFEPATH": "1",  # the folder that one is in may be of another checkout
        **plugin_environ(run, PYTHON_PATH, [str(path) for path in plugins.values()]),
        "GOSTLAB_HOST": json.dumps(host_facts(ISOLATION)),
    }
    process = start_logged([*CONTAINMENT, *guest_argv(RUN, str(folder))], folder, environ)
    return TimedProcess(process, time_limit_s(run))
