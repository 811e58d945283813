"""A new profile's files: their texts, and all of them written whole or not at all."""

import argparse
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from gostlab.cli.common import flag
from gostlab.errors import bounded
from gostlab.registry.folders import OWN_PROFILES
from gostlab.spec import profile as profiles
from gostlab.spec import units
from gostlab.spec.settings import PATH_FIELDS
from gostlab.spec.trace import changes_of
from gostlab.spec.units import quoted
from gostlab.spec.value_types import TIME
from gostlab.spec.yaml_source import BadInput, shown_path

SENTENCES = ("assumptions", "notes")
SCHEMA = "yaml-language-server: $schema=../schemas/profile.json"


# -- the text


class Sentence(str):
    """A text that YAML folds over several lines."""

    __slots__ = ()


class MultilineMapping(dict[str, Any]):
    """A mapping with a line for each key, also where all would fit into one."""


class ProfileDumper(yaml.SafeDumper):
    """YAML as profiles are written."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """What stands twice is written twice."""
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
    Decimal,  # with the digits that were written
    lambda dumper, number: dumper.represent_scalar(
        f"tag:yaml.org,2002:{'float' if '.' in f'{number:f}' else 'int'}", f"{number:f}"
    ),
)


def profile_text(comments: Sequence[str], document: Mapping[str, Any]) -> str:
    """A profile's file: comments, then what it says without what is empty."""
    said = {
        name: [Sentence(text) for text in value] if name in SENTENCES else value
        for name, value in document.items()
        if value not in (None, "", [], {})
    }
    text = yaml.dump(
        said,
        Dumper=ProfileDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=80,  # yaml breaks after the word that crosses it
    )
    return "".join(f"# {comment}".rstrip() + "\n" for comment in comments) + text


def direction(
    rate: str, delay_ms: float | str, *, jitter_ms: float = 0.0, loss: Any = "0%", **more: Any
) -> dict[str, Any]:
    """A direction of a path, its buffer one BDP, which nobody measured."""
    delay = delay_ms if isinstance(delay_ms, str) else units.show_ms(delay_ms)
    path = {"rate": rate, "delay": f"{delay}ms", "jitter": f"{units.show_ms(jitter_ms)}ms"}
    return {**path, **more, "loss": loss, "buffer": "1bdp"}


def is_of_path(setting: str) -> bool:
    """Whether a profile says a setting."""
    return setting == "rtt" or setting.rpartition(".")[2] in PATH_FIELDS


def set_ways(ways: Mapping[str, dict[str, Any]], settings: Mapping[str, Any]) -> None:
    """Put what settings say of a path into its directions; what is said of one is stronger."""
    for name, value in sorted(settings.items(), key=lambda pair: "." in pair[0]):
        first, dot, last = name.rpartition(".")
        if name == "rtt":
            half_ms = Decimal(str(float(Fraction(units.seconds(str(value))) * 500)))
            for way in ways.values():
                way["delay"] = f"{half_ms.normalize():f}ms"
        elif last in PATH_FIELDS and first in ("", *ways):
            for way in [ways[first]] if dot else ways.values():
                way[last] = value == "on" if value in ("on", "off") else value


# -- the words of a profile's maker


def time_of(option: str, text: str, least_s: Fraction, most_s: Fraction) -> Fraction:
    """An option's time. Raises BadInput."""
    time_s = TIME.of(option, text)
    return bounded(f"{option} {quoted(text)}", time_s, least_s, most_s, units.show_s)


def add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", help="the new profile's name (default: made of what it is of)")
    parser.add_argument(
        "--out", type=Path, default=OWN_PROFILES, help="where to write (default: netem_profiles/)"
    )
    flag("--force", "replace a profile of that name")(parser)


def name_of(given: str | None, made_of: str, most: int = 60) -> str:
    """The new profile's name: the given one, or one that is made of words. Raises BadInput."""
    name = given or re.sub(r"[^a-z0-9]+", "-", made_of.lower()).strip("-")[:most].strip("-")
    if not re.fullmatch(rf"[a-z0-9][a-z0-9-]{{0,{most - 1}}}", name):
        raise BadInput(
            f"--name {quoted(name)}: not a profile's name (small letters, digits and -, up to"
            f" {most})"
        )
    return name


def check_place(out: Path, name: str, endings: Sequence[str], *, force: bool) -> None:
    """Raises BadInput if a profile could not be written where it should be, or is there."""
    if not out.is_dir() and out != OWN_PROFILES:
        raise BadInput(f"--out {out}: no such folder")
    try:
        out.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".gostlab-", dir=out):
            pass
    except OSError as error:
        raise BadInput(f"--out {out}: {error.strerror or error}") from None
    for taken in (out / f"{name}{ending}" for ending in endings):
        if taken.exists() and not force:
            raise BadInput(
                f"--name {name}: {taken} is there already (choose another, or --force to replace"
                " it)"
            )


def write_profile(
    out: Path, name: str, texts: Mapping[str, str | None], beside: Sequence[Path] = ()
) -> Path:
    """Write a profile's files into a folder, and read profile and trace back before they get their
    names; the profile's path.

    texts    ending -> text, the profile's (.yaml) last: what it names is there before it. None: a
             file that this profile has not; one of that name goes
    beside   other files that it names, copied where there is none of their name
    Raises BadInput, also where the folder cannot be written; then nothing is there that was not
    before.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name[:40]}-", dir=out) as scratch:
            folder = Path(scratch)
            for file in beside:
                (folder / file.name).write_bytes(file.read_bytes())
            for ending, text in texts.items():
                if text is not None:
                    (folder / f"{name}{ending}").write_text(text, encoding="utf-8")
            profiles.load_profile(str(folder / f"{name}.yaml"))
            if texts.get(".csv") is not None:
                changes_of(folder / f"{name}.csv")
            for file in beside:
                if not (out / file.name).exists():
                    os.replace(folder / file.name, out / file.name)
            for ending, text in texts.items():
                final = out / f"{name}{ending}"
                if text is not None:
                    os.replace(folder / final.name, final)
                else:
                    final.unlink(missing_ok=True)
    except BadInput as error:
        # the file that it names is gone
        told = str(error).replace(f"{shown_path(folder)}/", "")
        raise BadInput(f"--name {name}: not written, as it would be no path: {told}") from None
    except OSError as error:
        raise BadInput(f"--out {out}: {error.strerror or error}") from None
    return out / f"{name}.yaml"
