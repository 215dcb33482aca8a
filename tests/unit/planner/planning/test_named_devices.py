"""Is the card in the lab enough? A device that is named and that no offer has gets its own line, without a price."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import small_catalog
from tests.unit.planner.cli.command import plan

JOB = ("--model", "vgg16", "--dataset", "cifar10", "--batch", "128")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_catalog(tmp_path_factory.mktemp("named"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))


def test_a_card_that_nobody_rents_is_estimated_without_a_price(catalog: Path) -> None:
    said = plan("estimate", *JOB, "--catalog", catalog, "--device", "RTX 4090", "--json")
    (card,) = said.json["named_devices"]
    assert (said.code, said.json["candidates"], card["device"], card["fits"]) == (0, [], "RTX 4090", True)
    assert card["images_per_second"] > 0
    assert card["total_seconds"] > card["train_seconds"] > 0
    assert "cost_usd" not in card
    text = plan("estimate", *JOB, "--catalog", catalog, "--device", "RTX 4090").out
    assert "\nRTX 4090 of your own: " in text


def test_a_card_that_is_too_small_says_so(catalog: Path) -> None:
    job = ("--model", "vgg19", "--dataset", "imagenet", "--batch", "2048")
    said = plan("estimate", *job, "--catalog", catalog, "--device", "RTX 4090")
    assert said.code == 3
    assert "RTX 4090 of your own: no, needs " in said.out


@pytest.mark.parametrize("device", ["RTX 5090", "B200"])
def test_a_card_of_a_generation_that_the_framework_has_no_code_for_says_why(catalog: Path, device: str) -> None:
    said = plan("estimate", *JOB, "--framework", "tensorflow", "--catalog", catalog, "--device", device)
    assert f"{device} of your own: no, no known tensorflow trains on Blackwell" in said.out


def test_a_device_that_is_in_the_ranking_has_its_rows_there(catalog: Path) -> None:
    rows = plan("estimate", *JOB, "--catalog", catalog, "--device", "T4", "--json").json
    assert rows["candidates"]
    assert rows["named_devices"] == []


def test_a_name_that_means_several_cards_is_answered_by_the_offers_of_one_of_them(catalog: Path) -> None:
    rows = plan("estimate", *JOB, "--catalog", catalog, "--device", "V100", "--json").json
    assert {row["device"] for row in rows["candidates"]} < {"V100", "V100-32GB", "V100S", "V100-PCIe", "V100-SXM3"}
    assert rows["candidates"]
    assert rows["named_devices"] == []
