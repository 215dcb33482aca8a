"""The tables of README.md and of the first page are what the command prints on a screen of 80 columns."""

from __future__ import annotations

import re
from os import terminal_size
from pathlib import Path

import pytest

from tests.conftest import ROOT, Golden
from tests.desk import on_the_doubles_day, signed_out
from tests.unit.planner.cli.command import plan
from trainplan.planner.cli import screen
from trainplan.planner.cli.commands import estimate
from trainplan.planner.cli.screen import Screen

BLOCK = re.compile(
    r"(<!-- estimate: [^\n]*-->\n```\n\$ (?P<command>plan estimate [^\n]*)\n)(?P<screen>.*?)(```\n)", re.S
)


@pytest.mark.parametrize("page", ["README.md", "docs/first-table.md"])
def test_the_first_table_is_what_the_command_prints(
    page: str, golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what the reader's own computer does."""
    signed_out(monkeypatch)
    on_the_doubles_day(monkeypatch)
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    for module in (screen, estimate):
        monkeypatch.setattr(module, "screen_of", lambda *_, **__: Screen(80, False, terminal_size((80, 24))))
    monkeypatch.chdir(ROOT)
    file = ROOT / page
    text = file.read_text(encoding="utf-8")
    block = BLOCK.search(text)
    assert block is not None
    done = plan(*block["command"].split()[1:])
    assert done.code == 0, done.err
    shown = re.sub(r"^this machine [^\n]*\n(?:  [^\n]*\n)*", "", done.out, flags=re.M)
    golden.check(file, text[: block.start("screen")] + shown + text[block.end("screen") :])
