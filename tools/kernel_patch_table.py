# SPDX-License-Identifier: MIT
"""Write the table of the kernel's patches in kernel/README.md.

    python3 -m tools.kernel_patch_table

tools.kernel_patch_gains measures the gains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import median

from gostlab.registry.folders import ROOT
from gostlab.registry.kernels import Patch, declared_kernels
from tools.kernel_patch_gains import DEPENDENTS, LOADS, Gain, read_gains

README = ROOT / "kernel" / "README.md"
BEGIN, END = "<!-- table: tools/kernel_patch_table.py -->", "<!-- end of table -->"


def subject(patch: Patch) -> str:
    """Return the subject of a patch's message."""
    head = patch.file.read_text(encoding="utf-8").partition("\n\n")[0].replace("\n ", " ")
    match = re.search(r"^Subject: \[PATCH\] (.*)$", head, re.MULTILINE)
    return match[1] if match else ""


def versions_with(name: str) -> list[str]:
    """Return the versions whose series has a patch of this name."""
    return [
        version
        for version, declared in declared_kernels().items()
        if name in {patch.name for patch in declared.series}
    ]


def patch_table() -> str:
    """Return the table of all patches in Markdown."""
    patches: dict[str, Patch] = {}
    for declared in declared_kernels().values():
        for patch in declared.series:
            patches.setdefault(patch.name, patch)
    lines = ["| patch | subject | kernels |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {subject(patch)} | {', '.join(versions_with(name))} |"
        for name, patch in patches.items()
    ]
    return "\n".join(lines)


def gain_table(gains: Mapping[str, Gain]) -> str:
    """Return the table of the speed patches and their gains in Markdown."""
    loads = list(LOADS)
    lines = [
        f"| CPU without it / with it | {' | '.join(loads)} | n | samples |",
        "|---" * (len(loads) + 3) + "|",
    ]
    # Patches that were dropped keep their measurements.
    for name in [*DEPENDENTS, *(name for name in gains if name not in DEPENDENTS)]:
        if name not in gains:
            lines.append(f"| `{name}` | " + "not measured | " * (len(loads) + 2))
            continue
        gain = gains[name]
        label = f"`{name}`" if name in DEPENDENTS else f"`{name}` (dropped)"
        if gain.reversed_with:
            dependents = ", ".join(f"`{dependent}`" for dependent in gain.reversed_with)
            label += f"; both without {dependents}, which cannot be applied without it"
        cells = [ratio_cell(gain, load) for load in loads]
        rounds = min(len(gain.with_s[load]) for load in loads)
        samples = "differ" if gain.differing else "equal"
        lines.append(f"| {label} | {' | '.join(cells)} | {rounds} | {samples} |")
    return "\n".join(line.rstrip() for line in lines)


def ratio_cell(gain: Gain, load: str) -> str:
    """Return the median of the ratios, their range, and the ratio of the two minima."""
    ratios = gain.ratios(load)
    minima = min(gain.without_s[load]) / min(gain.with_s[load])
    return f"{median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}), {minima:.2f}"


def main() -> None:
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    tables = f"{patch_table()}\n\n{gain_table(read_gains())}"
    README.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
