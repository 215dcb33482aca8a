"""The pages for people: every link, file, command and target that they name exists, and ADRs have one form."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT
from trainplan.planner.cli.app import commands

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
"""Also finds links over two lines: `[^]]` takes a line end."""
FILE = re.compile(r"`((?:planner|providers|pricing|workloads|tests|scripts|benchmarks|docs|examples)/[\w./-]+)[`:]")
COMMAND = re.compile(r"(?:^|`|\$ )plan ([a-z]+)", re.MULTILINE)
TARGET = re.compile(r"`make ([a-z0-9-]+)")
HEADINGS = ["Context", "Decision", "Consequences", "Refused alternatives"]
STATUS = re.compile(
    r"Status: accepted, \d{4}-\d\d-\d\d(; (partly )?superseded by \[ADR (\d+)\]\((\d{4}-[\w-]+\.md)\))?"
)
ADRS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
HISTORY = ("CHANGELOG.md", "docs/adr/")
"""Pages that tell of files which a later change has removed."""


def _pages() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if not name.startswith("tests/data/")]


PAGES = _pages()


@cache
def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def anchors(text: str) -> set[str]:
    """The names that a code forge gives to a page's headings: lower case, no punctuation, `-` for a space."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


def broken_links(name: str, text: str) -> list[str]:
    """Links of the page `name` that lead to no file or heading of this repository; web addresses are not followed."""
    broken = []
    for link in LINK.findall(text):
        file, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (ROOT / name).parent / file if file else ROOT / name
        missing = not target.exists() or (
            anchor and target.suffix == ".md" and anchor not in anchors(target.read_text("utf-8") if file else text)
        )
        broken += [link] if missing else []
    return broken


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    assert broken_links(name, text_of(name)) == []


def test_a_broken_link_is_noticed() -> None:
    text = "# A b\n[x](#a-b) [y](#c) [z](docs/adr/README.md#decisions) [gone](docs/gone.md) [web](https://a.b/c)"
    assert broken_links("README.md", text) == ["#c", "docs/gone.md"]


@pytest.mark.parametrize("name", [page for page in PAGES if not page.startswith(HISTORY)])
def test_every_file_that_a_page_names_exists(name: str) -> None:
    files = {file.rstrip("/.") for file in FILE.findall(text_of(name)) if "<" not in file}
    assert [file for file in sorted(files) if not (ROOT / file).exists() and not file.endswith(".sqlite")] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_command_and_target_that_a_page_names_exists(name: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    assert set(COMMAND.findall(text_of(name))) - set(commands()) == set()
    assert set(TARGET.findall(text_of(name))) - targets == set()


@pytest.mark.parametrize("path", ADRS, ids=lambda path: path.name[:4])
def test_a_decision_has_the_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    title, _, status, *_ = text.splitlines()
    assert title.startswith(f"# {int(path.name[:4])}. ")
    match = STATUS.fullmatch(status)
    assert match, status
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == HEADINGS
    if match[3]:
        assert int(match[3]) == int(match[4][:4]) > int(path.name[:4])


def test_every_decision_that_is_named_is_listed() -> None:
    """A page of its own, or a line under "Smaller decisions"."""
    index = text_of("docs/adr/README.md")
    listed = set(re.findall(r"^\| (\d+) \|", index, re.MULTILINE)) | set(re.findall(r"\*\*(\d+)\*\*", index))
    files = subprocess.run(
        ["git", "grep", "-hoE", r"ADR [0-9]+", "--", ":!CHANGELOG.md", ":!tests/unit/test_docs.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert {name.removeprefix("ADR ") for name in files.stdout.splitlines()} - listed == set()


def test_the_index_of_decisions_is_right() -> None:
    rows = re.findall(
        r"^\| (\d+) \| \[(.*?)\]\(([\w-]+\.md)\) \| (.*) \|$", text_of("docs/adr/README.md"), re.MULTILINE
    )
    stated = [(int(number), f"# {number}. {title}", file, f"Status: {status}") for number, title, file, status in rows]
    heads = [(path, path.read_text(encoding="utf-8").splitlines()) for path in ADRS]
    assert stated == [(int(path.name[:4]), lines[0], path.name, lines[2]) for path, lines in heads]
