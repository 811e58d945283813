# SPDX-License-Identifier: MIT
"""Format the files of a new profile and write all of them or none."""

import argparse
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from gostlab.cli.common import declare_flag
from gostlab.errors import require_bounds
from gostlab.registry.folders import OWN_PROFILES
from gostlab.spec import profile as profiles
from gostlab.spec import units
from gostlab.spec.settings import PATH_FIELDS
from gostlab.spec.trace import changes_of
from gostlab.spec.units import quoted
from gostlab.spec.value_types import TIME
from gostlab.spec.yaml_source import BadInput, display_path

SENTENCES = ("assumptions", "notes")
SCHEMA = "yaml-language-server: $schema=../schemas/profile.json"


@dataclass(frozen=True)
class ImportedProfile:
    """A profile that was written, and what to say of it."""

    path: Path
    lines: tuple[str, ...]  # its summary, what was taken and what was left out
    settings: Mapping[str, str]  # settings of a run that belong to the path


def source_lines(taken: Sequence[str], left_out: Sequence[str]) -> tuple[str, str]:
    """Return what was taken from an imported path, and what was not, a line each."""
    took, left = ("; ".join(phrases) or "nothing" for phrases in (taken, left_out))
    return f"took {took}", f"left out {left}"


def source_notes(lines: Sequence[str]) -> list[str]:
    """Return source_lines as sentences of a profile."""
    return [f"{line[0].upper()}{line[1:]}." for line in lines]


# -- format the text


class Sentence(str):
    """A text that YAML folds over several lines."""

    __slots__ = ()


class MultilineMapping(dict[str, object]):
    """A mapping written with one line per key, even if all would fit into one line."""


class ProfileDumper(yaml.SafeDumper):
    """A YAML dumper with the format of profiles."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Return True: a repeated value is written again, not as an alias."""
        return True


ProfileDumper.add_representer(tuple, yaml.SafeDumper.represent_list)
ProfileDumper.add_representer(
    Sentence, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style=">")
)
ProfileDumper.add_representer(
    MultilineMapping,
    lambda dumper, pairs: dumper.represent_mapping(
        "tag:yaml.org,2002:map", pairs.items(), flow_style=False
    ),
)
ProfileDumper.add_representer(
    Decimal,  # keep the digits as written
    lambda dumper, number: dumper.represent_scalar(
        f"tag:yaml.org,2002:{'float' if '.' in f'{number:f}' else 'int'}", f"{number:f}"
    ),
)


def profile_text(comments: Sequence[str], document: Mapping[str, Any]) -> str:
    """Return the text of a profile: comments, then the document without empty values."""
    content = {
        name: [Sentence(text) for text in value] if name in SENTENCES else value
        for name, value in document.items()
        if value not in (None, "", [], {})
    }
    text = yaml.dump(
        content,
        Dumper=ProfileDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=80,  # yaml breaks a line after the word that crosses column 80
    )
    return "".join(f"# {comment}".rstrip() + "\n" for comment in comments) + text


def direction_values(
    rate: str, delay_ms: float | str, *, jitter_ms: float = 0.0, loss: Any = "0%", **more: Any
) -> dict[str, object]:
    """Return a direction of a path with a buffer of one BDP, an assumption."""
    delay = delay_ms if isinstance(delay_ms, str) else units.show_ms(delay_ms)
    path = {"rate": rate, "delay": f"{delay}ms", "jitter": f"{units.show_ms(jitter_ms)}ms"}
    return {**path, **more, "loss": loss, "buffer": "1bdp"}


def is_path_setting(setting: str) -> bool:
    """Return whether a setting is part of a profile."""
    return setting == "rtt" or setting.rpartition(".")[2] in PATH_FIELDS


def apply_settings(
    directions: Mapping[str, dict[str, object]], settings: Mapping[str, object]
) -> None:
    """Apply settings of a path to its directions.

    A setting of one direction takes precedence over one of both.
    """
    for name, value in sorted(settings.items(), key=lambda pair: "." in pair[0]):
        prefix, dot, field = name.rpartition(".")
        if name == "rtt":
            half_ms = Decimal(str(float(Fraction(units.parse_seconds(str(value))) * 500)))
            for values in directions.values():
                values["delay"] = f"{half_ms.normalize():f}ms"
        elif field in PATH_FIELDS and prefix in ("", *directions):
            for values in [directions[prefix]] if dot else directions.values():
                values[field] = value == "on" if value in ("on", "off") else value


# -- parse the arguments of a command that writes a profile


def parse_time_option(option: str, text: str, min_s: Fraction, max_s: Fraction) -> Fraction:
    """Parse the time of an option and check its bounds. Raises BadInput."""
    time_s = TIME.of(option, text)
    return require_bounds(f"{option} {quoted(text)}", time_s, min_s, max_s, units.show_s)


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", help="name of the new profile (default: derived from its source)")
    parser.add_argument(
        "--out", type=Path, default=OWN_PROFILES, help="output folder (default: netem_profiles/)"
    )
    declare_flag("--force", "replace an existing profile of that name")(parser)


def profile_name(given: str | None, source: str, max_length: int = 60) -> str:
    """Return the given profile name, or one derived from a text. Raises BadInput."""
    name = given or re.sub(r"[^a-z0-9]+", "-", source.lower()).strip("-")[:max_length].strip("-")
    if not re.fullmatch(rf"[a-z0-9][a-z0-9-]{{0,{max_length - 1}}}", name):
        raise BadInput(
            f"--name {quoted(name)}: not a profile's name (small letters, digits and -, up to"
            f" {max_length})"
        )
    return name


def check_output(out: Path, name: str, suffixes: Sequence[str], *, force: bool) -> None:
    """Check that a profile can be written, and that none would be replaced. Raises BadInput."""
    if not out.is_dir() and out != OWN_PROFILES:
        raise BadInput(f"--out {out}: no such folder")
    try:
        out.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".gostlab-", dir=out):
            pass
    except OSError as error:
        raise BadInput(f"--out {out}: {error.strerror or error}") from None
    for path in (out / f"{name}{ending}" for ending in suffixes):
        if path.exists() and not force:
            raise BadInput(
                f"--name {name}: {path} exists already (choose another, or --force to replace it)"
            )


def write_profile(
    out: Path, name: str, texts: Mapping[str, str | None], others: Sequence[Path] = ()
) -> Path:
    """Write a profile's files into a folder and return the profile's path.

    Profile and trace are read back before the files get their final names.

        texts    suffix -> text, the profile's (.yaml) last, after the files that it names. None:
                 this profile has no such file, and an existing one of that name is deleted
        others   further files that the profile names, copied unless a file of that name exists

    Raises BadInput, also if the folder cannot be written; then the folder is unchanged.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name[:40]}-", dir=out) as scratch:
            folder = Path(scratch)
            for file in others:
                (folder / file.name).write_bytes(file.read_bytes())
            for suffix, text in texts.items():
                if text is not None:
                    (folder / f"{name}{suffix}").write_text(text, encoding="utf-8")
            profiles.load_profile(str(folder / f"{name}.yaml"))
            if texts.get(".csv") is not None:
                changes_of(folder / f"{name}.csv")
            for file in others:
                if not (out / file.name).exists():
                    os.replace(folder / file.name, out / file.name)
            for suffix, text in texts.items():
                final = out / f"{name}{suffix}"
                if text is not None:
                    os.replace(folder / final.name, final)
                else:
                    final.unlink(missing_ok=True)
    except BadInput as error:
        # The message names a file of the temporary folder, which is gone.
        message = str(error).replace(f"{display_path(folder)}/", "")
        raise BadInput(f"--name {name}: not written, as it would be invalid: {message}") from None
    except OSError as error:
        raise BadInput(f"--out {out}: {error.strerror or error}") from None
    return out / f"{name}.yaml"
