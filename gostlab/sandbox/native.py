"""The host's own kernel, as root: the same run in the host's network namespaces.

Everything is in namespaces that Mininet's shells hold, so that it ends with them. One run at a
time: runs share the CPUs and, on the real clock, would disturb each other.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gostlab.registry.folders import PYTHON_PATH
from gostlab.sandbox import QUICK_IMPORTS, RUN, TimedProcess, guest_argv, start_logged, time_limit_s
from gostlab.sandbox.uml import host_facts
from gostlab.spec.run_spec import RunSpec

# What the run starts ends with it, whatever ends it: Mininet's shells would outlive a killed parent
# otherwise, and hold their namespaces.
HELD = (
    "setpriv --pdeathsig KILL unshare --pid --mount --mount-proc --fork --kill-child=KILL"
).split()
# What the host's own kernel keeps a run in; the run is root, and nothing else holds it.
ISOLATION = "namespaces of networks, mounts and processes (as root)"


def start_run(
    run: RunSpec, folder: Path, parts: Mapping[str, Any], commit: str | None
) -> TimedProcess:
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
    return TimedProcess(process, time_limit_s(run))
