# SPDX-License-Identifier: MIT
"""Add and remove versions of GOST, kept side by side in the cache: the levels of `gost`.

gost/<version>/gost, gost.json the program; its version, the Go that built it, its SHA-256
"""

from __future__ import annotations

import lzma
import platform
import shutil
import tarfile
import tempfile
from pathlib import Path

from gostlab.atomic_write import write_json
from gostlab.errors import BadInput
from gostlab.install import locate
from gostlab.install.build_env import SetupError, fetch_file, replaced_folder
from gostlab.install.relay_build import GO_MACHINES
from gostlab.registry.folders import cache_folder

OFFICIAL_SHA256 = {
    ("3.3.0", "amd64"): "676fb7f78d267b6ae73df719c0c7f2b565dde7147da935cfafbc1e1da558b6d5",
    ("3.3.0", "arm64"): "d03699e3f385d4ff5dad68046712adfcc7515325a064d2ab046e0bece30f8f8f",
    ("3.2.6", "amd64"): "b39037b0380ea001fb3c0c28441c2e10bfc694f90682739a65b53e55dce5238b",
    ("3.2.6", "arm64"): "f674c8f4a033dc1dfd4f0d5e9602fbe5b0d0f81307bf3794f44b5b5d6d622eae",
}
URL = (
    "https://github.com/go-gost/gost/releases/download/v{version}/"
    "gost_{version}_linux_{machine}.tar.gz"
)


def add_gost(what: str, name: str | None = None, cache: Path | None = None) -> locate.TunnelBinary:
    """Add a GOST: a file, compressed or not, or a release. Raises BadInput, SetupError, OSError."""
    gosts_folder = (cache or cache_folder()) / "gost"
    with tempfile.TemporaryDirectory(prefix="gostlab-gost-") as scratch:
        path = locate.home_expanded(what)
        if not path.is_file():
            path = fetch_release(what, Path(scratch))
        program = unpack_program(path, Path(scratch))
        version = locate.read_gost_version(program)
        if version is None or locate.gost_too_old(version):
            raise BadInput(f"{what}: {locate.explain_no_gost(program)}")
        final_name = name or version.version
        if final_name in locate.GOST_WORDS or not locate.GOST_NAME.fullmatch(final_name):
            raise BadInput(
                f"{final_name!r}: not a name for a GOST (letters, digits, . _ + -; not"
                f" {' or '.join(locate.GOST_WORDS)})"
            )
        record = {
            "version": version.version,
            "go": version.go,
            "sha256": locate.file_sha256(program),
        }
        with replaced_folder(gosts_folder / final_name) as folder:
            shutil.copyfile(program, folder / "gost")
            (folder / "gost").chmod(0o755)
            write_json(folder / "gost.json", record)
    return locate.TunnelBinary(
        gosts_folder / final_name / "gost", "gost", str(version), record["sha256"]
    )


def remove_gost(name: str) -> Path:
    """Delete an added GOST and return its folder. Results made with it stay. Raises BadInput."""
    folder = cache_folder() / "gost" / name
    if not locate.GOST_NAME.fullmatch(name) or not (folder / "gost").is_file():
        listed = ", ".join(locate.find_gosts()) or "none so far"
        raise BadInput(f"{name}: no GOST that was added (there are: {listed})")
    shutil.rmtree(folder)
    return folder


def fetch_release(version: str, scratch: Path) -> Path:
    """Fetch an official release. Raises BadInput for a version that is not pinned, SetupError."""
    machine = GO_MACHINES.get(platform.machine(), "")
    sha256 = OFFICIAL_SHA256.get((version, machine))
    if sha256 is None:
        known = ", ".join(sorted({known for known, on in OFFICIAL_SHA256 if on == machine}))
        raise BadInput(
            f"{version}: neither a file nor a release whose sum is known here ({known or 'none'}):"
            " give the program's own file"
        )
    tarball = scratch / "gost.tar.gz"
    try:
        fetch_file(URL.format(version=version, machine=machine), tarball, sha256)
    except OSError as error:
        raise SetupError(f"GOST {version}: its release cannot be reached ({error})") from error
    return tarball


def unpack_program(path: Path, scratch: Path) -> Path:
    """Copy or decompress (.xz, .tar.gz) the program of a file. Raises BadInput, OSError."""
    program = scratch / "gost"
    try:
        if path.suffix == ".xz":
            with lzma.open(path) as compressed, program.open("wb") as file:
                shutil.copyfileobj(compressed, file)
        elif path.name.endswith((".tar.gz", ".tgz")):
            # Only the content is used, not the owner, mode or path in the archive.
            with tarfile.open(path) as contents:
                member = contents.extractfile("gost")
                if member is None:
                    raise KeyError
                program.write_bytes(member.read())
        else:
            shutil.copyfile(path, program)
    except (lzma.LZMAError, tarfile.TarError, EOFError, KeyError) as error:
        raise BadInput(f"{path}: it cannot be unpacked, or has no gost in it") from error
    program.chmod(0o755)
    return program
