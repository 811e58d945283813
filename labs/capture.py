#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Run a command on a pseudo-terminal and draw its screen as a picture.

    labs/capture.py OUT.png -- ./lab lab start 0 --student alice
    labs/capture.py OUT.png --at 12 -- ./lab try --cc cubic --live        (after 12 s of it)

Needs Debian's python3-pyte, a terminal in memory, and python3-pil.
"""

from __future__ import annotations

import argparse
import os
import pty
import sys
import time
from pathlib import Path

import pyte
from PIL import Image, ImageDraw, ImageFont

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf"
COLUMNS, LINES, SIZE, MARGIN = 110, 100, 15, 14
PAPER, INK, PROMPT = "#ffffff", "#222222", "#0b6fa4"
INKS = {"red": "#c0392b", "green": "#2e8b57", "brown": "#c98a00", "cyan": "#0b6fa4"}


def screen_of(args: list[str], at_s: float | None) -> pyte.Screen:
    """Return the terminal's screen at an instant of a command, or at its end."""
    size = {"COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    os.environ.update(size, TERM="xterm" if at_s is not None else "dumb")
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    began_s = time.monotonic()

    def read(descriptor: int) -> bytes:
        part = os.read(descriptor, 4096)
        if at_s is None or time.monotonic() - began_s <= at_s:
            stream.feed(part)
        return part

    pty.spawn(args, read)
    return screen


def draw(command: str, screen: pyte.Screen) -> Image.Image:
    """Draw the picture with all lines that have text."""
    font = ImageFont.truetype(FONT, SIZE)
    step, letter = round(SIZE * 1.35), font.getlength("x")
    written = [number for number, line in enumerate(screen.display, 1) if line.strip()]
    height = max(written, default=0)
    width = round(letter * COLUMNS) + 2 * MARGIN
    picture = Image.new("RGB", (width, step * (height + 1) + 2 * MARGIN), PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text((MARGIN, MARGIN), f"$ {command}", font=font, fill=PROMPT)
    for row in range(height):
        for column, char in sorted(screen.buffer[row].items()):
            position = MARGIN + column * letter, MARGIN + (row + 1) * step
            pen.text(position, char.data, font=font, fill=INKS.get(char.fg, INK))
    return picture


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--at", type=float, help="after so many seconds, in place of at its end")
    if "--" not in sys.argv:
        parser.error("the command is missing: write it after --")
    middle = sys.argv.index("--")
    arguments, args = parser.parse_args(sys.argv[1:middle]), sys.argv[middle + 1 :]
    picture = draw(" ".join(args), screen_of(args, arguments.at))
    picture.quantize(32).save(arguments.out, optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
