"""What a command prints on a terminal, as an SVG for a page: `python -m scripts.terminal_picture FILE COMMAND...`.

It runs the command in a pseudo-terminal of 80 x 24. The picture in README.md is of the table on the day of the shipped
prices: tests/unit/planner/cli/test_readme.py compares it, and writes it under `pytest --update-golden`.
"""

from __future__ import annotations

import os
import pty
import re
import sys
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from struct import pack
from termios import TIOCSWINSZ
from xml.sax.saxutils import escape

COLUMNS, LINES = 80, 24
CHARACTER, LINE, MARGIN = 8.5, 19, 14
"""Width of a character at 14 px in the widest of the fonts, height of a line, and the space around all, in px."""
STYLES = {
    "1": "font-weight:bold",
    "2": "fill:#8b949e",
    "31": "fill:#ff7b72",
    "33": "fill:#e3b341",
    "36": "fill:#56d4dd",
}
"""By the number in an escape sequence of trainplan.planner.cli.screen."""
SEQUENCE = re.compile(r"\x1b\[(\d*)m")


def picture(command: str, printed: str) -> str:
    """The SVG of a prompt with `command` and, below it, what it printed, escape sequences of colour included."""
    lines = [f"$ {command}", *printed.rstrip().split("\n")]
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), len(lines) * LINE + 2 * MARGIN
    texts = [
        f'<text x="{MARGIN}" y="{MARGIN + LINE * number - 5}" xml:space="preserve">{"".join(_spans(line))}</text>'
        for number, line in enumerate(lines, start=1)
    ]
    fonts = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            f'<g font-family="{fonts}" font-size="14" fill="#e6edf3">',
            *texts,
            "</g>",
            "</svg>\n",
        )
    )


def _spans(line: str) -> Iterator[str]:
    text, *styled = SEQUENCE.split(line)
    yield escape(text)
    for number, text in zip(styled[::2], styled[1::2], strict=True):
        if text:
            style = STYLES.get(number)
            yield f'<tspan style="{style}">{escape(text)}</tspan>' if style else escape(text)


def screen_of(command: list[str]) -> str:
    """What the command prints on a terminal of its own, where nobody answers what it asks."""
    child, terminal = pty.fork()
    if child == 0:
        ioctl(0, TIOCSWINSZ, pack("HHHH", LINES, COLUMNS, 0, 0))
        os.execvp(command[0], command)
    os.write(terminal, b"\x04")
    chunks = []
    try:
        while chunk := os.read(terminal, 65536):
            chunks.append(chunk)
    except OSError:  # how Linux reports the end of a terminal
        pass
    os.waitpid(child, 0)
    return b"".join(chunks).decode().replace("\r\n", "\n")


def main(arguments: list[str]) -> int:
    """Write the picture of a command into the file that is named first."""
    if len(arguments) < 2:
        sys.stderr.write("usage: python -m scripts.terminal_picture FILE COMMAND...\n")
        return 2
    file, *command = arguments
    Path(file).write_text(picture(" ".join(command), screen_of(command)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
