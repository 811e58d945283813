# SPDX-License-Identifier: MIT
"""Programs that are none, and packages of one file."""

import io
import lzma
import subprocess
import tarfile
from pathlib import Path

CONTROL = "Package: {}\nVersion: {}\nArchitecture: all\nMaintainer: x <x@y>\nDescription: x\n"
GOST = "#!/bin/sh\necho 'gost v3.2.6 (go1.26.8 linux/amd64)'\n"


def program(path: Path, says: str) -> Path:
    """A program that prints a line, whatever it is asked."""
    return script(path, f"#!/bin/sh\necho '{says}'\n")


def script(path: Path, text: str = GOST) -> Path:
    """A program by its text: a GOST that only knows its version, unless it says otherwise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def packed_gost(form: str, folder: Path) -> Path:
    """Such a GOST in a file of some form."""
    if form == "plain":
        return script(folder / "gost")
    if form == "xz":
        file = folder / "gost-3.2.6-linux-amd64.xz"
        file.write_bytes(lzma.compress(GOST.encode()))
        return file
    file = folder / "gost.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        member = tarfile.TarInfo("gost")
        member.size, member.mode = len(GOST), 0o755
        archive.addfile(member, io.BytesIO(GOST.encode()))
    return file


def package(into: Path, name: str, version: str) -> Path:
    """A real package of Debian's, of one file."""
    tree = into / name
    script(tree / "usr/bin" / name, "#!/bin/sh\n")
    (tree / "DEBIAN").mkdir()
    (tree / "DEBIAN/control").write_text(CONTROL.format(name, version))
    subprocess.run(["dpkg-deb", "--build", tree, into], check=True, capture_output=True)
    return into / f"{name}_{version}_all.deb"
