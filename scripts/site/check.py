"""Looks at the built site: every link in it leads somewhere, and it loads nothing from elsewhere. Writes llms.txt."""

from __future__ import annotations

import shutil
from functools import cache
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

from scripts.site.navigation import INDEX, parts
from scripts.site.source import GENERATED, REFERENCE, placed

LOADED = {"script": "src", "img": "src", "link": "href", "source": "src", "iframe": "src"}
"""Elements that fetch what they name."""


class _Page(HTMLParser):
    """The links of a page, what it loads, and the names that links may lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.names |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if (address := attributes.get(LOADED.get(tag, ""))) and attributes.get("rel") not in ("canonical",):
            self.loads.append(address)


@cache
def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(site: Path) -> list[str]:
    """A line for each link that leads nowhere and each thing that is loaded from elsewhere; addresses in the web are
    not followed."""
    _read.cache_clear()
    wrong = []
    for path in sorted(site.rglob("*.html")):
        page = _read(path)
        wrong += [f"{path.relative_to(site)}: loads {one}" for one in page.loads if _is_elsewhere(one)]
        for link in dict.fromkeys([*page.links, *page.loads]):
            if not _is_elsewhere(link) and not _leads_somewhere(path, link):
                wrong.append(f"{path.relative_to(site)}: nothing is at {link}")
    return wrong


def _is_elsewhere(address: str) -> bool:
    parts_of_it = urlsplit(address)
    return bool(parts_of_it.netloc) or parts_of_it.scheme not in ("", "data")


def _leads_somewhere(page: Path, address: str) -> bool:
    split = urlsplit(address)
    if split.scheme == "data":
        return True
    target = (page.parent / unquote(split.path)).resolve() if split.path else page
    if not target.is_file():
        return False
    return not split.fragment or target.suffix != ".html" or unquote(split.fragment) in _read(target).names


def write_llms(source: Path, site: Path) -> None:
    """Write llms.txt (llmstxt.org) and beside each page its Markdown. Raises OSError."""
    for page in source.rglob("*.md"):
        copy = site / page.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, copy)
    index = INDEX.read_text(encoding="utf-8")
    title, _, rest = index.partition("\n\n")
    summary = " ".join(rest.partition("\n\n")[0].split())
    lines = [title, "", f"> {summary}", ""]
    for part in parts(index):
        lines += [f"## {part.title}", ""]
        for entry in part.entries:
            address = placed(normpath(f"docs/{entry.path}"))
            lines.append(f"- [{entry.title}]({address})" + (f": {entry.about}" if entry.about else ""))
        if part.title == REFERENCE:
            lines += [f"- [{title}]({page})" for page, (title, _) in GENERATED.items()]
        lines.append("")
    (site / "llms.txt").write_text("\n".join(lines), encoding="utf-8")
