"""What `make site` puts together, without the generator: the order of pages, links, generated pages, the check."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.site import check, reference
from scripts.site.navigation import DOCS, INDEX, parts
from scripts.site.source import OUTSIDE, linked, write
from tests.conftest import ROOT
from trainplan.planner.cli.app import commands as commands_of_plan


def test_every_page_is_in_the_list_of_pages_once() -> None:
    """Decisions and permissions have lists of their own."""
    listed = [entry.path for part in parts(INDEX.read_text(encoding="utf-8")) for entry in part.entries]
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"README.md"}
    own_lists = {
        page for page in pages if page.startswith(("adr/0", "permissions/")) and page != "permissions/README.md"
    }
    assert sorted(path for path in listed if not path.startswith("../")) == sorted(pages - own_lists)
    assert all(entry.about for part in parts(INDEX.read_text(encoding="utf-8"))[:-1] for entry in part.entries)


def test_links_are_those_of_the_site() -> None:
    text = (
        "[a](estimate.md#columns) [b](../README.md) [c](../examples/digits-vgg.yaml) [d](https://a.b/c) [e](#x)\n"
        "```\n[f](../README.md)\n```\n[g](permissions)"
    )
    site, files = linked("docs/first-table.md", text)
    assert site == (
        "[a](estimate.md#columns) [b](index.md) [c](files/examples/digits-vgg.yaml) [d](https://a.b/c) [e](#x)\n"
        "```\n[f](../README.md)\n```\n[g](permissions/README.md)"
    )
    assert files == {"examples/digits-vgg.yaml"}
    assert linked("CONTRIBUTING.md", "[h](docs/prices.md)")[0] == "[h](../prices.md)"


def test_the_references_have_every_command_and_every_key() -> None:
    commands = reference.commands()
    assert [name for name in commands_of_plan() if f"## plan {name}\n" not in commands] == []
    assert "## plan prices refresh\n" in commands
    keys = reference.job_file()
    schema = json.loads(reference.SCHEMA.read_text(encoding="utf-8"))
    assert [key for key in schema["properties"] if f"| `{key}` |" not in keys] == []
    assert "## `optimizer.schedule`" in keys
    assert "| `epochs` | a whole number, from 1 to 1,000,000 |" in keys


def test_the_source_has_all_pages_and_an_order(tmp_path: Path) -> None:
    write(tmp_path / "source")
    written = {str(page.relative_to(tmp_path / "source")) for page in (tmp_path / "source").rglob("*.md")}
    assert {"index.md", "first-table.md", "reference/commands.md", *OUTSIDE.values()} <= written
    index = (tmp_path / "source" / "index.md").read_text(encoding="utf-8")
    assert (
        index.index("First table <first-table>")
        < index.index("AWS <clouds/aws>")
        < index.index(":caption: For maintainers")
    )


def test_the_script_starts_what_writes_the_source(tmp_path: Path) -> None:
    """The line of scripts/site.sh before the generator, as it stands there."""
    (line,) = re.findall(r'^"\$bin/python" .* source .*$', (ROOT / "scripts" / "site.sh").read_text("utf-8"), re.M)
    names = {"bin": str(Path(sys.executable).parent), "source": str(tmp_path / "source")}
    subprocess.run(["bash", "-c", line], cwd=ROOT, env={**os.environ, **names}, check=True, timeout=120)
    assert (tmp_path / "source" / "index.md").is_file()


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ('<a href="b.html#here">x</a><a href="https://a.b">y</a><a href="c.txt#z">c</a>', []),
        ('<a href="b.html#gone">x</a>', ["a.html: nothing is at b.html#gone"]),
        ('<a href="gone.html">x</a>', ["a.html: nothing is at gone.html"]),
        ('<img src="gone.png">', ["a.html: nothing is at gone.png"]),
        ('<script src="https://a.b/c.js"></script>', ["a.html: loads https://a.b/c.js"]),
        ('<link rel="stylesheet" href="//a.b/c.css">', ["a.html: loads //a.b/c.css"]),
    ],
)
def test_the_check_notices_what_leads_nowhere_and_what_is_loaded(body: str, wrong: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(body, encoding="utf-8")
    (tmp_path / "b.html").write_text('<h1 id="here">b</h1>', encoding="utf-8")
    (tmp_path / "c.txt").write_text("c", encoding="utf-8")
    assert check.broken(tmp_path) == wrong


def test_llms_txt_has_the_pages_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "first-table.md").write_text("# A\n", encoding="utf-8")
    (tmp_path / "site").mkdir()
    check.write_llms(tmp_path / "source", tmp_path / "site")
    lines = (tmp_path / "site" / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# trainplan"
    assert lines[2].startswith("> trainplan predicts what training a CNN costs")
    assert "- [First table](first-table.md): from nothing to time and cost of a training, in two lines" in lines
    assert "- [Command reference](reference/commands.md)" in lines
    assert (tmp_path / "site" / "first-table.md").is_file()


def test_the_index_is_what_the_readme_leads_to() -> None:
    assert "(docs/README.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
