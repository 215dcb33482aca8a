"""A job for a place that ends its sessions: what is written, and what is refused before anything is."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from PIL import Image

from tests.builders import a_job
from tests.unit.planner.cli.command import CommandResult, plan
from trainplan.extensions.export.session_plan import MachineTime, session_plan
from trainplan.planner.errors import BadInputError
from trainplan.planner.forecast.free_sessions import checkpoint_bytes
from trainplan.pricing.free_places import FreePlace, free_place
from trainplan.providers.cloud.trainer_wheel import WHEEL
from trainplan.workloads.job import job_from_json

JOB = """\
name: two_cats
model: {preset: vgg11, classes: 10, image_size: 32}
data: {name: cifar10}
epochs: 2
global_batch_size: 64
framework: tensorflow
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path / "home"))


def colab() -> FreePlace:
    place = free_place("colab", "T4")
    assert place is not None
    return place


def hours_of(hours: float) -> MachineTime:
    """So many hours of training on a T4, with six minutes of setup."""
    return MachineTime(
        device="T4",
        device_count=1,
        setup_seconds=360,
        train_seconds=hours * 3600,
        images_per_second=100,
        basis="scaled",
    )


def write_images(folder: Path, classes: int, each: int) -> None:
    """Colours of noise, a sub-folder per class."""
    random = np.random.default_rng(0)
    for label in range(classes):
        (folder / f"class-{label}").mkdir(parents=True)
        for number in range(each):
            pixels = random.integers(0, 256, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"class-{label}" / f"{number}.png")


def exported(tmp_path: Path, text: str, *words: object) -> CommandResult:
    job = tmp_path / "job.yaml"
    job.write_text(text, encoding="utf-8")
    return plan("export", job, "--out", tmp_path / "out", *words)


def advice_of(job: Path) -> list[str]:
    return list(plan("estimate", job, "--json").json["advice"])


def document(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


class TestColab:
    def test_the_folder_holds_a_valid_notebook_for_the_accelerator(self, tmp_path: Path) -> None:
        made = exported(tmp_path, JOB, "--to", "colab")
        assert (made.code, made.out) == (0, "")
        assert "run the cell `Train`" in made.err
        assert "expected on T4" in made.err
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {"job.json", "sessions.json", "train.ipynb", WHEEL}
        notebook = nbformat.read(tmp_path / "out" / "train.ipynb", as_version=4)  # type: ignore[no-untyped-call]
        nbformat.validate(notebook)
        assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
        assert (notebook.metadata.accelerator, notebook.metadata.colab.gpuType) == ("GPU", "T4")
        for cell in notebook.cells[1:]:
            compile(cell.source, "cell", "exec")
            assert re.search("/content/drive/MyDrive/two_cats-[0-9a-f]{8}'", cell.source)

    def test_images_of_this_computer_travel_in_archives(self, tmp_path: Path) -> None:
        write_images(tmp_path / "cats", classes=2, each=20)
        text = JOB.replace("{name: cifar10}", "{path: cats}").replace("64", "2").replace("classes: 10", "classes: 2")
        made = exported(tmp_path, text, "--to", "colab", "--json")
        assert made.code == 0, made.err
        assert "images-00000.bin" in made.json["files"]
        sealed = document(tmp_path / "out" / "sessions.json")
        assert sealed["data"] == ["images-00000.bin"]
        assert sealed["files"].keys() == {"images-00000.bin", "job.json", WHEEL}
        job = job_from_json((tmp_path / "out" / "job.json").read_text(encoding="utf-8"))
        assert job.data.path == "images"

    @pytest.mark.parametrize(("place", "more"), [("colab", ()), ("kaggle", ("--user", "someone"))])
    @pytest.mark.parametrize(
        "text", [JOB, JOB.replace("framework: tensorflow\n", ""), JOB.replace("preset: vgg11", "layers: [8, M]")]
    )
    def test_the_machine_is_the_one_that_the_estimate_has_first(
        self, tmp_path: Path, place: str, more: tuple[str, ...], text: str
    ) -> None:
        made = exported(tmp_path, text.replace("epochs: 2", "epochs: 60"), "--to", place, *more)
        assert made.code == 0, made.err
        first = plan("estimate", tmp_path / "job.yaml", "--provider", place, "--json").json["candidates"][0]
        count = "" if first["device_count"] == 1 else f"{first['device_count']} x "
        assert f"expected on {count}{first['device']}" in made.err

    def test_what_is_advised_can_be_exported(self, tmp_path: Path) -> None:
        (tmp_path / "job.yaml").write_text(JOB.replace("epochs: 2", "epochs: 900"))
        (advised,) = [line for line in advice_of(tmp_path / "job.yaml") if "at no cost" in line]
        text = (tmp_path / "job.yaml").read_text()
        assert exported(tmp_path, text, "--to", advised.partition(" ")[0], "--user", "someone").code == 0
        (tmp_path / "job.yaml").write_text(text.replace("cifar10", "imagenet"))
        assert not [line for line in advice_of(tmp_path / "job.yaml") if "at no cost" in line]

    def test_a_tpu_trains_with_what_runs_there(self, tmp_path: Path) -> None:
        words = ("--to", "colab", "--device", "TPU v5e")
        refused = exported(tmp_path, JOB, *words)
        assert refused.error.startswith("colab has no TPU v5e for this job: no known combination")
        assert exported(tmp_path, JOB.replace("framework: tensorflow\n", ""), *words).code == 0
        metadata = document(tmp_path / "out" / "train.ipynb")["metadata"]
        assert (metadata["accelerator"], metadata["colab"]["gpuType"]) == ("TPU", "V5E1")
        sealed, job = (document(tmp_path / "out" / name) for name in ("sessions.json", "job.json"))
        assert (sealed["framework"], job["framework"]) == ("jax", "jax")


class TestKaggle:
    def test_the_commands_come_in_order(self, tmp_path: Path) -> None:
        made = exported(tmp_path, JOB, "--to", "kaggle", "--user", "ada-l")
        out = tmp_path / "out"
        assert made.code == 0, made.err
        assert made.out.splitlines() == [
            f"kaggle datasets create -p {out}/trainer",
            f"kaggle kernels push -p {out}/session-1 -t 43200",
        ]
        kernel = document(out / "session-1" / "kernel-metadata.json")
        assert (kernel["machine_shape"], kernel["enable_gpu"], kernel["enable_tpu"]) == ("NvidiaTeslaT4", True, False)
        (source,) = kernel["dataset_sources"]
        assert re.fullmatch("ada-l/two-cats-[0-9a-f]{8}-trainer", source)
        compile((out / "session-1" / "train.py").read_text(encoding="utf-8"), "train.py", "exec")

    def test_each_session_goes_on_from_the_output_of_the_one_before(self, tmp_path: Path) -> None:
        assert exported(tmp_path, JOB, "--to", "kaggle", "--user", "ada-l").code == 0
        kernels = [document(tmp_path / "out" / name / "kernel-metadata.json") for name in _SESSIONS]
        name = kernels[0]["id"].removesuffix("-a")
        assert [(one["id"], one["kernel_sources"]) for one in kernels] == [
            (f"{name}-a", []),
            (f"{name}-b", [f"{name}-a"]),
            (f"{name}-a", [f"{name}-b"]),
        ]

    @pytest.mark.parametrize(
        ("user", "error"), [((), "whose data sets and kernels are they?"), (("--user", "Ada L"), "--user Ada L")]
    )
    def test_the_account_has_to_be_named(self, tmp_path: Path, user: tuple[str, ...], error: str) -> None:
        made = exported(tmp_path, JOB, "--to", "kaggle", *user)
        assert (made.code, made.error.startswith(error), (tmp_path / "out").exists()) == (2, True, False)


_SWEEP = "optimizer: {learning_rate: 0.1}\nsweep: {optimizer.learning_rate: [0.1, 0.03], trials: 2}\n"
_SESSIONS = ("session-1", "session-even", "session-odd")


class TestWhatIsRefused:
    """Each is said before anything is written."""

    @pytest.mark.parametrize(
        ("text", "words", "error"),
        [
            (JOB, ("--device", "A100"), "there is no A100-40GB at no cost at colab"),
            (JOB, ("--device", "nonesuch"), "nonesuch"),
            (JOB.replace("cifar10", "imagenet").replace(", classes: 10", ""), (), "ImageNet (150 GB) does not fit"),
            (JOB.replace("{name: cifar10}", "{url: 's3://b/x', images: 9000}"), (), "colab fetches no address"),
            (JOB.replace("epochs: 2", "epochs: 20000"), (), "and a week has 28 h there"),
            (JOB + "nodes: 2\n", (), "one machine"),
            (JOB + _SWEEP, (), "two_cats sweeps values of its keys, which is not exported to colab"),
        ],
    )
    def test_before_anything_is_written(self, tmp_path: Path, text: str, words: tuple[str, ...], error: str) -> None:
        made = exported(tmp_path, text, "--to", "colab", *words)
        assert made.code in (2, 3), made.err
        assert error in made.error
        assert made.hint
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("place", "error"),
        [
            (("colab",), "colab keeps 15 GB, and a checkpoint of two_cats is"),
            (("kaggle", "--user", "ada"), "kaggle keeps 20 GB, and a checkpoint of two_cats is"),
        ],
    )
    def test_a_checkpoint_larger_than_what_is_kept(self, tmp_path: Path, place: tuple[str, ...], error: str) -> None:
        wide = "{layers: [8, M], dense: [25000, 25000], image_size: 32, classes: 10}"
        text = JOB.replace("{preset: vgg11, classes: 10, image_size: 32}", wide) + "optimizer: {name: adam}\n"
        made = exported(tmp_path, text, "--to", *place)
        assert (made.code, made.error.startswith(error)) == (2, True), made.error
        assert not (tmp_path / "out").exists()

    def test_images_that_do_not_fit_are_not_read(self, tmp_path: Path) -> None:
        """They are told by their sizes: the files have none of the bytes that they say they have."""
        for label in ("cats", "dogs"):
            (tmp_path / "pets" / label).mkdir(parents=True)
            with (tmp_path / "pets" / label / "1.png").open("wb") as file:
                file.truncate(8 * 10**9)
        text = JOB.replace("{name: cifar10}", "{path: pets}").replace("classes: 10", "classes: 2")
        made = exported(tmp_path, text, "--to", "colab")
        assert (made.code, made.error) == (2, "colab keeps 15 GB, and the data of two_cats are 16 GB")
        assert not (tmp_path / "out").exists()

    def test_more_weeks_may_be_allowed(self, tmp_path: Path) -> None:
        text = JOB.replace("epochs: 2", "epochs: 20000")
        refused = exported(tmp_path, text, "--to", "colab")
        assert "--weeks" in refused.hint
        weeks = refused.hint.split()[1]
        assert exported(tmp_path, text, "--to", "colab", "--weeks", weeks).code == 0

    def test_data_that_do_not_fit_drive(self) -> None:
        job = a_job(model={"preset": "vgg11", "classes": 2, "image_size": 32}, data={"name": "cifar10"})
        small = colab()._replace(data_gb=1, storage_gb=1)
        assert session_plan(job, small, hours_of(1.0)).sessions == 1
        with pytest.raises(BadInputError, match="the data of tiny are"):
            session_plan(job, small._replace(data_gb=0), hours_of(1.0))

    def test_a_checkpoint_that_the_place_cannot_keep(self) -> None:
        job = a_job(
            model={"preset": "vgg16", "classes": 1000, "image_size": 224}, data={"name": "synthetic", "images": 9000}
        )
        assert checkpoint_bytes(job) == pytest.approx(2 * 4 * 138_357_544, rel=0.001)
        with pytest.raises(BadInputError, match=r"a checkpoint of tiny is 1\.1.*are 3\.9"):
            session_plan(job, colab()._replace(storage_gb=3), hours_of(1.0))

    def test_data_and_checkpoints_share_drive(self) -> None:
        job = a_job(model={"preset": "vgg16", "classes": 10, "image_size": 32}, data={"name": "cifar10"})
        kept = 3 * checkpoint_bytes(job) / 1e9
        assert kept < 1 < kept + 0.2
        with pytest.raises(BadInputError, match="Drive keeps 1 GB, and tiny needs"):
            session_plan(job, colab()._replace(storage_gb=1), hours_of(1.0))


def test_sessions_are_counted_by_what_is_planned_not_by_the_longest() -> None:
    """4 hours on average, at Colab: more of them than equal ones of 4 hours would be (workloads/sessions/needed.py)."""
    job, hours = a_job(), (1.0, 3.8, 7.5, 11.3, 40.0)
    equal = colab()._replace(session_hours=4)
    assert [session_plan(job, colab(), hours_of(each), weeks=2).sessions for each in hours] == [1, 2, 3, 4, 12]
    assert [session_plan(job, equal, hours_of(each), weeks=2).sessions for each in hours] == [1, 2, 3, 4, 11]
