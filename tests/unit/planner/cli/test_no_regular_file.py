"""A file that a person names is a pipe, a socket or a device: it is refused at once, and nobody waits for a writer."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.desk import own_home
from tests.fuzz.mutations import no_longer_than
from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ThisMachineError
from trainplan.planner.runs.predictions import kept_model
from trainplan.providers.errors import BadRequestError
from trainplan.providers.sim.scenario import read_scenario
from trainplan.workloads.regular_file import NotRegularError, open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

A_MINUTE = 60.0
JOB = """name: mine
model: {preset: vgg11}
data: {name: cifar10}
epochs: 3
global_batch_size: 128
"""
OF_A_FOLDER = JOB.replace("preset: vgg11", "preset: vgg11, image_size: 32, classes: 9").replace(
    "name: cifar10", "path: images, images: 500"
)
SCRIPT_JOB = "name: mine\nscript: train.py\nrequirements: wanted.txt\nconstraints: {deadline: 2h}\n"
FROM_A_FILE = "write what it gives into a file, and name that"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    own_home(tmp_path, monkeypatch)
    with no_longer_than(A_MINUTE, "a file that is none"):
        yield


def pipe(name: str) -> Path:
    os.mkfifo(name)
    return Path(name)


@pytest.mark.parametrize(
    "words",
    [
        ("estimate", "PIPE.yaml"),
        ("estimate", "job.yaml", "--compare", "PIPE.yaml"),
        ("estimate", "PIPE.py"),
        ("estimate", "--model", "PIPE.py:net", "--dataset", "cifar10"),
        ("estimate", "--model", "PIPE.onnx", "--dataset", "cifar10"),
        ("launch", "PIPE.yaml", "--yes"),
        ("pilot", "PIPE.yaml", "--budget", "1", "--yes"),
        ("measure", "PIPE.yaml", "--yes"),
        ("export", "PIPE.yaml", "--to", "sbatch", "--out", "out"),
        ("doctor", "PIPE.yaml"),
        ("prices", "check", "PIPE.csv"),
        ("prices", "check", "PIPE.toml"),
        ("throughput", "check", "PIPE.csv"),
        ("history", "import", "PIPE.json"),
    ],
    ids=" ".join,
)
def test_a_pipe_is_refused_in_words(words: tuple[str, ...]) -> None:
    Path("job.yaml").write_text(JOB)
    name = next(word for word in words if "PIPE" in word).partition(":")[0]
    pipe(name)
    said = plan(*words)
    assert said.code == 2
    assert said.error.endswith(f"{name}: it is a pipe, and a regular file is expected")
    assert said.error.startswith("cannot read ")
    assert said.hint == FROM_A_FILE


@pytest.mark.parametrize(
    ("text", "name", "told"),
    [
        (SCRIPT_JOB, "train.py", "cannot read train.py: it is a pipe, and a regular file is expected"),
        (SCRIPT_JOB, "wanted.txt", "cannot read wanted.txt: it is a pipe, and a regular file is expected"),
        (JOB.replace("preset: vgg11", "python: net.py:build"), "net.py", "model.python: net.py is no regular file"),
        (JOB.replace("preset: vgg11", "onnx: net.onnx"), "net.onnx", "model.onnx: net.onnx is no regular file"),
        (
            JOB.replace("preset: vgg11", "preset: vgg11, weights: file.keras"),
            "file.keras",
            "model.weights: file.keras is no regular file",
        ),
        (OF_A_FOLDER, "images", "data.path: there is no folder images"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 12 else "",
)
def test_a_pipe_that_a_job_file_names_is_refused_in_words(text: str, name: str, told: str) -> None:
    Path("job.yaml").write_text(text)
    if name != "train.py":
        Path("train.py").write_text("print(1)\n")
    pipe(name)
    said = plan("estimate", "job.yaml")
    assert said.code == 2
    assert told in said.error


def test_files_of_a_setting_and_beside_a_model(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="it is a pipe"):
        read_scenario(pipe("scenario.toml"))
    Path("model.keras").touch()
    pipe("metrics.json")
    with pytest.raises(ThisMachineError, match="it is a pipe"):
        kept_model(tmp_path)


def test_settings_that_are_a_pipe_are_not_taken_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may hold a budget."""
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "another"))
    Path("another").mkdir(mode=0o700)
    pipe("another/settings.toml")
    said = plan("estimate", "--model", "vgg11", "--dataset", "cifar10")
    assert said.code == 2
    assert "it is a pipe, and a regular file is expected" in said.error


def test_sockets_and_devices_are_refused_and_links_are_what_they_lead_to(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name, kind in (("socket", "a socket"), ("/dev/zero", "a device")):
            with pytest.raises(NotRegularError, match=f"it is {kind}, and a regular file is expected"):
                open_regular(Path(name))
    Path("to-a-device").symlink_to("/dev/zero")
    with pytest.raises(NotRegularError, match="it is a device"):
        open_regular(Path("to-a-device"))
    with pytest.raises(IsADirectoryError):
        open_regular(tmp_path)
    Path("file").write_bytes(b"text")
    Path("to-a-file").symlink_to("file")
    with open_regular(Path("to-a-file")) as file:
        assert file.read() == b"text"
