"""Text from elsewhere (a machine, a job file, a vendor) made safe for a terminal.

A terminal obeys control characters: it retitles its window, fills the clipboard, erases lines, hides text. Here they
become visible escapes such as `\\x1b`. Only newline and tab stay; colours (CSI … m) are dropped, as they are common in
logs and harmless.
"""

from __future__ import annotations

import re
import textwrap

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_MOVES = re.compile(r"(\x08+|\r+|\x1b\[[02]?K)")
"""Back by a column, back to the first one, and erase from here or all of the line."""
# C0 without tab and newline, DEL, C1 (among them CSI, OSC and DCS in their 8-bit form), marks that change the direction
# of text, separators that break lines, and halves of surrogate pairs, which no file or database can hold.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """The text with its control characters as visible escapes; newlines and tabs stay."""
    if text.isascii() and text.isprintable():  # nearly all text: no search is needed
        return text
    return _UNSAFE.sub(_escape, _COLOUR.sub("", text))


def one_line(text: str) -> str:
    """The text as `visible` gives it, its line breaks and tabs as spaces: it cannot pass for lines of the command."""
    return visible(" ".join(text.split("\n")).replace("\t", " "))


def overtyped(line: str) -> str:
    """What a terminal shows of a line in which carriage returns and backspaces go back to type over it, as bars of
    progress do (Keras, tqdm)."""
    line = line.removesuffix("\r")
    if "\b" not in line and "\r" not in line:
        return line
    shown: list[str] = []
    place = 0
    for part in _MOVES.split(_COLOUR.sub("", line)):
        if part.startswith(("\b", "\r")):
            place = 0 if part[0] == "\r" else max(0, place - len(part))
        elif part.startswith("\x1b"):
            del shown[0 if "2" in part else place :]
            place = min(place, len(shown))
        else:
            shown[place : place + len(part)] = part
            place += len(part)
    return "".join(shown)


def wrapped(text: str, width: int | None) -> str:
    """The lines broken between words where they are longer than `width` characters (None: nowhere, below 20: as 20).

    What continues a line is indented by two more. A word that is longer than the width stays whole, and so do
    the blanks behind the last word: an answer is typed after them.
    """
    if width is None:
        return text
    return "\n".join(_wrapped_line(line, max(width, 20)) for line in text.split("\n"))


def _wrapped_line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    indent = " " * (len(line) - len(line.lstrip(" ")) + 2)
    text = line.rstrip(" ")
    blanks = len(line) - len(text)
    # As part of the last word they are kept, and have room on its line.
    text += "\xa0" * blanks
    parts = textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return "\n".join(parts)[: -blanks or None] + " " * blanks


def has_control_characters(text: str) -> bool:
    """Whether it holds a control character of any kind, newline and tab among them."""
    return _CONTROL.search(text) is not None


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
