# SPDX-License-Identifier: MIT
"""Give every source file its licence as an SPDX line: python3 -m tools.spdx_lines [check].

Left to REUSE.toml: kernel/, cc/ and tunnel/, whose text is hashed into what is built; the programs
that a run's clock sees being read (gostlab/guest, the root's first process); templates, of which
users get copies; and what others wrote.
"""

import subprocess
import sys
from pathlib import Path

from gostlab.registry.folders import ROOT

LINE = "SPDX-License-" + "Identifier: MIT"  # in two, for this line licenses nothing
MARKS = {".py": "# {}", ".pyi": "# {}", ".sh": "# {}", ".js": "// {}", ".css": "/* {} */"}
SCRIPTS = ("lab", ".ci/run", ".ci/phases", "Makefile", "Containerfile", "Vagrantfile")
LEFT_OUT = (
    *("kernel/", "cc/", "tunnel/", "tests/data/", "tests/errors/", "analysis/vendor/"),
    "tests/analysis/fixture/",
    *("gostlab/guest/", "gostlab/classroom/templates/", "gostlab/sandbox/guest_", "examples/"),
    *("gostlab/qdiscs/dualpi2_netlink.py", "docs/notebooks/"),
)


def source_files() -> list[Path]:
    """Return the files that have the line, or should."""
    argv = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files"]
    names = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    return [
        ROOT / name
        for name in names
        if (Path(name).suffix in MARKS or name in SCRIPTS) and not name.startswith(LEFT_OUT)
    ]


def lacking() -> list[Path]:
    """Return the files without the line; an empty file needs none."""
    texts = ((path, path.read_text("utf-8")) for path in source_files())
    return [path for path, text in texts if text and LINE not in text[:300]]


def add_line(path: Path) -> None:
    """Write the line at the top of a file, below an interpreter's."""
    text = path.read_text("utf-8")
    first, rest = "", text
    if text.startswith("#!"):
        first, _, rest = text.partition("\n")
        first += "\n"
    mark = MARKS.get(path.suffix, "# {}").format(LINE)
    path.write_text(f"{first}{mark}\n{rest}", encoding="utf-8")


def main() -> int:
    files = lacking()
    if sys.argv[1:] == ["check"]:
        print(*files, sep="\n", end="\n" if files else "")
        return 1 if files else 0
    for path in files:
        add_line(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
