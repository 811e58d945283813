# SPDX-License-Identifier: MIT
"""Extract Linux's own packetdrill scripts from Debian's kernel source."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.install import apt as archive
from gostlab.install import locate
from gostlab.install.build_env import replaced_folder
from gostlab.registry.folders import cache_folder

FOLDER = "tools/testing/selftests/net/packetdrill"
UNPACK = (
    'set -eu; dpkg-deb --fsys-tarfile "$1" | tar --extract --to-stdout --wildcards'
    " '*/linux-source-*.tar.xz' | xz --decompress --threads=0 | tar --extract --wildcards"
    f" --directory \"$2\" --strip-components=1 '*/{FOLDER}/*'"
)


def fetch_scripts(say: Callable[[str], None]) -> tuple[Path, str]:
    """Return the scripts' folder and version, fetched once. Raises ArchiveError, OSError."""
    cached = cache_folder() / "packetdrill"
    for folder in sorted(cached.glob("*/")):
        return folder / FOLDER, folder.name
    work = cache_folder() / "build" / "packetdrill"
    apt = archive.private_apt(work / "apt", "Linux's own scripts")
    suites = archive.suite_groups(apt.mirror.codename)
    for candidate in apt.find_matching(r"linux-source-\d+\.\d+", locate.OLDEST_KERNEL, suites, say):
        say(f"fetching {candidate}, about 170 MB, for its packetdrill scripts")
        package = apt.download(candidate, work / "download")
        version = candidate.version.partition("-")[0]
        with replaced_folder(cached / version) as folder:
            unpack(package, folder)
        shutil.rmtree(work)
        return cached / version / FOLDER, version
    raise archive.ArchiveError(f"no mirror here has a linux-source ≥ {locate.OLDEST_KERNEL}")


def unpack(package: Path, folder: Path) -> None:
    """Extract the scripts from one of Debian's linux-source packages. Raises ArchiveError."""
    done = subprocess.run(
        ["sh", "-c", UNPACK, "sh", package, folder], capture_output=True, text=True, check=False
    )
    if not any((folder / FOLDER).glob("*.pkt")):
        message = done.stderr.strip().splitlines()[-1:] or ["it has none"]
        raise archive.ArchiveError(f"{package.name}: no packetdrill scripts: {message[0]}")


def select_scripts(folder: Path, names: list[str]) -> list[str]:
    """Return scripts by names (.pkt optional) or prefixes, or all of them. Raises BadInput."""
    known = sorted(path.name for path in folder.glob("*.pkt"))
    chosen_scripts: list[str] = []
    for name in names:
        ours = [script for script in known if script in (name, f"{name}.pkt")]
        ours = ours or [script for script in known if script.startswith(name)]
        if not ours:
            raise BadInput(f"conform {name}: no such script ({len(known)} in {folder})")
        chosen_scripts += ours
    return list(dict.fromkeys(chosen_scripts)) or known
