"""A job with keys changed: checked as a whole, and told from the job that it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import a_job
from tests.conftest import ROOT
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.job_changes import Difference, changed_job, differences, differences_text
from trainplan.workloads.jobfile import JobFileError, read_job
from trainplan.workloads.key_changes import Change

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def change(key: str, value: object) -> Change:
    return Change(tuple(key.split(".")), value, f"--{key} {value}")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_key_that_gets_the_value_it_has_changes_nothing(path: Path) -> None:
    job = read_job(path)
    same = changed_job(job, [change("epochs", job.epochs)], str(path))
    assert same == job
    assert same.digest() == job.digest()
    assert ("framework" in same.model_fields_set) == ("framework" in job.model_fields_set)
    assert differences(job, same) == ()


def test_without_a_change_it_is_the_job_itself() -> None:
    job = a_job()
    assert changed_job(job, [], "job.yaml") is job


def test_a_changed_key_is_the_only_difference() -> None:
    job = a_job()
    other = changed_job(job, [change("global_batch_size", 8)], "job.yaml")
    assert differences(job, other) == (Difference("global_batch_size", job.global_batch_size, 8),)
    assert differences(other, job) == (Difference("global_batch_size", 8, job.global_batch_size),)
    assert other.digest() != job.digest()


def test_a_framework_that_was_left_out_is_none_until_it_is_written() -> None:
    job = a_job()
    assert "framework" not in job.model_fields_set
    other = changed_job(job, [change("framework", "tensorflow")], "job.yaml")
    assert differences(job, other) == (Difference("framework", None, "tensorflow"),)
    assert differences_text(differences(job, other)) == "framework (not given) -> tensorflow"


def test_a_net_by_name_takes_the_place_of_layers() -> None:
    layers = TrainingJob.model_validate(
        {
            "name": "a",
            "model": {"layers": [8, "M"], "image_size": 64, "classes": 10},
            "data": {"path": "/images", "images": 1000},
            "epochs": 1,
            "global_batch_size": 8,
        }
    )
    net = changed_job(layers, [change("model.preset", "vgg16")], "job.yaml")
    assert (net.model.preset, net.model.layers, net.model.image_size) == ("vgg16", None, 64)
    data = changed_job(layers, [change("data.name", "cifar10")], "job.yaml")
    assert data.data.model_dump(exclude_defaults=True) == {"name": "cifar10"}, "images were those of the folder"
    assert data.model.classes == 10
    text = differences_text(differences(layers, data))
    assert text == "data.name (not given) -> cifar10, data.path /images -> (not given), data.images 1000 -> (not given)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("global_batch_size", 7)], "job.yaml with --global_batch_size 7: accumulate: 4 does not divide a batch of 7"),
        ([("epochs", "many")], "job.yaml with --epochs many: epochs: needs a whole number, not 'many'"),
        ([("model.image_size", 5)], "job.yaml with --model.image_size 5: the image is 1 px a side"),
        ([("precision", "fp17")], "job.yaml with --precision fp17: precision: 'fp17' is not one of 'fp32'"),
    ],
)
def test_a_wrong_combination_names_what_was_changed(changes: list[tuple[str, object]], message: str) -> None:
    job = TrainingJob.model_validate(
        {
            "name": "a",
            "model": {"preset": "vgg11"},
            "data": {"name": "cifar10"},
            "epochs": 1,
            "global_batch_size": 8,
            "accumulate": 4,
        }
    )
    with pytest.raises(JobFileError) as caught:
        changed_job(job, [change(*one) for one in changes], "job.yaml")
    assert caught.value.message.startswith(message)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(JobFileError) as caught:
        changed_job(a_job(), [change("epochs", 0), change("precision", "fp17")], "job.yaml")
    first, *rows = caught.value.message.splitlines()
    assert first == "job.yaml with --epochs 0 --precision fp17 has 2 mistakes:"
    assert [row.split(":")[0].strip() for row in rows] == ["epochs", "precision"]


def test_no_value_of_secrets_is_told() -> None:
    job = a_job(secrets={"TOKEN": "aws-sm:arn"})
    assert differences(job, a_job(secrets={})) == ()


def test_a_long_list_is_cut() -> None:
    rows = differences(a_job(), changed_job(a_job(), [change("model.layers", [8] * 40 + ["M"])], "a"))
    assert differences_text(rows).endswith(", 8, 8,...")


def test_a_key_that_is_swept_is_not_changed_beside_its_values() -> None:
    job = a_job(sweep={"global_batch_size": [64, 128]})
    with pytest.raises(JobFileError, match="--batch 32: global_batch_size is swept, and each trial has its own"):
        changed_job(job, [Change(("global_batch_size",), 32, "--batch 32")], "job.yaml")
    assert changed_job(job, [Change(("epochs",), 2, "--epochs 2")], "job.yaml").epochs == 2
