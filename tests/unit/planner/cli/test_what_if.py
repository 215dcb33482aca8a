"""Options on top of a job file: what they change, what is told of it, and where they are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import small_catalog
from tests.desk import own_home
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.workloads.jobfile import read_job

JOB = """name: mine
model: {preset: vgg11}
data: {name: cifar10}
epochs: 3
global_batch_size: 128
accumulate: 4
constraints: {devices: [T4]}
"""


@pytest.fixture(autouse=True)
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with a job in it; state below it."""
    own_home(tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(JOB)
    return small_catalog(tmp_path)


def estimate(catalog: Path, *arguments: str) -> CommandResult:
    return plan("estimate", *arguments, "--catalog", catalog)


def test_the_page_says_what_was_changed_and_estimates_that(catalog: Path) -> None:
    before = estimate(catalog, "job.yaml")
    after = estimate(catalog, "job.yaml", "--batch", "256", "--precision", "amp_fp16", "--xla")
    assert (before.code, after.code) == (0, 0)
    assert "changed" not in before.out
    first, rest = after.out.split("\n", 1)
    assert first == (
        "changed from job.yaml: global_batch_size 128 -> 256, precision fp32 -> amp_fp16, xla false -> true"
    )
    assert "3 epochs, batch 256, amp_fp16, xla" in rest


def test_an_explained_row_says_it_too(catalog: Path) -> None:
    said = estimate(catalog, "job.yaml", "--epochs", "5", "--explain", "1")
    assert said.out.startswith("changed from job.yaml: epochs 3 -> 5\n\n")


def test_an_option_that_changes_nothing_says_nothing(catalog: Path) -> None:
    def told(*options: str) -> str:  # what this machine computes at the moment is no part of it
        lines = estimate(catalog, "job.yaml", *options).out.splitlines()
        return "\n".join(line for line in lines if not line.startswith(("this machine:", "advice:")))

    assert told("--batch", "128", "--no-xla") == told()


def test_the_json_has_the_job_as_it_was_estimated_and_the_changes(catalog: Path) -> None:
    said = estimate(catalog, "job.yaml", "--image-size", "64", "--framework", "jax", "--json").json
    assert said["job"]["model"]["image_size"] == 64
    assert said["changed"] == [
        {"key": "model.image_size", "from": None, "to": 64},
        {"key": "framework", "from": None, "to": "jax"},
    ]
    assert estimate(catalog, "job.yaml", "--json").json["changed"] == []
    without = estimate(catalog, "--model", "vgg11", "--dataset", "cifar10", "--epochs", "2", "--json").json
    assert (without["changed"], without["job"]["epochs"]) == ([], 2)


def test_more_epochs_take_longer_and_cost_more(catalog: Path) -> None:
    """The changed job is what is estimated, not only what is told."""
    few, many = (
        estimate(catalog, "job.yaml", *more, "--json").json["candidates"][0] for more in ((), ("--epochs", "300"))
    )
    assert many["train_seconds"] > 50 * few["train_seconds"]
    assert many["cost_usd"] > few["cost_usd"]


def test_the_options_stand_alone_too(catalog: Path) -> None:
    said = estimate(catalog, "--model", "vgg16", "--dataset", "mnist", "--image-size", "64", "--precision", "tf32")
    assert said.code == 0
    assert said.out.startswith("vgg16-mnist: vgg16 (")
    assert "on mnist at 64 px, 90 epochs, batch 128, tf32" in said.out


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        ("--batch 126", "job.yaml with --batch 126: accumulate: 4 does not divide a batch of 126", ""),
        ("--image-size 8", "job.yaml with --image-size 8: the image is 1 px a side", ""),
        ("--dataset mnist --model vgg16", "job.yaml with --model vgg16 --dataset mnist: the image is 1 px", ""),
        ("--precision fp23", "--precision: there is no 'fp23'", "did you mean fp32?"),
        ("--framework pytorch", "--framework: there is no 'pytorch'", "did you mean torch?"),
        ("--model=", "--model: there is no ''", "known: vgg11"),
    ],
)
def test_a_wrong_combination_is_told_with_the_option(catalog: Path, options: str, error: str, hint: str) -> None:
    said = estimate(catalog, "job.yaml", *options.split())
    assert (said.code, said.out) == (2, "")
    assert said.error.startswith(error)
    assert said.hint.startswith(hint)


def test_a_mistake_of_the_file_is_the_files(catalog: Path) -> None:
    """Also where the option would cover it: the file would fail at its launch."""
    Path("job.yaml").write_text(JOB.replace("epochs: 3", "epochs: many"))
    said = estimate(catalog, "job.yaml", "--epochs", "3")
    assert (said.code, said.error) == (2, "job.yaml:4: epochs: needs a whole number, not 'many'")


@pytest.mark.parametrize("command", ["launch job.yaml", "measure job.yaml", "export job.yaml --to sbatch --out x"])
@pytest.mark.parametrize("option", ["--batch 256", "--precision=tf32", "--no-xla"])
def test_what_trains_takes_the_file_as_it_is(command: str, option: str, tmp_path: Path) -> None:
    digest = read_job(Path("job.yaml")).digest()
    said = plan(*command.split(), *option.split())
    name = option.replace("=", " ").split()[0]
    word = command.split()[0]
    assert said.code == 2
    assert said.error == f"plan {word} takes a job as its file has it; {name} is an option of plan estimate"
    assert said.hint.startswith("change the job file")
    assert read_job(Path("job.yaml")).digest() == digest
    assert not (tmp_path / "home").exists()


def test_an_option_that_nothing_has_is_told() -> None:
    assert plan("launch", "job.yaml", "--bach", "3").error.startswith("there is no option --bach")
    assert plan("status", "--batch", "3").error.startswith("there is no option --batch")
