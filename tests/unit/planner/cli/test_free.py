"""`plan estimate` at places that cost nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import a_plan
from tests.unit.planner.cli.command import plan
from trainplan.planner.errors import ExitCode
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.free_places import free_providers
from trainplan.pricing.retired_places import retired_place

JOB = ("--model", "vgg16", "--dataset", "cifar10", "--epochs", "1")
LONGER = ("--model", "vgg16", "--dataset", "cifar10", "--epochs", "300", "--image-size", "64")
"""More than this computer does in an hour."""
ON_IMAGENET = ("--model", "vgg16", "--dataset", "imagenet", "--precision", "amp_fp16", "--batch", "256")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.mark.parametrize("asked", [("--free",), ("--provider", "colab,kaggle"), ("--provider", "Kaggle, colab")])
def test_free_places_are_ranked_where_they_are_asked_for(asked: tuple[str, ...]) -> None:
    rows = plan("estimate", *JOB, *asked, "--json").json["candidates"]
    assert {row["provider"] for row in rows} == set(free_providers())
    for row in rows:
        assert row["cost_usd"] == row["cost_high_usd"] == 0
        assert row["sessions"]["needed"] == 1
        assert row["sessions"]["source"]
        assert row["sessions"]["as_of"]


def test_what_is_free_stands_beside_what_is_rented() -> None:
    rows = plan("estimate", *JOB, "--free", "--provider", "aws", "--json").json["candidates"]
    assert {row["provider"] for row in rows} == {"aws", *free_providers()}
    assert all(row["sessions"] is None for row in rows if row["provider"] == "aws")


def test_the_simulated_cloud_this_machine_and_free_places_stand_beside_each_other() -> None:
    asked = ("--provider", "sim,local,colab")
    made = plan("estimate", *JOB, *asked, "--json").json
    assert {row["provider"] for row in made["candidates"]} == {"sim", "colab"}
    assert made["this_machine"]["total_seconds"] > 0
    second = next(row for row in made["candidates"] if row["row"] == "3.2")
    told = plan("estimate", *JOB, *asked, "--explain", "3.2").out
    assert told.startswith(f"row 3.2: {second['provider']} {second['region']} {second['instance_type']}")


def test_the_table_says_how_many_sessions() -> None:
    told = plan("estimate", *ON_IMAGENET, "--epochs", "30", "--provider", "kaggle", "--device", "T4").out
    assert "sessions needed: " in told
    assert "of 12h 00m at most" in told


def test_more_sessions_than_a_week_has_are_said() -> None:
    told = plan("estimate", *ON_IMAGENET, "--epochs", "90", "--provider", "kaggle", "--device", "T4").out
    assert "more than a week has (30 h): " in told
    row = plan("estimate", *ON_IMAGENET, "--epochs", "90", "--provider", "kaggle", "--device", "T4", "--json").json
    (kaggle,) = row["candidates"]
    assert kaggle["sessions"]["weeks"] > 1
    assert kaggle["total_seconds"] > (kaggle["sessions"]["weeks"] - 1) * 7 * 86_400


def test_one_line_of_advice_where_nothing_was_named_and_none_where_something_was() -> None:
    advice = plan("estimate", *LONGER, "--json").json["advice"]
    assert [line for line in advice if "at no cost" in line] == advice[:1]
    for asked in (("--provider", "aws"), ("--region", "us-east-1"), ("--free",)):
        assert not any("at no cost" in line for line in plan("estimate", *LONGER, *asked, "--json").json["advice"])


def test_the_advice_keeps_to_the_devices_that_were_named() -> None:
    advice = plan("estimate", *LONGER, "--device", "T4", "--json").json["advice"]
    assert any("T4 at no cost" in line for line in advice)
    advice = plan("estimate", *LONGER, "--device", "L4", "--json").json["advice"]
    assert not any("at no cost" in line for line in advice)


def test_a_device_that_the_place_lacks() -> None:
    refused = plan("estimate", *JOB, "--free", "--device", "A100")
    assert refused.code == ExitCode.BAD_INPUT
    assert refused.error == "there is no A100 at no cost at colab and kaggle"
    assert refused.hint == "there is T4 and TPU v5e"


@pytest.mark.parametrize(
    ("asked", "who"),
    [
        (("--free",), "colab and kaggle lend"),
        (("--provider", "kaggle"), "kaggle lends"),
        (("--provider", "aws,colab"), "colab lends"),
    ],
)
def test_several_machines_are_refused_where_a_session_has_one(asked: tuple[str, ...], who: str, home: Path) -> None:
    refused = plan("estimate", *JOB, *asked, "--nodes", "1,4", "--html", home / "page.html")
    assert (refused.code, refused.out) == (ExitCode.BAD_INPUT, "")
    assert refused.error == f"{who} one machine a session, and 4 are asked for"
    assert "--nodes" in refused.hint
    assert not (home / "page.html").exists()
    assert plan("estimate", *JOB, *asked, "--nodes", "1").code == ExitCode.OK


@pytest.mark.parametrize("asked", [("--free",), ("--free", "--provider", "aws", "--objective", "time")])
def test_levers_and_pages_ask_for_no_machine_more_than_a_session_has(asked: tuple[str, ...], home: Path) -> None:
    """They look at several machines of the first offer where it can be had in several."""
    done = plan("estimate", *JOB, *asked, "--levers", "--html", home / "page.html", "--json")
    assert done.code == ExitCode.OK, done.err
    assert (home / "page.html").exists()
    assert done.json["levers"]
    has_machines = any(row["lever"] == "machines" for row in done.json["levers"])
    assert has_machines is ("aws" in asked)


def test_a_job_of_several_machines_is_refused_too(home: Path) -> None:
    job = home / "job.yaml"
    assert plan("init", job, "--model", "vgg16", "--dataset", "cifar10").code == ExitCode.OK
    job.write_text(job.read_text(encoding="utf-8") + "nodes: 2\n", encoding="utf-8")
    refused = plan("estimate", job, "--free")
    assert (refused.code, "2 are asked for" in refused.error) == (ExitCode.BAD_INPUT, True)


def test_a_device_that_the_place_had() -> None:
    refused = plan("estimate", *JOB, "--provider", "kaggle", "--device", "P100")
    assert refused.code != ExitCode.OK
    assert "kaggle retired NvidiaTeslaP100 (P100) on 2026-09-15, take NvidiaTeslaT4" in refused.out
    with Catalog.open() as catalog:
        shown = a_plan(catalog, providers=["kaggle"], devices=["P100"], include_retired=True)
    software = shown.candidates[0].candidate.estimate.software
    assert software is not None
    assert software.runtime is not None
    assert software.runtime.software == "tensorflow-volta"


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("floydhub", "FloydHub closed (2021-08)", "take colab or kaggle (--free)"),
        ("FloydHub", "FloydHub closed (2021-08)", "take colab or kaggle (--free)"),
        ("watson-studio", "Watson Studio goes by the name watsonx.ai Studio", "take --provider ibm"),
        ("paperspace gradient", "Paperspace Gradient has no interface any more", "take colab or kaggle (--free)"),
    ],
)
def test_a_place_that_is_gone_says_since_when_and_what_to_take(name: str, message: str, hint: str) -> None:
    refused = plan("estimate", *JOB, "--provider", name)
    assert refused.code == ExitCode.BAD_INPUT
    assert refused.error.startswith(message)
    assert refused.hint.startswith(hint)


def test_every_place_that_is_gone_is_none_of_the_known_ones() -> None:
    with Catalog.open() as catalog:
        assert all(retired_place(name) is None for name in catalog.rates)


def test_data_that_do_not_fit() -> None:
    refused = plan("estimate", *ON_IMAGENET, "--provider", "colab")
    assert refused.code != ExitCode.OK
    assert "take more than this free place keeps" in refused.error


def test_where_the_sessions_come_from_is_explained() -> None:
    told = plan("estimate", *JOB, "--provider", "colab", "--explain", "1").out
    assert "a session ends after 12 h" in told
    assert "not published, assumed: idle_minutes, planned_hours, weekly_hours" in told


def test_a_tax_is_told_beside_the_table(home: Path) -> None:
    (home / "settings.toml").write_text("tax_percent = 19\n")
    told = plan("estimate", *LONGER, "--provider", "aws", "--market", "on_demand")
    assert "row 1 with 19 % tax: $" in told.out
    answer = plan("estimate", *LONGER, "--provider", "aws", "--market", "on_demand", "--json").json
    assert answer["tax_percent"] == 19
    assert "tax: $" not in plan("estimate", *LONGER, "--provider", "mars").out
    assert "tax: $" not in plan("estimate", *LONGER, "--free").out, "there is none on nothing"


@pytest.mark.parametrize("text", ["-1", "101", "nan", "much", "1e9"])
def test_a_tax_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_TAX_PERCENT", text)
    refused = plan("estimate", *JOB)
    assert refused.code == ExitCode.BAD_INPUT
    assert "is not a percentage" in refused.error
