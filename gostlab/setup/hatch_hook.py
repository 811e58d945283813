"""What hatchling asks when it builds a wheel: whether the lab's parts go in (gostlab.setup.wheel).

Hatchling runs it without the lab's other modules.
"""

from __future__ import annotations

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc,unused-ignore]
    """Adds the folder of parts that GOSTLAB_BROUGHT names, and the platform that they are for."""

    def initialize(self, _version: str, build_data: dict[str, Any]) -> None:
        brought = os.environ.get("GOSTLAB_BROUGHT")
        if brought:
            build_data["force_include"][brought] = "gostlab/brought"
            build_data["tag"] = os.environ["GOSTLAB_WHEEL_TAG"]
            build_data["pure_python"] = False
