"""`plan` at Azure, from the estimate to the receipt and nothing left: new GPUs and retired ones, a full region."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.azure_command import at_a_desk, machines_asked_for
from tests.desk import TINY
from tests.unit.planner.cli.command import plan
from tests.unit.providers.azure.conftest import Client

JOB = f"{TINY}checkpoint_every: 10s\n"
REGIONS = ("--region", "eastus", "--region", "westeurope")


@pytest.fixture
def desk(make_world: Callable[..., Client], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Client]:
    """A person's computer that is signed in to a double that is like this."""

    def sat(**rules: object) -> Client:
        world = make_world(**rules)
        at_a_desk(world.azure, tmp_path, monkeypatch)
        (tmp_path / "job.yaml").write_text(JOB)
        return world

    return sat


def sizes(world: Client) -> list[str]:
    """Of the machines that were asked for, in order."""
    return [body["properties"]["hardwareProfile"]["vmSize"] for body in machines_asked_for(world.azure)]


KINDS = [
    ("T4", "spot", "Standard_NC4as_T4_v3"),
    ("A100-PCIe-80GB", "spot", "Standard_NC24ads_A100_v4"),
    ("K80", "on_demand", "Standard_NC6"),
]


@pytest.mark.parametrize(("device", "market", "size"), KINDS, ids=["-".join(row[:2]) for row in KINDS])
def test_from_the_estimate_to_the_receipt_with_nothing_left(
    desk: Callable[..., Client], device: str, market: str, size: str
) -> None:
    world = desk()
    retired = device == "K80"
    words = ("--provider", "azure", "--device", device, "--market", market, *REGIONS)
    estimated = plan("estimate", "job.yaml", *words, "--json", *(("--include-retired",) if retired else ()))
    assert estimated.json["candidates"][0]["instance_type"].startswith(size)
    asked = ("job.yaml", *words, "--yes", "--max-cost", 2, "--json")
    said = plan("launch", *asked, *(("--allow-retired",) if retired else ()))
    assert (said.code, said.error) == (0, ""), said.err
    ended = json.loads(said.out)
    assert (ended["outcome"], ended["attempts"]) == ("succeeded", 1)
    assert sizes(world)[0].startswith(size)
    assert world.remaining() == []
    assert plan("cleanup", "--provider", "azure", "--dry-run", "--json").code == 0


def test_a_region_without_room_is_left_for_the_next(desk: Callable[..., Client]) -> None:
    world = desk(full=[["eastus", "*", "*"]])
    words = ("--provider", "azure", "--device", "T4", "--market", "on_demand", *REGIONS)
    said = plan("launch", "job.yaml", *words, "--yes", "--max-cost", 2, "--json")
    assert said.code == 0, said.err
    assert len(sizes(world)) == 2
    assert world.remaining() == []


def test_what_is_retired_is_not_launched_unless_it_is_named(desk: Callable[..., Client]) -> None:
    world = desk()
    said = plan("launch", "job.yaml", "--provider", "azure", "--device", "K80", *REGIONS, "--yes")
    assert said.code == 3
    assert "azure retired Standard_NC6 (K80) on 2023-09-06, take Standard_NC4as_T4_v3" in said.hint
    assert world.calls("PUT") == []
