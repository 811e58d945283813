"""Add the lab's built parts to a wheel that hatchling builds (tools/wheel.py).

Hatchling runs this file without the lab's other modules.
"""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc,unused-ignore]
    """A build hook that adds the folder named by GOSTLAB_BROUGHT, and its platform tag."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        brought = os.environ.get("GOSTLAB_BROUGHT")
        if brought:
            build_data["force_include"][brought] = "gostlab/brought"
            build_data["tag"] = os.environ["GOSTLAB_WHEEL_TAG"]
            build_data["pure_python"] = False
