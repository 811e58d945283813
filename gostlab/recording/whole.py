"""A new profile's files, whole or not at all, and the words that say where they go."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from gostlab.ask import profile as profiles
from gostlab.ask.document import BadInput
from gostlab.ask.trace import changes_of


def add_place(parser: argparse.ArgumentParser) -> None:
    """`--out` and `--force`."""
    parser.add_argument(
        "--out",
        type=Path,
        default=profiles.FOLDER,
        help="where to write (default: netem_profiles/)",
    )
    parser.add_argument("--force", action="store_true", help="replace a profile of that name")


def write_whole(out: Path, name: str, texts: Mapping[str, str | None]) -> Path:
    """Write a profile's files into a folder, and read profile and trace back before they get their
    names; the profile's path.

    texts   ending -> text, the profile's (.yaml) last: what it names is there before it. None: a
            file that this profile has not; one of that name goes
    Raises BadInput, also where the folder cannot be written; then nothing is there that was not
    before.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name[:40]}-", dir=out) as scratch:
            folder = Path(scratch)
            for ending, text in texts.items():
                if text is not None:
                    (folder / f"{name}{ending}").write_text(text, encoding="utf-8")
            profiles.load_profile(str(folder / f"{name}.yaml"))
            if texts.get(".csv") is not None:
                changes_of(folder / f"{name}.csv")
            for ending, text in texts.items():
                final = out / f"{name}{ending}"
                if text is not None:
                    os.replace(folder / final.name, final)
                else:
                    final.unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"--out {out}: {error.strerror or error}") from None
    return out / f"{name}.yaml"
