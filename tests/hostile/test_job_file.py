"""A hostile job file: control characters are refused with a sentence, and reach no terminal on the way."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.desk import own_home
from tests.hostile.run_directory import EVIL
from tests.hostile.terminal import assert_harmless
from tests.unit.planner.cli.command import plan
from trainplan.workloads.job_mistakes import JobFileError
from trainplan.workloads.jobfile import read_job

TEXT = "\x1b]52;c;Y2xpcGJvYXJk\x07"
JOB: dict[str, Any] = {
    "name": "tiny",
    "model": {"preset": "vgg16"},
    "data": {"name": "cifar10"},
    "epochs": 2,
    "global_batch_size": 128,
}
SIZED = {"preset": "vgg16", "image_size": 32, "classes": 2}
SHA256 = "0" * 64
HOSTILE_JOBS: dict[str, dict[str, Any]] = {
    "name": {"name": f"tiny{TEXT}"},
    "data.url": {"data": {"url": f"https://example.org/{TEXT}"}},
    "data.path": {"data": {"path": f"images{TEXT}"}},
    "container": {"container": f"registry/{TEXT}@sha256:{SHA256}"},
    "secrets.TOKEN": {"secrets": {"TOKEN": f"gcp-sm:projects/p/secrets/{TEXT}/versions/1"}},
    "secrets": {"secrets": {f"TOKEN{TEXT}": "gcp-sm:projects/p/secrets/s/versions/1"}},
    "constraints.regions.0": {"constraints": {"regions": [f"us-east-1{TEXT}"]}},
    "a key": {f"epochs{TEXT}": 3},
    "framework": {"framework": f"jax{TEXT}"},
    "data.name": {"data": {"name": "cifar10\x9b2K"}},
}
COMMANDS = (
    ("estimate", "job.yaml", "--provider", "aws", "--limit", "1"),
    ("launch", "job.yaml", "--provider", "local", "--dry-run"),
    ("measure", "job.yaml"),
)


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_home(tmp_path, monkeypatch)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("where", HOSTILE_JOBS)
def test_control_characters_in_a_job_are_refused(tmp_path: Path, where: str, command: tuple[str, ...]) -> None:
    # JSON is YAML, and writes control characters as escapes, which YAML undoes.
    (tmp_path / "job.yaml").write_text(json.dumps(JOB | HOSTILE_JOBS[where]))
    said = plan(*command)
    assert_harmless(said)
    assert said.code == 2
    assert f"{where} holds a control character" in said.error
    assert "Y2xpcGJvYXJk" not in said.err, "the value of a secret may be in it"


@pytest.mark.parametrize("text", ["a\nb", "a\tb", "a\x7fb", "a\x85b"])
def test_line_breaks_and_tabs_are_control_characters_in_a_job(tmp_path: Path, text: str) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(JOB | {"data": {"url": f"https://example.org/{text}"}}))
    assert "data.url holds a control character" in plan("estimate", "job.yaml").error


def test_a_folder_within_one_whose_name_holds_a_control_character_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "work\x1b[2K"
    (folder / "images").mkdir(parents=True)
    (folder / "job.yaml").write_text(json.dumps(JOB | {"data": {"path": "images"}, "model": SIZED}))
    said = plan("estimate", folder / "job.yaml")
    assert_harmless(said)
    assert "holds a control character" in said.error


@pytest.mark.parametrize(
    "arguments",
    [
        ("estimate", f"{EVIL}.yaml"),
        ("estimate", "job.yaml", "--device", EVIL),
        ("stop", EVIL),
        ("logs", EVIL),
        (EVIL,),
        ("devices", EVIL),
    ],
    ids=range(6),
)
def test_words_of_the_command_line_reach_the_terminal_as_visible_escapes(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(JOB))
    said = plan(*(word.replace("\x00", "") for word in arguments))
    assert_harmless(said)
    assert said.code != 0


def test_thousands_of_unknown_keys_are_counted_and_the_first_are_told(tmp_path: Path) -> None:
    """Each of 20,000 was described, in 24 s: a job file may come with a pull request."""
    job_file = tmp_path / "job.yaml"
    job_file.write_text(json.dumps(JOB | {f"k{number}": 1 for number in range(20_000)}))
    begun = time.process_time()
    with pytest.raises(JobFileError) as told:
        read_job(job_file)
    assert time.process_time() - begun < 6
    assert "has 20,000 mistakes" in str(told.value)
    assert str(told.value).endswith("and 19,980 more")
