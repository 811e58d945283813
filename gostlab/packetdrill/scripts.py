"""Linux's own packetdrill scripts, out of Debian's kernel source."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.install import apt as archive
from gostlab.install import locate
from gostlab.install.build_env import replacing
from gostlab.registry.folders import cache_folder

FOLDER = "tools/testing/selftests/net/packetdrill"
UNPACK = (
    'set -eu; dpkg-deb --fsys-tarfile "$1" | tar --extract --to-stdout --wildcards'
    " '*/linux-source-*.tar.xz' | xz --decompress --threads=0 | tar --extract --wildcards"
    f" --directory \"$2\" --strip-components=1 '*/{FOLDER}/*'"
)


def provided_scripts(say: Callable[[str], None]) -> tuple[Path, str]:
    """The scripts' folder and source's version; fetched once. Raises ArchiveError, OSError."""
    kept = cache_folder() / "packetdrill"
    for place in sorted(kept.glob("*/")):
        return place / FOLDER, place.name
    work = cache_folder() / "build" / "packetdrill"
    apt = archive.private_apt(work / "apt", "Linux's own scripts")
    suites = archive.suite_groups(apt.mirror.codename)
    for candidate in apt.look_for(r"linux-source-\d+\.\d+", locate.OLDEST_KERNEL, suites, say):
        say(f"fetching {candidate}, about 170 MB, for its packetdrill scripts")
        package = apt.download(candidate, work / "download")
        version = candidate.version.partition("-")[0]
        with replacing(kept / version) as place:
            unpack(package, place)
        shutil.rmtree(work)
        return kept / version / FOLDER, version
    raise archive.ArchiveError(f"no mirror here has a linux-source ≥ {locate.OLDEST_KERNEL}")


def unpack(package: Path, place: Path) -> None:
    """The scripts alone of one of Debian's linux-source packages. Raises ArchiveError."""
    done = subprocess.run(
        ["sh", "-c", UNPACK, "sh", package, place], capture_output=True, text=True, check=False
    )
    if not any((place / FOLDER).glob("*.pkt")):
        said = done.stderr.strip().splitlines()[-1:] or ["it has none"]
        raise archive.ArchiveError(f"{package.name}: no packetdrill scripts: {said[0]}")


def chosen(folder: Path, names: list[str]) -> list[str]:
    """The scripts of some names (.pkt or not, or several's beginning), or all. Raises BadInput."""
    known = sorted(path.name for path in folder.glob("*.pkt"))
    found: list[str] = []
    for name in names:
        ours = [each for each in known if each in (name, f"{name}.pkt")]
        ours = ours or [each for each in known if each.startswith(name)]
        if not ours:
            raise BadInput(f"conform {name}: no such script ({len(known)} in {folder})")
        found += ours
    return list(dict.fromkeys(found)) or known
