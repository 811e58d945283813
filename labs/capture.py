#!/usr/bin/python3
"""A terminal as a picture: run a command on a terminal of 100 columns and draw what it printed.

labs/capture.py OUT.png -- ./lab lab start 0 --student alice
"""

from __future__ import annotations

import os
import pty
import re
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf"
COLUMNS, SIZE, MARGIN = 110, 15, 14
PAPER, INK, PROMPT = "#ffffff", "#222222", "#0b6fa4"


def printed(words: list[str]) -> str:
    """What a command writes to a terminal."""
    os.environ.update(COLUMNS=str(COLUMNS), TERM="dumb")
    data = b""

    def read(descriptor: int) -> bytes:
        nonlocal data
        part = os.read(descriptor, 4096)
        data += part
        return part

    pty.spawn(words, read)
    return data.decode("utf-8", "replace")


def as_left(text: str) -> list[str]:
    """The lines as they stand when all is over: a progress line that was written over is gone."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")
    lines = [line.rpartition("\r")[2] for line in text.rstrip().split("\n")]
    return [
        line[at : at + COLUMNS] for line in lines for at in range(0, max(1, len(line)), COLUMNS)
    ]


def draw(command: str, lines: list[str]) -> Image.Image:
    """The picture."""
    font = ImageFont.truetype(FONT, SIZE)
    step = round(SIZE * 1.35)
    width = round(font.getlength("x") * COLUMNS) + 2 * MARGIN
    picture = Image.new("RGB", (width, step * (len(lines) + 1) + 2 * MARGIN), PAPER)
    pen = ImageDraw.Draw(picture)
    pen.text((MARGIN, MARGIN), f"$ {command}", font=font, fill=PROMPT)
    for number, line in enumerate(lines, 1):
        pen.text((MARGIN, MARGIN + number * step), line, font=font, fill=INK)
    return picture


def main() -> int:
    out, _, *words = sys.argv[1:]
    lines = as_left(printed(words))
    draw(" ".join(words), lines).quantize(32).save(Path(out), optimize=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
