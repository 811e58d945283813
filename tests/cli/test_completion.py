# SPDX-License-Identifier: MIT
"""`./lab completion SHELL`, tried in the shells themselves."""

import importlib.util

import pytest

from gostlab.cli.completion import verb_of
from tests.lab_command import said_by
from tests.skips import require_programs

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("argcomplete") is None, reason="no argcomplete"
)
# What a person's shell does with a line at Tab, said on standard output, for each line in turn.
BASH = """
eval "$(./lab completion bash)"
for COMP_LINE; do
    COMP_POINT=${#COMP_LINE}
    $(complete -p lab | grep -o '_python[a-z_]*') ./lab
    printf '%s\\n' "${COMPREPLY[@]}"
done
"""
FISH = './lab completion fish | source; for line in $argv; complete --do-complete "$line"; end'
# zsh completes on a terminal alone: one of its own. What stands there after Tab is made harmless
# (Ctrl-A and `: `) and entered.
ZSH = r"""
zmodload zsh/zpty
export ZDOTDIR=$(mktemp -d)
zpty shell zsh -f
zpty -w shell 'PROMPT=; eval "$(./lab completion zsh)"; echo rea""dy'
while zpty -r shell line && [[ $line != *ready* ]]; do :; done
zpty -w shell "$1"$'\t\x01: '
zpty -w shell exit
while zpty -r shell line; do print -r -- "$line"; done
rm -r $ZDOTDIR
"""


def completed(shell: str, *lines: str) -> list[str]:
    require_programs(shell)
    argv = {
        "bash": ["bash", "--norc", "-c", BASH, "bash", *lines],
        "zsh": ["zsh", "-f", "-c", ZSH, "zsh", *lines],
        "fish": ["fish", "--no-config", "-c", FISH, *lines],
    }[shell]
    done = said_by(*argv)
    return [word.split("\t")[0].strip() for word in done.stdout.splitlines()]


OFFERED = {
    "./lab comp": ["compare", "completion"],
    "./lab run thesis-t": ["thesis-tunnel"],
    "./lab try --tunnel direct,gost+ws": ["direct,gost+ws", "direct,gost+wss"],
    "./lab shell --profile plain-1": ["plain-100ms"],
}


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_tab_offers_what_may_follow(shell: str) -> None:
    offered = completed(shell, *OFFERED)
    assert sorted(offered) == sorted(word for words in OFFERED.values() for word in words)


@pytest.mark.parametrize(
    ("line", "verb"),
    [("./lab fit x", "fit"), ("gostlab ", ""), ("./lab --he", None), ("sudo ./lab fit x", None)],
)
def test_the_options_of_one_verb_are_read_where_a_line_has_one(line: str, verb: str | None) -> None:
    assert verb_of(line) == verb


def test_zsh_completes_too() -> None:
    assert any("thesis-tunnel" in each for each in completed("zsh", "./lab run thesis-t"))


def test_setting_and_value_of_set_are_offered() -> None:
    asked = ("topol", "topology=ri")
    offered = completed("fish", *(f"./lab run thesis-tunnel --set {word}" for word in asked))
    assert offered == ["topology=", "topology=ring"]
