"""What hatchling asks when it builds a wheel: which files go in changed, and whether the lab's
parts do (gostlab.setup.wheel).

Hatchling runs it without the lab's other modules.
"""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The folder analysis/ of a checkout is a package's gostlab.analysis: an environment may have
# another package of that plain name.
IMPORT = re.compile(r"^(\s*(?:from|import) )analysis\b", re.MULTILINE)


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc,unused-ignore]
    """Adds the files that import the analysis, changed; and the folder of parts that
    GOSTLAB_BROUGHT names, with the platform that they are for.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.scratch = tempfile.mkdtemp(prefix="gostlab-wheel-")
        if version != "editable":
            build_data["force_include"] |= self.changed(Path(self.root), Path(self.scratch))
        brought = os.environ.get("GOSTLAB_BROUGHT")
        if brought:
            build_data["force_include"][brought] = "gostlab/brought"
            build_data["tag"] = os.environ["GOSTLAB_WHEEL_TAG"]
            build_data["pure_python"] = False

    def changed(self, checkout: Path, scratch: Path) -> dict[str, str]:
        """Files to take in place of the checkout's, and their names in the package."""
        found = {}
        for package, name in (("gostlab", "gostlab"), ("analysis", "gostlab/analysis")):
            for file in sorted((checkout / package).rglob("*.py")):
                text, count = IMPORT.subn(r"\1gostlab.analysis", file.read_text("utf-8"))
                if count:
                    copy = scratch / file.relative_to(checkout)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    copy.write_text(text, "utf-8")
                    found[str(copy)] = f"{name}/{file.relative_to(checkout / package)}"
        return found

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        shutil.rmtree(self.scratch)
