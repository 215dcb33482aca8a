"""`plan estimate --compare`: which second job is meant, what is refused, and what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders import small_catalog
from tests.desk import own_home
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.planner.cli.compare import second_job
from trainplan.planner.cli.job_options import AskedJob
from trainplan.planner.errors import BadInputError
from trainplan.planner.planning import build_plan
from trainplan.planner.planning.load import Load
from trainplan.workloads.job import TrainingJob
from trainplan.workloads.job_changes import differences
from trainplan.workloads.jobfile import read_job

JOB = """name: mine
model: {preset: vgg11}
data: {name: cifar10}
epochs: 3
global_batch_size: 128
optimizer: {name: sgd}
"""


@pytest.fixture(autouse=True)
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own with two jobs in it; state below it."""
    own_home(tmp_path, monkeypatch)
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "other.yaml").write_text(JOB.replace("mine", "other").replace("epochs: 3", "epochs: 300"))
    return small_catalog(tmp_path)


def estimate(catalog: Path, *arguments: str) -> CommandResult:
    return plan("estimate", *arguments, "--catalog", catalog)


def test_a_second_file(catalog: Path) -> None:
    said = estimate(catalog, "job.yaml", "--compare", "other.yaml")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[:3] == ["A: mine (job.yaml)", "B: other (other.yaml)", "A -> B: epochs 3 -> 300"]
    assert "\x1b" not in said.out
    row = next(line for line in said.out.splitlines() if line.startswith("  cost"))
    assert " +$" in row


def test_keys_with_their_values(catalog: Path) -> None:
    said = estimate(
        catalog, "job.yaml", "--compare", "precision=amp_fp16", "--compare", "optimizer.name = adam", "--json"
    ).json
    assert said["b"]["source"] == "job.yaml with precision=amp_fp16 optimizer.name = adam"
    assert (said["b"]["job"]["precision"], said["b"]["job"]["optimizer"]["name"]) == ("amp_fp16", "adam")
    assert (said["a"]["job"]["precision"], said["a"]["job"]["optimizer"]["name"]) == ("fp32", "sgd")
    assert {row["key"]: row["to"] for row in said["changed"]} == {"precision": "amp_fp16", "optimizer.name": "adam"}


def test_keys_go_on_top_of_the_second_file(catalog: Path) -> None:
    said = estimate(catalog, "job.yaml", "--compare", "xla=true", "--compare", "other.yaml", "--json").json
    assert said["b"]["source"] == "other.yaml with xla=true"
    assert (said["b"]["job"]["epochs"], said["b"]["job"]["xla"]) == (300, True)
    assert (said["a"]["job"]["epochs"], said["a"]["job"]["xla"]) == (3, False)


def test_options_hold_for_both_and_a_key_for_the_second_alone(catalog: Path) -> None:
    options = ("--batch", "256", "--precision", "tf32", "--deadline", "9h", "--objective", "time")
    for what in ("other.yaml", "precision=fp32"):
        said = estimate(catalog, "job.yaml", *options, "--compare", what, "--json").json
        for side in (said["a"]["job"], said["b"]["job"]):
            assert (side["global_batch_size"], side["objective"]) == (256, "time")
            assert side["constraints"]["deadline"] == "32400s"
        assert said["a"]["job"]["precision"] == "tf32"
        assert said["b"]["job"]["precision"] == ("fp32" if "=" in what else "tf32")


def test_without_a_file(catalog: Path) -> None:
    said = estimate(catalog, "--model", "vgg11", "--dataset", "cifar10", "--compare", "model.preset=vgg16")
    assert said.code == 0
    assert said.out.splitlines()[:3] == [
        "A: vgg11-cifar10 (vgg11 on cifar10)",
        "B: vgg11-cifar10 (vgg11 on cifar10 with model.preset=vgg16)",
        "A -> B: model.preset vgg11 -> vgg16",
    ]


def test_a_file_whose_name_looks_like_a_key(catalog: Path) -> None:
    Path("epochs=3").write_text(Path("other.yaml").read_text())
    said = estimate(catalog, "job.yaml", "--compare", "epochs=3")
    assert said.out.splitlines()[1] == "B: other (epochs=3)"


@pytest.mark.parametrize("what", ["job.yaml", "epochs=3", "name=else"])
def test_equal_jobs(catalog: Path, what: str) -> None:
    said = estimate(catalog, "job.yaml", "--compare", what)
    assert said.code == 0
    assert said.out.splitlines()[2] == "no difference: A and B train the same, within the same limits"
    shares = {line.split()[-1] for line in said.out.splitlines() if line.startswith(("  time", "  cost", "  images"))}
    assert shares == {"none"}, "this machine too, however busy it is from moment to moment"


def test_this_machine_is_as_busy_under_one_job_as_under_the_other(
    catalog: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = iter((0.1, 0.9))
    monkeypatch.setattr(build_plan, "load_from_here_on", lambda: lambda: Load(free_share=next(shares)))
    said = estimate(catalog, "job.yaml", "--provider", "local", "--compare", "objective=time", "--json").json
    assert said["changed"]
    assert said["this_machine"]["difference"]["images_per_second"]["absolute"] == 0


def test_a_device_that_nobody_rents_out_is_answered_under_both_jobs(catalog: Path) -> None:
    asked = ("job.yaml", "--device", "RTX 4090", "--compare", "model.preset=vgg16")
    said = estimate(catalog, *asked)
    assert (said.code, said.err) == (0, "")
    lines = [line for line in said.out.splitlines() if "RTX 4090 of your own: " in line]
    assert [line[:3] for line in lines] == ["A: ", "B: "]
    assert "nothing fits" not in said.out
    document = estimate(catalog, *asked, "--json").json
    (first,), (second,) = document["a"]["named_devices"], document["b"]["named_devices"]
    assert first["images_per_second"] > second["images_per_second"]


def test_null_takes_a_key_out_whatever_the_key_may_say(catalog: Path) -> None:
    Path("file.yaml").write_text(JOB.replace("{name: sgd}", "{name: sgd, momentum: 0.5}") + "accumulate: 2\n")
    keys = ("optimizer.momentum", "accumulate", "constraints", "model.image_size")
    said = estimate(catalog, "file.yaml", *(word for key in keys for word in ("--compare", f"{key}=null")), "--json")
    assert said.code == 0, said.err
    assert {row["key"]: row["to"] for row in said.json["changed"]} == {"optimizer.momentum": 0.9, "accumulate": 1}


def test_nothing_fits_the_second_job(catalog: Path) -> None:
    said = estimate(catalog, "job.yaml", "--compare", "global_batch_size=1048576")
    assert (said.code, said.err) == (0, "")
    assert "nothing fits B: the fraction of a device" in said.out
    assert "first offer of A: not possible under B" in said.out


def test_nothing_fits_either_job(catalog: Path) -> None:
    said = estimate(catalog, "job.yaml", "--budget", "0.00001", "--compare", "epochs=5", "--json")
    assert said.code == 3
    assert said.json["cheapest"]["a"] is None
    assert "no offer fits" in said.error


def test_this_machine_alone_is_an_answer(catalog: Path) -> None:
    said = estimate(catalog, "job.yaml", "--provider", "local", "--compare", "epochs=300")
    assert (said.code, said.err) == (0, "")
    assert "this machine" in said.out
    assert "nothing fits" not in said.out
    assert "cheapest" not in said.out


COMPARED = {
    "name": "name=else",
    "model": "model={preset: vgg16, classes: 10}",
    "data": "data={name: synthetic, images: 500}",
    "epochs": "epochs=5",
    "global_batch_size": "global_batch_size=256",
    "accumulate": "accumulate=2",
    "precision": "precision=amp_fp16",
    "xla": "xla=true",
    "framework": "framework=torch",
    "optimizer": "optimizer={name: adam}",
    "augment": "augment.flip=true",
    "validation": "validation.every_epochs=2",
    "seed": "seed=3",
    "nodes": "nodes=2",
    "checkpoint_every": "checkpoint_every=5m",
    "constraints": "constraints.deadline=9h",
    "objective": "objective=time",
    "on_slow": "on_slow=stop",
    "project": "project=flowers",
    "container": f"container=docker.io/me/trainer@sha256:{64 * '0'}",
    "export": "export=[onnx]",
    "track": "track=[mlflow]",
    "sweep": "sweep={optimizer.learning_rate: [0.1, 0.01]}",
}
"""A change of each key of a job file that a comparison takes."""
NOT_COMPARED = {
    "secrets": ("secrets.A=b", "no estimate depends on secrets"),
    "script": ("script=other.py", "write a second job file: what it names is read together with it"),
    "requirements": ("requirements=other.txt", "write a second job file: what it names is read together with it"),
    "read_script": ("read_script.sha256=0", "plan reads it out of the file that the job names"),
}
OF_A_SCRIPT = {"args": "args.lr=0.1", "checkpoints": "checkpoints=true"}


def test_every_key_of_a_job_is_compared_or_refused_with_the_reason(catalog: Path) -> None:
    """Keys under `sweep` were said not to be there."""
    assert {*COMPARED, *NOT_COMPARED, *OF_A_SCRIPT} == set(TrainingJob.model_fields)
    job = read_job(Path("job.yaml"))
    asked = AskedJob(job, "job.yaml")
    for key, text in COMPARED.items():
        second = second_job(asked, [text], {}).job
        changed = {row.key.partition(".")[0] for row in differences(job, second)}
        assert changed == (set() if key == "name" else {key}), text
    for text, why in NOT_COMPARED.values():
        said = estimate(catalog, "job.yaml", "--compare", text)
        assert (said.code, said.hint) == (2, why)
    for text in OF_A_SCRIPT.values():
        said = estimate(catalog, "job.yaml", "--compare", text)
        assert (said.code, "is for a script of your own" in said.error) == (2, True)


def test_the_keys_of_a_sweep(catalog: Path) -> None:
    Path("job.yaml").write_text(f"{JOB}sweep: {{optimizer.learning_rate: [0.1, 0.01, 0.001, 0.0001]}}\n")
    said = estimate(catalog, "job.yaml", "--compare", "sweep.trials=2", "--json").json
    assert [row["key"] for row in said["changed"]] == ["sweep.trials"]
    assert said["cheapest"]["b"]["cost_usd"] < said["cheapest"]["a"]["cost_usd"]
    swept = AskedJob(read_job(Path("job.yaml")), "job.yaml")
    fewer = second_job(swept, ["sweep.optimizer.learning_rate=[0.1, 0.01]"], {}).job
    assert [row.key for row in differences(swept.job, fewer)] == ["sweep.optimizer.learning_rate"]
    Path("job.yaml").write_text(JOB)
    plain = AskedJob(read_job(Path("job.yaml")), "job.yaml")
    for asked, text, why in (
        (swept, "sweep.trials=5", "trials: 5 are more than the 4 combinations"),
        (swept, "sweep.epochs=[1, 2]", "epochs cannot be swept: a sweep shares them out itself"),
        (swept, "sweep.optimizer.learning_rat=[1, 2]", "a job has no key 'sweep.optimizer.learning_rat'"),
        (plain, "sweep.trials=2", "name at least one key with its values"),
    ):
        with pytest.raises(BadInputError, match=re.escape(why)):
            second_job(asked, [text], {})


WRONG = [
    ("presision=fp32", "--compare presision=fp32: a job has no key 'presision'", "did you mean precision?"),
    ("batch=3", "--compare batch=3: a job has no key 'batch'", "did you mean global_batch_size?"),
    ("optimizer.nam=x", "--compare optimizer.nam=x: a job has no key", "did you mean optimizer.name?"),
    ("learning_rate=1", "--compare learning_rate=1: a job has no key", "did you mean optimizer.learning_rate?"),
    ("precision.name=1", "--compare precision.name=1: a job has no key", "did you mean "),
    ("zzzzz=1", "--compare zzzzz=1: a job has no key 'zzzzz'", "docs/settings.md lists"),
    ("precision=fp17", "job.yaml with --compare precision=fp17: precision: 'fp17' is not one of", "did you mean"),
    ("epochs=many", "job.yaml with --compare epochs=many: epochs: needs a whole number, not 'many'", ""),
    ("epochs=", "--compare epochs=: a value is missing", "--compare epochs=VALUE"),
    (
        "epochs=null",
        "job.yaml with --compare epochs=null: the key 'epochs' is missing",
        "plan init writes a complete job file",
    ),
    ("epochs=[1", "--compare epochs:2: not valid YAML", "check indentation"),
    ("accumulate=3", "job.yaml with --compare accumulate=3: accumulate: 3 does not divide a batch of 128", ""),
    ("precision", "--compare precision: a key needs a value", "--compare precision=VALUE"),
    ("data.path=x", "--compare data.path=x: data.path cannot be compared so", "write a second job file"),
    ("secrets.A=b", "--compare secrets.A=b: secrets cannot be compared so", "no estimate depends on secrets"),
    ("othr.yaml", "there is no file othr.yaml", "did you mean other.yaml?"),
    ("no/such/b.yaml", "there is no file no/such/b.yaml", "plan init writes one"),
    ("wrong.yaml", "wrong.yaml:4: there is no key 'epoch'", "did you mean 'epochs'?"),
    (".", ". is a folder, not a job file", "name the YAML file in it"),
]


@pytest.mark.parametrize(("what", "error", "hint"), WRONG, ids=[row[0] for row in WRONG])
@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_a_wrong_comparison_is_one_clear_error(catalog: Path, what: str, error: str, hint: str, as_json: bool) -> None:
    Path("wrong.yaml").write_text(JOB.replace("epochs:", "epoch:"))
    said = estimate(catalog, "job.yaml", "--compare", what, *(["--json"] if as_json else []))
    assert said.code == 2
    assert said.error.startswith(error)
    assert said.hint.startswith(hint)
    if as_json:
        assert said.json["error"].startswith(error)
    else:
        assert said.out == ""


def test_two_files_are_one_too_many(catalog: Path) -> None:
    said = estimate(catalog, "job.yaml", "--compare", "job.yaml", "--compare", "other.yaml")
    assert (said.code, said.error) == (2, "--compare: job.yaml and other.yaml are two files")


@pytest.mark.parametrize("option", ["--all", "--check", "--limit 3", "--explain 1", "--nodes 1,2", "--plot a.png"])
def test_what_is_about_one_job_is_refused_beside_it(catalog: Path, option: str) -> None:
    said = estimate(catalog, "job.yaml", "--compare", "other.yaml", *option.split())
    assert (said.code, said.error) == (2, f"--compare and {option.split()[0]} cannot be combined")


def test_an_option_that_the_second_file_cannot_have_names_that_file(catalog: Path) -> None:
    Path("other.yaml").write_text(JOB + "accumulate: 4\n")
    said = estimate(catalog, "job.yaml", "--batch", "126", "--compare", "other.yaml")
    assert (said.code, said.error) == (
        2,
        "other.yaml with --batch 126: accumulate: 4 does not divide a batch of 126",
    )
