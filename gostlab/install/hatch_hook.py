# SPDX-License-Identifier: MIT
"""Add the lab's built parts to a wheel that hatchling builds (tools/wheel.py).

Hatchling runs this file without the lab's other modules.
"""

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc,unused-ignore]
    """A build hook that adds the folder named by GOSTLAB_BROUGHT, and its platform tag.

    For an editable install it makes the folder that comes onto Python's path: a link to gostlab
    alone, for a checkout's other folders have names such as tests and docs.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            link = Path(self.root, ".editable", "gostlab")
            link.parent.mkdir(exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(Path("..", "gostlab"))
        brought = os.environ.get("GOSTLAB_BROUGHT")
        if brought:
            build_data["force_include"][brought] = "gostlab/brought"
            build_data["tag"] = os.environ["GOSTLAB_WHEEL_TAG"]
            build_data["pure_python"] = False
