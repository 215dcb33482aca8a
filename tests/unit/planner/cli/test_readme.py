"""The tables and the picture of README.md and of the first page are what the command prints on a screen of 80 columns;
the commands of README.md train on a folder of images."""

from __future__ import annotations

import re
from collections.abc import Callable
from os import terminal_size
from pathlib import Path
from typing import Any

import pytest

from scripts.terminal_picture import picture
from tests.conftest import ROOT, Golden
from tests.desk import on_the_doubles_day, signed_out
from tests.doubles import fake_provider
from tests.doubles.clock import FakeClock
from tests.doubles.fake_machine import done_at_once
from tests.doubles.fake_provider import FakeProvider
from tests.page_commands import blocks
from tests.unit.planner.cli.command import plan
from trainplan.planner.cli import screen
from trainplan.planner.cli.commands import estimate
from trainplan.planner.cli.screen import Screen

BLOCK = re.compile(
    r"(<!-- estimate: [^\n]*-->\n```\n\$ (?P<command>plan estimate [^\n]*)\n)(?P<screen>.*?)(```\n)", re.S
)
OF_THIS_COMPUTER = re.compile(r"^this machine [^\n]*\n(?:  [^\n]*\n)*", re.M)
IMAGES = 200
"""Of each class of the folder that README.md trains on."""


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the day of the shipped prices."""
    signed_out(monkeypatch)
    on_the_doubles_day(monkeypatch)
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(ROOT)


def on_a_screen(monkeypatch: pytest.MonkeyPatch, *, has_colour: bool = False) -> None:
    for module in (screen, estimate):
        monkeypatch.setattr(module, "screen_of", lambda *_, **__: Screen(80, has_colour, terminal_size((80, 24))))


def shown(command: str) -> str:
    """What the command prints, but for what the reader's own computer does."""
    done = plan(*command.split()[1:])
    assert done.code == 0, done.err
    return OF_THIS_COMPUTER.sub("", done.out)


def check_table(page: str, golden: Golden, table_of: Callable[[str], str] = shown) -> None:
    """`table_of` is what a command prints."""
    file = ROOT / page
    text = file.read_text(encoding="utf-8")
    block = BLOCK.search(text)
    assert block is not None
    golden.check(file, text[: block.start("screen")] + table_of(block["command"]) + text[block.end("screen") :])


def at_home(command: str, words: list[str]) -> str:
    """Title and table of a command that begins with these words, whose images lie where a reader could have them.

    What follows rests on how fast this computer is.
    """
    assert command.split()[1 : len(words) + 1] == words
    title, table = shown(command).split("\nranked by cost\n\n")
    rows, *_ = table.split("\n\n")
    title = re.sub(r"(?<= )/\S+(?=/flowers )", "/home/ada", " ".join(title.split()))
    return f"{title}\nranked by cost\n\n{rows}\n"


def test_the_first_table_is_what_the_command_prints(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_screen(monkeypatch)
    check_table("docs/first-table.md", golden)


def test_the_picture_is_of_what_the_command_prints(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_screen(monkeypatch, has_colour=True)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"!\[`(plan estimate [^`]*)`[^\]]*\]\(docs/pictures/estimate\.svg\)", text)
    assert command is not None
    golden.check(ROOT / "docs/pictures/estimate.svg", picture(command[1], shown(command[1])))


def test_the_first_commands_train_on_a_folder_of_images(
    golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On this machine, whose run is over before anybody looks."""
    image: Any = pytest.importorskip("PIL.Image")
    for label, name in enumerate(("daisy", "rose", "tulip")):
        (tmp_path / "flowers" / name).mkdir(parents=True)
        for number in range(IMAGES):
            colour = (10 + 60 * label, number + 1, 7)
            image.new("RGB", (320, 240), colour).save(tmp_path / "flowers" / name / f"{number}.png", compress_level=1)
    monkeypatch.chdir(tmp_path)
    (block,) = blocks("README.md")
    assert [words[0] for words in block] == ["init", "estimate", "launch"]
    init, table, launch = block
    assert "wrote job.yaml" in plan(*init).out
    with monkeypatch.context() as patch:
        on_a_screen(patch)
        check_table("README.md", golden, lambda command: at_home(command, table))
    with fake_provider.as_this_machine(FakeProvider(FakeClock(), [done_at_once], tidy=True), monkeypatch):
        launched = plan(*launch, "--yes")
    assert launched.code == 0, launched.err
    assert "receipt of cnn-flowers" in launched.out
