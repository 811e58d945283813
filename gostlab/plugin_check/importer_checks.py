# SPDX-License-Identifier: MIT
"""Check an importer: what it reads from a sample, and that no text makes it stumble."""

import random
from collections.abc import Sequence

from gostlab.importers.base import (
    Evidence,
    ImportFormat,
    PathRecording,
    Recording,
    SpecifiedPath,
    UnreadableRecording,
)
from gostlab.plugin_check.check_runs import (
    NotApplicable,
    PluginBench,
    PluginFault,
    check_description,
    require,
    require_refusal,
)
from gostlab.profile_import.import_cli import check_files, guess_format, read_recording

SPOILT = 200  # texts made of a sample
ATOMS = ("", "\n", "0", "-1", "1e400", "nan", "{", "}", '"', ",", "x", "\x00", "9" * 30)
PLAIN = "timestamp,rtt\n1,2\n2,\n"


def sample_of(bench: PluginBench) -> list[Recording]:
    """Return the sample. Raises NotApplicable without one."""
    if not bench.samples:
        raise NotApplicable("no sample of a recording was given")
    return [read_recording(path) for path in bench.samples]


def read(form: ImportFormat, recordings: Sequence[Recording]) -> PathRecording | SpecifiedPath:
    check_files(form, recordings)
    try:
        return form.read(recordings)
    except UnreadableRecording as error:
        if "not on this machine" in str(error):
            raise NotApplicable(str(error)) from None
        raise


def declares(bench: PluginBench) -> None:
    form: ImportFormat = bench.declared
    check_description(bench, form.name, form.description)
    require(len(form.files) > form.optional_files >= 0, "files: none that must be there")


def starts(bench: PluginBench) -> None:
    sample = sample_of(bench)
    guessed = guess_format(sample)
    require(guessed is bench.declared, f"its sample is taken for {guessed.name}'s")


def carries(bench: PluginBench) -> None:
    path = read(bench.declared, sample_of(bench))
    if isinstance(path, SpecifiedPath):
        shaped = path.forward is not None or path.reverse is not None
        require(shaped, "nothing shapes either direction")
        return
    require(path.length_s >= 0, f"length_s is {path.length_s}")
    require(bool(path.evidence), "no evidence: where each value is from")
    for one in path.evidence:
        require(bool(isinstance(one, Evidence) and one.value and one.field), f"evidence {one!r}")
        ways = ("forward", "reverse", "round trip", "")
        require(one.direction in ways, f"evidence {one.value}: direction {one.direction!r}")


def ends(bench: PluginBench) -> None:
    """Cut the sample off at many places: it is read or refused, and never waits."""
    sample = sample_of(bench)
    for share in range(20):
        cut = [Recording(one.label, one.text[: len(one.text) * share // 20]) for one in sample]
        must_read_or_refuse(bench, cut)


def refuses(bench: PluginBench) -> None:
    form: ImportFormat = bench.declared
    names = form.files[: len(form.files) - form.optional_files]
    require(form.recognises("") is False, "it recognises an empty text")
    require_refusal("an empty text", lambda: read(form, [Recording(name, "") for name in names]))
    draw = random.Random(form.name)
    text = sample_of(bench)[0].text[:5000] if bench.samples else PLAIN
    for _ in range(SPOILT):
        spoilt = spoil(text, draw)
        form.recognises(spoilt)
        must_read_or_refuse(bench, [Recording("x", spoilt) for _ in names])


def spoil(text: str, draw: random.Random) -> str:
    """Return a text with some pieces replaced."""
    for _ in range(draw.randrange(1, 4)):
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(ATOMS) + text[at + draw.randrange(6) :]
    return text


def must_read_or_refuse(bench: PluginBench, recordings: Sequence[Recording]) -> None:
    try:
        bench.declared.read(recordings)
    except UnreadableRecording as error:
        require("\n" not in str(error), f"refused in more than a line: {error}")
    except Exception as error:
        text = recordings[0].text
        raise PluginFault(f"{type(error).__name__} for {text[:80]!r}: {error}") from error


def repeats(bench: PluginBench) -> None:
    sample = sample_of(bench)
    first, second = (repr(read(bench.declared, sample)) for _ in range(2))
    require(first == second, "one sample is read in two ways")
