"""`./lab new`: a kind's file, its test and its row; what is left to fill in is said at once."""

from pathlib import Path

import pytest

from gostlab import scaffold
from gostlab.errors import BadInput
from tests.registry.contributed import CopiedLab, copy_lab

ASKS = """name: mine
title: mine
settings: {{profile: plain-100ms, duration: 5s{more}}}
matrices: [{{name: one{draw}}}]
"""
# Of each kind what is refused as long as it is not filled in, by whatever reads its declaration. A
# drawing is found by its word, which is my-own of a file my_own.
REFUSED = {
    "tunnel": ("says is empty", {"more": ", tunnel: mine"}),
    "queue": ("says is empty", {"more": ", bottleneck: tbf, queue: mine"}),
    "traffic": ("says is empty", {"more": ", flows: {a: {kind: mine}}"}),
    "topology": ("says is empty", {"more": ", topology: mine"}),
    "drawing": ("still to be written: draw()", {"draw": ", draw: [my-own]"}),
    "importer": ("still to be written: read()", {}),
}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> CopiedLab:
    return copy_lab(tmp_path_factory.mktemp("copied") / "lab")


@pytest.mark.slow
@pytest.mark.parametrize("kind", scaffold.KINDS)
def test_what_is_not_filled_in_is_one_line_with_file_and_line(copied: CopiedLab, kind: str) -> None:
    words, asks = REFUSED[kind]
    (copied.root / "mine.yaml").write_text(ASKS.format(**{"more": "", "draw": "", **asks}))

    made = copied.lab("new", kind, "my_own" if kind == "drawing" else "mine")
    read_by = {"importer": ("profile", "list")}  # what an experiment does not name
    ran = copied.lab(*read_by.get(kind, ("run", "mine.yaml", "--dry-run")))

    assert made.returncode == 0, made.stderr
    written = [line.split()[-1] for line in made.stdout.splitlines() if "to fill in" in line]
    assert len(written) == 2 and all((copied.root / path).is_file() for path in written)
    assert ran.returncode == 2 and words in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1 and "Traceback" not in ran.stderr
    assert written[0] in ran.stderr
    for path in written:  # the next kind is asked of a lab without this one
        (copied.root / path).unlink()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("tunnel", "Mine"), "not a name"),
        (("tunnel", "wireguard"), "there is a tunnel of that name"),
        (("queue", "../mine"), "not a name"),
    ],
)
def test_a_name_that_cannot_be_is_refused(words: tuple[str, str], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        scaffold.write_kind(*words)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    [file, _] = scaffold.write_kind("queue", "mine", tmp_path)
    file.write_text("my own work")

    with pytest.raises(BadInput, match="is there already"):
        scaffold.write_kind("queue", "mine", tmp_path)
    assert file.read_text() == "my own work"
