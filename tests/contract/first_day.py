"""The first day of an account: the commands of a page, typed one after another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT
from tests.transcripts import transcript
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.errors import ExitCode

JOB = "examples/digits-vgg.yaml"


class Scene(NamedTuple):
    """One command of a page, with the code that it leaves with."""

    heading: str
    text: str
    words: tuple[str, ...]
    code: ExitCode

    def typed(self) -> CommandResult:
        said = plan(*self.words)
        assert said.code == self.code, (said.out, said.err)
        return said


def bring_the_job(folder: Path) -> None:
    (folder / JOB).parent.mkdir()
    (folder / JOB).write_text((ROOT / JOB).read_text(encoding="utf-8"), encoding="utf-8")


def page_of(title: str, shown: Sequence[tuple[Scene, CommandResult]], *differs: tuple[str, str]) -> str:
    """A title, and for each scene what was typed and printed; `differs` are as in `transcript`."""
    page = title
    for scene, said in shown:
        text = transcript(" ".join(scene.words), said, *differs)
        page += f"\n## {scene.heading}\n{scene.text}\n\n```\n{text}```\n"
    return page
