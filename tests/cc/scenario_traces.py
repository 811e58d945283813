# SPDX-License-Identifier: MIT
"""What the scenarios of `./lab cc test` show of the lab's own controls, each run once for all
tests.
"""

from functools import cache
from pathlib import Path

from gostlab.cc_cases.scenarios import Trace, read_trace, run_scenarios
from gostlab.install.kernel_modules import module_for
from tests.sandboxed import Lab


@cache
def folder_of(lab: Lab, name: str, cc: str) -> Path:
    """The folder of the guest that ran a scenario."""
    module = module_for(cc, lab.kernel)
    assert module is not None
    folder = lab.folder()
    folders = {name: folder}
    run_scenarios([name], cc, module, lab.kernel, folders, jobs=1, say=lambda _: None)
    return folder


@cache
def seen(lab: Lab, name: str, cc: str = "bbr3") -> Trace:
    """What a scenario came to."""
    return read_trace(folder_of(lab, name, cc))
