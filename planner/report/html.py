"""Pages of HTML in one file: the frame with its policy, and blocks of text, tables and lists.

Whatever is no `Markup` is escaped, its control characters made visible first. A page loads nothing: styles and scripts
stand in it and are named to the browser by their hashes, so that no other script runs, whoever wrote it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources

from trainplan.planner.report.page import Cell, Table
from trainplan.workloads.terminal_text import visible


class Markup(str):
    """HTML that was made here: every string from elsewhere in it is escaped."""

    __slots__ = ()


Content = str | Cell | Markup | None
"""What stands in an element: text, which is escaped; a cell, whose tone becomes a class; or HTML. None: nothing."""

VOID = frozenset({"meta", "input", "br", "img", "link", "circle", "line", "path", "rect"})
"""Elements without an end: those of HTML, and those of SVG that hold nothing here."""


def escaped(content: Content) -> Markup:
    """The text as HTML that shows it; Markup as it is."""
    if isinstance(content, Markup):
        return content
    if isinstance(content, Cell):
        return tag("span", content.text, class_=content.tone)
    return Markup("" if content is None else html.escape(visible(content)))


def joined(parts: Iterable[Content], between: str = "") -> Markup:
    """The parts one behind the other."""
    return Markup(escaped(between).join(escaped(part) for part in parts))


def tag(element: str, /, *children: Content, **attributes: str | float | bool | None) -> Markup:
    """An element. `class_` stands for class, other underscores for dashes; True: no value; None, False: left out."""
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(visible(_text(value)))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if element in VOID:
        return Markup(f"<{element}{given}/>")
    return Markup(f"<{element}{given}>{joined(children)}</{element}>")


def _text(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def section(title: str, *blocks: Content, id_: str | None = None) -> Markup:
    """A part of a page under its heading; nothing where it has no blocks."""
    if not any(blocks):
        return Markup()
    return tag("section", tag("h2", title), *blocks, id_=id_)


def paragraphs(texts: Iterable[Content]) -> Markup:
    """A paragraph for each."""
    return joined((tag("p", text) for text in texts), "\n")


def bullets(texts: Sequence[Content]) -> Markup:
    """A list; nothing where it has no items."""
    return tag("ul", *(tag("li", text) for text in texts)) if texts else Markup()


def figures(rows: Sequence[tuple[str, Content]]) -> Markup:
    """Figures in large type, each above what it is; nothing where there are none."""
    tiles = [tag("div", tag("strong", figure), tag("span", what)) for figure, what in rows]
    return tag("div", *tiles, class_="figures") if tiles else Markup()


def pairs(rows: Iterable[tuple[str, Content]]) -> Markup:
    """Names with what each is, below each other."""
    return tag("dl", *(joined([tag("dt", name), tag("dd", content)]) for name, content in rows))


def table(rows: Table, caption: str, *, id_: str | None = None, row_attributes: Sequence[str] = ()) -> Markup:
    """A table in a box of its own that scrolls, with the keyboard too. It has at most 13 columns.

    `row_attributes` are the values of the attribute `data-r` of each row, which scripts read. Ends of rows and cells
    are left out, as HTML allows, and classes of the table say which columns stand to the right, and which wrap since
    they may shrink: in thousands of rows all that is a third of the page.
    """
    head = joined(tag("th", column.title, scope="col") for column in rows.columns)
    values = [*row_attributes] or [""] * len(rows.rows)
    body = "".join(_row(row, value) for row, value in zip(rows.rows, values, strict=True))
    numbered = list(enumerate(rows.columns, start=1))
    classes = [f"r{number}" for number, column in numbered if column.right]
    classes += [f"w{number}" for number, column in numbered if column.shrinks]
    inner = tag(
        "table",
        tag("caption", caption),
        Markup(f"<thead><tr>{head}</thead>\n<tbody>{body}</tbody>"),
        id_=id_,
        class_=" ".join(classes) or None,
    )
    return tag("div", inner, class_=scroll_class(len(rows.columns)), tabindex="0", role="region", aria_label=caption)


_FIT_A_PHONE = 3
"""Columns that a screen of 390 px holds; a table of more says there that it scrolls."""


def scroll_class(columns: int) -> str:
    """The class of the box of a table of so many columns of usual width."""
    return "scroll many" if columns > _FIT_A_PHONE else "scroll"


def _row(cells: Sequence[Content], value: str) -> str:
    return f"<tr{_attribute('data-r', value)}>" + "".join(map(_cell, cells))


def _cell(cell: Content) -> str:
    if isinstance(cell, Cell):
        return f"<td{_attribute('class', cell.tone)}>{escaped(cell.text)}"
    return f"<td>{escaped(cell)}"


def _attribute(name: str, value: str) -> str:
    """An attribute with its value, in quotes where it needs them; nothing without a value."""
    if not value:
        return ""
    return f" {name}={value}" if _PLAIN.fullmatch(value) else f' {name}="{html.escape(visible(value))}"'


_PLAIN = re.compile(r"[A-Za-z0-9.,-]+")


def document(
    title: str,
    blocks: Iterable[Content],
    *,
    scripts: Sequence[str] = (),
    styles: Sequence[str] = (),
    connects: bool = False,
) -> str:
    """A whole page; the title is the heading too.

    `scripts`, and `styles` beside that of all pages, name files of planner/report/assets. `connects`: it may ask its
    own server (plan serve).
    """
    style = "".join(asset(name) for name in ("page.css", *styles))
    sources = [asset(name) for name in scripts]
    head = joined(
        [
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=policy(style, sources, connects=connects)),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", name="color-scheme", content="light dark"),
            # With no-referrer a browser names the origin of a form as null, and plan serve takes it for another page's.
            tag("meta", name="referrer", content="same-origin" if connects else "no-referrer"),
            tag("title", title),
            Markup(f"<style>{style}</style>"),
        ],
        "\n",
    )
    body = tag("main", tag("h1", title), *blocks)
    run = joined((Markup(f"<script>{source}</script>") for source in sources), "\n")
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n{run}\n</body>\n</html>\n'


def policy(style: str, scripts: Sequence[str], *, connects: bool = False) -> str:
    """The Content-Security-Policy of a page with this style and these scripts: nothing else is run or loaded."""
    parts = ["default-src 'none'", f"style-src {_hashed(style)}"]
    parts += [f"script-src {' '.join(map(_hashed, scripts))}"] if scripts else []
    parts += ["connect-src 'self'", "form-action 'self'"] if connects else ["form-action 'none'"]
    return "; ".join([*parts, "base-uri 'none'"])


def _hashed(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


@cache
def asset(name: str) -> str:
    """A style or script of planner/report/assets, without its indentation and the lines of its comments.

    It must not hold the end tag that would close it early.
    """
    source = (resources.files("trainplan.planner.report") / "assets" / name).read_text(encoding="utf-8")
    lines = (line.strip() for line in source.splitlines())
    text = "\n".join(line for line in lines if line and not line.startswith("//"))
    if "</" in text:
        raise ValueError(f"{name} holds '</', which ends a script or style early; write it as '<\\/'")
    return text
