"""The manual page has every command and option, the exit codes of docs/output.md, and roff that no reader warns of."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from scripts.man_page import MEANINGS, main, man_page
from tests.conftest import ROOT
from trainplan.planner.cli.app import commands, whole_app
from trainplan.planner.errors import ExitCode

HARMLESS = "missing date"
"""A date would be that of the build, and two builds of one commit would differ."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("man") / "plan.1"
    assert main([str(path)]) == 0
    return path


def test_every_command_is_in_it_in_the_order_of_use(page: Path) -> None:
    sections = re.findall(r'^\.SS "plan (\S+)"$', page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sections == list(commands())


def test_commands_of_commands_and_their_options_are_in_it() -> None:
    text = man_page()
    assert '.SS "plan prices refresh"' in text
    group = typer.main.get_command(whole_app())
    estimate = group.commands["estimate"]  # type: ignore[attr-defined]
    options = [word for option in estimate.params if not option.hidden for word in option.opts if word.startswith("--")]
    _, _, section = text.partition('.SS "plan estimate"')
    section, _, _ = section.partition(".SS ")
    assert len(options) > 15
    assert [option for option in options if option.replace("-", r"\-") not in section] == []


def test_exit_codes_are_those_of_the_page_on_output() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", (ROOT / "docs" / "output.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert {int(code): meaning for code, meaning in MEANINGS.items()} == {int(code): text for code, text in rows}
    assert set(MEANINGS) == set(ExitCode)


@pytest.mark.parametrize(
    "reader",
    ["groff -man -ww -Tutf8 -z", "mandoc -T lint -W warning", "man --warnings=w -l"],
    ids=lambda line: line.partition(" ")[0],
)
def test_readers_warn_of_nothing(page: Path, reader: str) -> None:
    words = reader.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    ran = subprocess.run([*words, str(page)], capture_output=True, text=True, timeout=60, check=False)
    told = ran.stdout if words[0] == "mandoc" else ran.stderr
    assert [line for line in told.splitlines() if HARMLESS not in line] == []


def test_a_page_with_a_mistake_is_noticed(page: Path, tmp_path: Path) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    wrong = tmp_path / "plan.1"
    wrong.write_text(page.read_text(encoding="utf-8") + ".NOSUCHMACRO\n", encoding="utf-8")
    words = ["groff", "-man", "-ww", "-Tutf8", "-z", str(wrong)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert "NOSUCHMACRO" in ran.stderr


def test_how_it_is_called_is_said_on_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage:" in capsys.readouterr().err


def test_the_line_that_apropos_shows_is_one_sentence_on_the_command() -> None:
    lines = man_page().splitlines()
    assert lines[lines.index(".SH NAME") + 1] == r"plan \- estimate what a training run costs, then launch it"
