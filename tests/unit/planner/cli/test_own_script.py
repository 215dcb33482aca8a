"""Commands about a script of the person's own: no figure that nobody measured, and an estimate once somebody has."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import trainplan
from tests.desk import own_home
from tests.unit.planner.cli.command import plan
from trainplan.planner.planning.own_measurements import OwnMeasurement
from trainplan.planner.planning.own_rows import add_row
from trainplan.planner.planning.this_machine import shape_of
from trainplan.workloads.jobfile import read_job

JOB = "name: mine\nscript: train.py\nargs: {epochs: 3}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own_home(tmp_path, monkeypatch)
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "train.py").write_text("raise SystemExit('it ran')\n")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def measured(folder: Path) -> None:
    """A pilot of the job has been run on a g4dn.xlarge."""
    job = read_job(folder / "job.yaml")
    row = OwnMeasurement(
        machine="aws/g4dn.xlarge", shape=shape_of(job), images_per_second=50.0, setup_seconds=None,
        per_epoch_seconds=None, after_seconds=None, measured_at=datetime(2026, 11, 26, tzinfo=UTC), run_id="r",
        framework="torch", device="T4", half_width=0.02, total_images=100_000, job=job.to_json(),
    )  # fmt: skip
    add_row(folder / "home" / "measurements.jsonl", row)


def test_a_table_before_a_measurement_says_what_it_may_cost_and_no_more(folder: Path) -> None:
    said = plan("estimate", "job.yaml", "--deadline", "2h", "--provider", "aws", "--limit", "2")
    assert said.code == 0, said.err
    assert "mine: train.py --epochs 3, tensorflow, not measured: plan pilot" in said.out
    assert "up to 2h 00m" in said.out
    assert "up to $" in said.out
    assert "not measured" in said.out
    assert "it ran" not in said.out + said.err


def test_every_form_of_the_answer_has_none_of_its_figures(folder: Path) -> None:
    asked = ("estimate", "job.yaml", "--deadline", "2h", "--provider", "aws")
    row = plan(*asked, "--json").json["candidates"][0]
    assert (row["basis"], row["images_per_second"], row["memory"]) == ("unmeasured", None, None)
    assert row["total_seconds"] == row["total_high_seconds"] == 7200
    explained = plan(*asked, "--explain", "1").out
    assert "total 2h 00m (7,200 s): its deadline" in explained
    assert "images/s" not in explained
    assert plan(*asked, "--html", "page.html").code == 0
    assert "not measured" in (folder / "page.html").read_text()
    assert plan(*asked, "--levers").code == 0
    assert plan(*asked, "--compare", "args.epochs=5").code == 0


def test_no_form_of_the_answer_takes_its_deadline_for_an_estimate(folder: Path) -> None:
    asked = ("estimate", "job.yaml", "--deadline", "2h", "--provider", "aws")
    assert plan(*asked, "--html", "page.html").code == 0
    page = (folder / "page.html").read_text()
    assert "80 % likely" not in page
    assert "up to 2h 00m, up to $" in page
    assert ", up to 2h 00m, up to $" in plan(*asked, "--levers").out
    compared = plan(*asked, "--compare", "args.epochs=5").out
    assert len(re.findall(r"time +up to 2h 00m +up to 2h 00m +none", compared)) >= 1
    assert re.search(r"cost \(80 %\) +up to \$[\d.]+ +up to \$[\d.]+ +none", compared)
    assert "overlap" not in compared
    offer = trainplan.estimate(trainplan.Job.read("job.yaml"), deadline="2h", providers=["aws"])[0]
    assert re.search(r": up to 2h 00m, up to \$[\d.]+>", repr(offer))


def test_what_differs_between_two_scripts_is_not_their_text_nor_what_a_run_told(folder: Path) -> None:
    measured(folder)
    (folder / "other.py").write_text("print('other')\n")
    (folder / "other.yaml").write_text(JOB.replace("train.py", "other.py"))
    asked = ("estimate", "job.yaml", "--deadline", "9h", "--provider", "aws", "--device", "T4")
    said = plan(*asked, "--compare", "other.yaml")
    (line,) = [line for line in said.out.splitlines() if line.startswith("A -> B: ")]
    assert re.fullmatch(r"A -> B: script train.py of digest \w{12} -> other.py of digest \w{12}", line)
    rates = [line for line in said.out.splitlines() if line.startswith("  images/s")]
    assert all(line.endswith("not measured") for line in rates), "and no difference to what is not known"


def test_after_a_pilot_it_has_a_time_on_that_machine(folder: Path) -> None:
    measured(folder)
    asked = ("estimate", "job.yaml", "--deadline", "9h", "--provider", "aws", "--device", "T4")
    rows = plan(*asked, "--json").json["candidates"]
    bases = {row["instance_type"]: row["basis"] for row in rows}
    assert bases["g4dn.xlarge"] == "measured"
    assert set(bases.values()) == {"measured", "unmeasured"}
    first = next(row for row in rows if row["basis"] == "measured")
    assert first["images_per_second"] == 50.0
    assert 2000 <= first["train_seconds"] < 2100
    assert "100,000 images in all" in plan(*asked).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("estimate", "job.yaml"), "is unknown until it has been measured; set a limit"),
        (("measure", "job.yaml", "--yes"), "runs a script of your own"),
        (("export", "job.yaml", "--to", "sbatch", "--out", "files"), "which is not exported"),
        (("estimate", "nothing.py"), "there is no file"),
        (("estimate", "job.yaml", "--deadline", "2h", "--epochs", "3"), "a script decides that itself"),
    ],
)
def test_what_cannot_be_asked_of_a_script_is_said(words: tuple[str, ...], message: str) -> None:
    said = plan(*words)
    assert said.code == 2
    assert message in said.error
