"""`./lab completion SHELL`, tried in the shells themselves."""

import importlib.util
import shutil

import pytest

from tests.lab_command import said_by

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("argcomplete") is None, reason="argcomplete is not installed"
)
# What a person's shell does with a line at Tab, said on standard output; "$1" is the line.
BASH = """
eval "$(./lab completion bash)"
COMP_LINE=$1 COMP_POINT=${#1}
$(complete -p lab | grep -o '_python[a-z_]*') ./lab
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = './lab completion fish | source; complete --do-complete "$argv[1]"'
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


def completed(shell: str, line: str) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    argv = {
        "bash": ["bash", "--norc", "-c", BASH, "bash", line],
        "zsh": ["zsh", "-f", "-c", ZSH, "zsh", line],
        "fish": ["fish", "--no-config", "-c", FISH, line],
    }[shell]
    done = said_by(*argv)
    return [word.split("\t")[0].strip() for word in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "fish"])
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("./lab comp", ["compare", "completion"]),
        ("./lab run thesis-t", ["thesis-tunnel"]),
        ("./lab try --tunnel direct,gost+ws", ["direct,gost+ws", "direct,gost+wss"]),
        ("./lab shell --profile plain-1", ["plain-100ms"]),
    ],
)
def test_tab_offers_what_may_follow(shell: str, line: str, offered: list[str]) -> None:
    assert sorted(completed(shell, line)) == offered


def test_zsh_completes_too() -> None:
    assert any("thesis-tunnel" in each for each in completed("zsh", "./lab run thesis-t"))


def test_setting_and_value_of_set_are_offered() -> None:
    assert completed("fish", "./lab run thesis-tunnel --set topol") == ["topology="]
    assert completed("fish", "./lab run thesis-tunnel --set topology=ri") == ["topology=ring"]
