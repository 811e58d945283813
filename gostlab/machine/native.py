"""The host's own kernel, as root: the same run in the host's network namespaces.

Everything is in namespaces that Mininet's shells hold, so that it ends with them. One run at a
time: runs share the CPUs and, on the real clock, would disturb each other.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gostlab.declared.folders import PYTHON_PATH
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.machine import QUICK_IMPORTS, RUN, Watched, guest_argv, start_logged, time_limit_s
from gostlab.machine.sandbox import host_facts

# What the run starts ends with it, whatever ends it: Mininet's shells would outlive a killed parent
# otherwise, and hold their namespaces.
HELD = (
    "setpriv --pdeathsig KILL unshare --pid --mount --mount-proc --fork --kill-child=KILL"
).split()
# What the host's own kernel keeps a run in; the run is root, and nothing else holds it.
ISOLATION = "namespaces of networks, mounts and processes (as root)"


def start_run(
    run: RunDescription, folder: Path, parts: Mapping[str, Any], commit: str | None
) -> Watched:
    """Start a run on this kernel. Raises OSError."""
    (folder / "parts.json").write_text(json.dumps(dict(parts)), encoding="utf-8")
    environ = {
        **os.environ,
        **QUICK_IMPORTS,
        "PYTHONPATH": PYTHON_PATH,
        "GOSTLAB_COMMIT": json.dumps(commit),
        "GOSTLAB_HOST": json.dumps(host_facts(ISOLATION)),
    }
    process = start_logged([*HELD, *guest_argv(RUN, str(folder))], folder, environ)
    return Watched(process, time_limit_s(run))
