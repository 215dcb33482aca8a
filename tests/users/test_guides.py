"""The guides, one after another in one folder, as somebody at a terminal types them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.desk import signed_out
from tests.doubles.typing_person import AllAtPty, command_line, own_environment
from tests.doubles.waiting import until

pytestmark = pytest.mark.check
GUIDES = (
    "README.md", "docs/first-table.md", "docs/first-free-run.md", "docs/own-network.md", "docs/report.md",
    "docs/exports.md", "docs/export-to-places.md", "docs/several-machines.md", "docs/simulated-cloud.md",
    "docs/what-can-go-wrong.md",
)  # fmt: skip
WRITTEN_BY_THE_READER = {
    "JOB.yaml": "job.yaml", "YOUR-NAME-AT-KAGGLE": "ada", "YOUR-NAME": "ada", "sha256:...": f"sha256:{64 * '0'}",
    "https://WHERE-YOU-PUT-THE-FILES": "https://example.org/files", "/shared/me": "shared",
}  # fmt: skip
"""What stands in a guide for something of the reader's own."""
NO_ROOM_FOR_OWN_IMAGES = ("skypilot", "jobset", "hf", "ibm")
"""Places to which a job with a folder of this computer is not exported: the reader's job then names a data set."""
QUESTION = re.compile(r"\[[yY]/[nN]\]:? *$")
LONGEST_SECONDS = 600
IMAGES = 12


def environment(folder: Path) -> dict[str, str]:
    """Of a reader whose home is this folder: no sign-in to a cloud is found there."""
    return {"PLAN_ENGINE": "process", "PLAN_SIM_SPEED": "0", "HOME": str(folder)}


def commands(page: str) -> Iterator[list[str]]:
    """The words of each `plan` command of a page, without `plan`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M):
        for line in block.splitlines():
            if line.startswith("plan "):
                for name, own in WRITTEN_BY_THE_READER.items():
                    line = line.replace(name, own)
                yield shlex.split(line, comments=True)[1:]


def files(page: str) -> dict[str, str]:
    """The Python files that a page has the reader write, by the name on their first line."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return dict(re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", text, re.S | re.M))


def typed(folder: Path, words: list[str]) -> tuple[int, str]:
    """The exit code and the screen of a command whose every question is answered with yes."""
    with AllAtPty(folder, *words, **environment(folder)) as person:
        answered = 0

        def is_over() -> bool:
            nonlocal answered
            over = person.process.poll() is not None
            screen = person._read()
            if QUESTION.search(screen[answered:]):
                answered = len(screen)
                person.type("y\n")
            return over

        until(is_over, f"plan {shlex.join(words)} ends", seconds=LONGEST_SECONDS)
        code, _ = person.wait_for_end()
        return code, person.screen


def newest_run(folder: Path) -> str:
    line = command_line("history", "--json")
    there = own_environment(folder, environment(folder))
    listed = subprocess.run(line, cwd=folder, env=there, capture_output=True, check=True)
    run_id: str = json.loads(listed.stdout)[0]["run_id"]
    return run_id


def test_the_guides_can_be_followed_one_after_another_in_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_out(monkeypatch)
    image: Any = pytest.importorskip("PIL.Image")
    for label, name in enumerate(("daisy", "rose", "tulip")):
        (tmp_path / "flowers" / name).mkdir(parents=True)
        for number in range(IMAGES):
            colour = tuple(200 if label == channel else number for channel in range(3))
            image.new("RGB", (48, 32), colour).save(tmp_path / "flowers" / name / f"{number}.png")
    for name in ("photo.jpg", "photo.png"):
        image.new("RGB", (48, 32), (5, 200, 5)).save(tmp_path / name)
    trained = ""
    for page in GUIDES:
        for name, text in files(page).items():
            (tmp_path / name).write_text(text, encoding="utf-8")
        for words in commands(page):
            if any(place in words for place in NO_ROOM_FOR_OWN_IMAGES):
                typed(tmp_path, ["init", "job.yaml", "--model", "vgg16", "--dataset", "cifar10", "--force"])
            run = trained if words[0] in ("predict", "convert") else "RUN" in words and newest_run(tmp_path)
            code, screen = typed(tmp_path, [str(run) if word == "RUN" else word for word in words])
            is_expected = code == 0 or (words == ["burn"] and "no sign-in on this computer" in screen)
            assert is_expected, f"{page}: plan {shlex.join(words)} ends with {code}\n{screen}"
            if words[0] == "launch" and "local" in words:
                trained = newest_run(tmp_path)
    classes = {path.name for path in (tmp_path / "flowers").iterdir()}
    assert classes == {"daisy", "rose", "tulip"}, "no guide writes into the reader's images"
