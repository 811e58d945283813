"""Programs that are none."""

import io
import lzma
import tarfile
from pathlib import Path

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
