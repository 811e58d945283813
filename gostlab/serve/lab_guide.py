# SPDX-License-Identifier: MIT
"""Split a lab's page into the parts of its page in the browser, as HTML.

Each answer's *How* goes to its field, what a drawn value is to the value, and the questions go to
the end. The commands of `./lab lab`
are left out, as the page has buttons for them. No markup of the lab's page passes, and only links
to other sites.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from gostlab.classroom.lab import GUIDE, SECTIONS, CourseLab
from gostlab.classroom.workspace import FIGURE
from gostlab.spec.yaml_source import MAX_BYTES, load_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

VALUES, ASKED, QUESTIONS, HAND_IN = "Your values", "What is asked", "Questions", "Hand in"
ON_THE_SHEET, ON_THE_PAGE = re.compile(r"asked\s+on\s+the\s+sheet"), "asked above"
FOR_TERMINALS = "./lab lab start"  # A block of code that begins so is left out.
HOW = re.compile(r"[\s:]*")
TRY = re.compile(r"\./lab try\s[^#]*")
FLAGS = ("live",)
UNUSED = ("pace", "acks", "capture")  # options of ./lab try that the page has no knob for
KNOBS = "Turn its knobs"


@dataclass(frozen=True)
class LabGuide:
    """The parts of a lab's page as HTML."""

    read: str  # up to the tasks, and what stands beside the sections below
    instructions: Mapping[str, str]  # how each answer is got, by predictions.KEY or answers.KEY
    meanings: Mapping[str, str]  # meaning and unit of each drawn value, by its name
    notes: str  # below the list of the answers
    questions: str

    def to_json(self) -> dict[str, object]:
        return {"read": self.read, "notes": self.notes, "questions": self.questions}


def split_guide(lab: CourseLab) -> LabGuide:
    """Return the parts of a lab's page. Raises BadInput."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(ON_THE_SHEET.sub(ON_THE_PAGE, load_text(lab.folder / GUIDE, MAX_BYTES)))
    for token in chain.from_iterable(block.children or () for block in tokens):
        if token.type == "image":
            token.attrSet("src", f"/class/labs/{lab.name}/{FIGURE}")
        elif token.type == "link_open" and not str(token.attrGet("href")).startswith("https://"):
            token.attrs.pop("href", None)
    add_knobs(tokens)
    read: list[Token] = []
    rest: dict[str, list[Token]] = {ASKED: [], QUESTIONS: [], HAND_IN: []}
    meanings: dict[str, str] = {}
    heading = ""
    for block in top_blocks(tokens):
        if block[0].type == "heading_open":
            heading = block[1].content if block[0].tag == "h2" else heading
            if heading in rest and block[0].tag == "h2":
                continue
        if heading == VALUES and block[0].type == "table_open":
            meanings |= meanings_of_table(parser, block)
        if not is_for_terminals(block[0]):
            rest.get(heading, read).extend(block)
    instructions, notes = split_answers(parser, rest[ASKED])
    wanted = {f"{section}.{key}" for section in SECTIONS for key in lab.keys(section)}
    if not wanted <= set(instructions):  # a page that a teacher has written otherwise
        read, instructions, notes = [*read, *rest[ASKED]], {}, []
    return LabGuide(
        read=render(parser, read),
        instructions=instructions,
        meanings=meanings,
        notes=render(parser, notes),
        questions=render(parser, rest[QUESTIONS]),
    )


def render(parser: MarkdownIt, tokens: Sequence[Token]) -> str:
    html: str = parser.renderer.render(tokens, parser.options, {})
    return html


def top_blocks(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the tokens of each block that lies in no other."""
    block: list[Token] = []
    depth = 0
    for token in tokens:
        block.append(token)
        depth += token.nesting
        if depth == 0:
            yield block
            block = []


def is_for_terminals(token: Token) -> bool:
    return token.type in ("code_block", "fence") and token.content.startswith(FOR_TERMINALS)


def split_answers(
    parser: MarkdownIt, tokens: Sequence[Token]
) -> tuple[dict[str, str], list[Token]]:
    """Return how each answer is got, and the blocks below the last list or table of answers."""
    instructions: dict[str, str] = {}
    notes: list[Token] = []
    for block in top_blocks(tokens):
        if block[0].type == "bullet_list_open":
            block_instructions = dict(instructions_of_list(parser, block))
        elif block[0].type == "table_open":
            block_instructions = dict(instructions_of_table(parser, block))
        else:
            block_instructions = {}
        instructions |= block_instructions
        notes = [] if block_instructions else [*notes, *block]
    return instructions, notes


def instructions_of_list(parser: MarkdownIt, tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield the answers of a list like "- `answers.KEY`: what it is. *How*: how it is got"."""
    for token in tokens:
        children = token.children or []
        if token.type == "inline" and children and children[0].type == "code_inline":
            at = next((i for i, child in enumerate(children) if child.content == "How"), None)
            how = children[at + 2 :] if at is not None else []
            yield children[0].content, capitalized(render_inline(parser, how))


def instructions_of_table(parser: MarkdownIt, tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield the answers of a table with the columns key, what it is, and how it is got."""
    cells = [token for token in tokens if token.type == "inline"]
    for key, _, how in zip(cells[0::3], cells[1::3], cells[2::3], strict=False):
        children = key.children or []
        if children and children[0].type == "code_inline":
            yield children[0].content, capitalized(render_inline(parser, how.children or []))


def meanings_of_table(parser: MarkdownIt, tokens: Sequence[Token]) -> dict[str, str]:
    """Return what each value of a table is; a row may have several names."""
    cells = [token for token in tokens if token.type == "inline"]
    return {
        child.content: render_inline(parser, meaning.children or [])
        for names, meaning in zip(cells[0::2], cells[1::2], strict=False)
        for child in names.children or ()
        if child.type == "code_inline"
    }


def render_inline(parser: MarkdownIt, children: Sequence[Token]) -> str:
    html: str = parser.renderer.renderInline(children, parser.options, {})
    return html


def capitalized(html: str) -> str:
    """Return a sentence with a capital, except before a variable of one letter, like p."""
    text = HOW.sub("", html, count=1)
    return text[:1].upper() + text[1:] if text[1:2].isalpha() else text


# -- commands as questions of the page with knobs


def add_knobs(tokens: list[Token]) -> None:
    """Add a link to each `./lab try` command, which asks the same on the page with knobs."""
    for at in range(len(tokens) - 1, -1, -1):
        block = tokens[at]
        if block.type in ("code_block", "fence"):
            if address := knobs_address(block.content):
                tokens[at + 1 : at + 1] = paragraph(link(address))
        elif block.children:
            block.children = [token for child in block.children for token in with_knobs(child)]


def with_knobs(token: Token) -> list[Token]:
    address = knobs_address(token.content) if token.type == "code_inline" else None
    return [token, text_token(" ("), *link(address), text_token(")")] if address else [token]


def knobs_address(command: str) -> str | None:
    """Return the address that asks what `./lab try` would, of lists the first level of each.

    None for another command, and for several.
    """
    joined = command.replace("\\\n", " ").strip()
    if TRY.fullmatch(joined) is None or joined.count("./lab ") != 1:
        return None
    settings: dict[str, str] = {}
    arguments = iter(shlex.split(joined)[2:])
    for argument in arguments:
        name, _, text = argument.removeprefix("--").partition("=")
        if name not in FLAGS:
            settings["duration" if name == "for" else name] = text or next(arguments, "")
    for name in UNUSED:
        settings.pop(name, None)
    levels = {name: outermost_parts(text)[0] for name, text in settings.items() if name != "flows"}
    flows = settings.get("flows", "")
    if not flows.startswith("{"):
        pairs = [part.partition("=")[::2] for part in outermost_parts(flows)] if flows else []
        cc = levels.pop("cc", "cubic")
        flows = ", ".join(f"{name}: {{cc: {cc}}}" for name, cc in pairs or [("flow", cc)])
        flows = f"{{{flows}}}"
    return f"/?{urlencode({**levels, 'flows': flows})}"


def outermost_parts(text: str) -> list[str]:
    """Return the parts of a text between its outermost commas."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "{[(") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def text_token(text: str) -> Token:
    from markdown_it.token import Token

    return Token("text", "", 0, content=text)


def link(address: str) -> list[Token]:
    from markdown_it.token import Token

    attributes: dict[str, str | int | float] = {"href": address, "target": "_blank"}
    opening = Token("link_open", "a", 1, attrs=attributes)
    return [opening, text_token(KNOBS), Token("link_close", "a", -1)]


def paragraph(children: list[Token]) -> list[Token]:
    from markdown_it.token import Token

    inline = Token("inline", "", 0, content="", children=children)
    return [Token("paragraph_open", "p", 1), inline, Token("paragraph_close", "p", -1)]
