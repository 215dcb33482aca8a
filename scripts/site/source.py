"""What Sphinx reads: the pages of docs/, those beside it that they link to, and the generated ones, in one folder.

Pages keep their names, and docs/README.md becomes index.md. A link to a file of the repository leads to a copy of that
file in the site, so that the site has everything it names.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from scripts.site import reference
from scripts.site.navigation import DOCS, INDEX, ROOT, parts

LINK = re.compile(r"(!?\[(?:[^\]\[]|\[[^\]]*\])*\]\()([^)\s]+)(\))")
FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
OUTSIDE = {
    "CONTRIBUTING.md": "maintainers/contributing.md",
    "CHANGELOG.md": "maintainers/changelog.md",
    "tests/README.md": "maintainers/tests.md",
    "pricing/data/README.md": "maintainers/price-tables.md",
}
"""Pages outside docs/ and where they are in the site."""
FILES = "files"
"""Where copies of linked files lie."""
GENERATED = {
    "reference/commands.md": ("Command reference", reference.commands),
    "reference/job-file.md": ("Job-file reference", reference.job_file),
}
"""Pages that are written here: their titles, and what writes them."""
REFERENCE = "Reference"
"""The part of docs/README.md to which the generated pages belong."""
BELOW = {"adr/README.md": "[0-9]*", "permissions/README.md": "*/README"}
"""Pages below which others stand in the navigation."""


def write(target: Path) -> None:
    """Write the folder anew. Raises OSError."""
    shutil.rmtree(target, ignore_errors=True)
    for page in sorted(DOCS.rglob("*.md")):
        name = str(page.relative_to(ROOT))
        _write(target, name, page.read_text(encoding="utf-8"))
    for name in OUTSIDE:
        _write(target, name, (ROOT / name).read_text(encoding="utf-8"))
    for name, (_, text) in GENERATED.items():
        _put(target / name, text())
    _append(target / "index.md", "".join(_trees()))
    for name, pages in BELOW.items():
        _append(target / name, _tree("", [pages], ":glob:"))


def placed(name: str) -> str:
    """Where a file of the repository is in the site's source, both as paths with `/` from their roots."""
    if name in OUTSIDE:
        return OUTSIDE[name]
    if name in ("README.md", str(INDEX.relative_to(ROOT))):
        return "index.md"
    return name.removeprefix("docs/") if name.startswith("docs/") else f"{FILES}/{name}"


def linked(name: str, text: str) -> tuple[str, set[str]]:
    """The text of the page `name` with its links as they are in the site, and the files that have to be copied there.

    A link to a folder leads to its README.md. Text within fences stays as it is.
    """
    copied: set[str] = set()

    def moved(match: re.Match[str]) -> str:
        address, mark, anchor = match[2].partition("#")
        if not address or re.match(r"[a-z]+:", match[2]):
            return match[0]
        file = PurePosixPath(os.path.normpath(PurePosixPath(name).parent / address))
        if (ROOT / file).is_dir():
            file /= "README.md"
        if file.suffix != ".md" or not (ROOT / file).exists():
            copied.add(str(file))
        here = PurePosixPath(placed(name)).parent
        return f"{match[1]}{os.path.relpath(placed(str(file)), here)}{mark}{anchor}{match[3]}"

    pieces = FENCE.split(text)
    return "".join(piece if piece.startswith("```") else LINK.sub(moved, piece) for piece in pieces), copied


def _write(target: Path, name: str, text: str) -> None:
    page, files = linked(name, text)
    _put(target / placed(name), page)
    for file in files:
        if (ROOT / file).exists():
            _copy(target, file)
        else:
            _put(target / placed(file), _listing(target, PurePosixPath(file).parent))


def _copy(target: Path, file: str) -> None:
    copy = target / placed(file)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / file, copy)


def _listing(target: Path, folder: PurePosixPath) -> str:
    """A page for a folder that has none of its own, with the files in it; those are copied."""
    names = sorted(path.name for path in (ROOT / folder).iterdir() if path.is_file())
    for name in names:
        if not name.endswith(".md"):
            _copy(target, str(folder / name))
    return "\n".join(["---", "orphan: true", "---", f"# {folder}", "", *(f"- [{name}]({name})" for name in names), ""])


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def _trees() -> Iterator[str]:
    """The navigation, a tree for each part. Sphinx warns of a page that is in none."""
    for part in parts(INDEX.read_text(encoding="utf-8")):
        pages = [placed(os.path.normpath(f"docs/{entry.path}")) for entry in part.entries]
        lines = [f"{entry.title} <{page.removesuffix('.md')}>" for entry, page in zip(part.entries, pages, strict=True)]
        generated = [page.removesuffix(".md") for page in GENERATED] if part.title == REFERENCE else []
        yield _tree(part.title, [*lines, *generated])


def _tree(caption: str, lines: list[str], *options: str) -> str:
    captions = [f":caption: {caption}"] if caption else []
    return "\n".join(["", "```{toctree}", *captions, ":hidden:", ":maxdepth: 1", *options, "", *lines, "```", ""])
