"""K80, P100 and V100: refused with date and successor; who insists gets an image that has their driver."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.unit.planner.cli.command import plan
from tests.unit.providers.azure.conftest import Client
from tests.unit.providers.azure.test_requests import create_of, offer_of
from tests.unit.providers.cloud.booted import HERE, files
from trainplan.pricing.offers import Market
from trainplan.providers.base import InstanceState, PreflightState
from trainplan.providers.errors import BadRequestError

HPC_V100 = ("microsoft-dsvm", "ubuntu-hpc", "2204-v100")
JAMMY = ("Canonical", "0001-com-ubuntu-server-jammy", "22_04-lts")
RETIRED = [
    ("Standard_NC6", "K80", "2023-09-06", "Standard_NC4as_T4_v3", JAMMY, "470"),
    ("Standard_NC6s_v2", "P100", "2023-09-06", "Standard_NC4as_T4_v3", HPC_V100, ""),
    ("Standard_NC6s_v3", "V100-PCIe", "2025-09-30", "Standard_NC24ads_A100_v4", HPC_V100, ""),
]
REGION = "westeurope"


@pytest.mark.parametrize(("size", "device", "date", "successor"), [row[:4] for row in RETIRED])
def test_without_the_flag_it_is_refused_with_its_date_and_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str, device: str, date: str, successor: str
) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    words = ("--provider", "azure", "--device", device, "--region", REGION, "--market", "on_demand")
    said = plan("estimate", ROOT / "examples" / "digits-vgg.yaml", *words)
    assert said.code == 3
    assert f"azure retired {size} ({device}) on {date}, take {successor}" in said.out
    assert "--allow-retired" in said.out
    shown = plan("estimate", ROOT / "examples" / "digits-vgg.yaml", *words, "--include-retired", "--json")
    cycle = next(row["lifecycle"] for row in shown.json["candidates"] if row["instance_type"] == size)
    assert (cycle["state"], cycle["date"], cycle["successor"]) == ("retired", date, successor)


@pytest.mark.parametrize(("size", "device", "date", "successor", "image", "driver"), RETIRED)
def test_with_the_flag_it_has_an_image_with_a_driver_for_it(
    world: Client, size: str, device: str, date: str, successor: str, image: tuple[str, ...], driver: str
) -> None:
    offer = offer_of(size, Market.ON_DEMAND, REGION)
    assert offer.device == device
    bare = replace(world.request(), offer=offer, resolution=None, calls=())
    run = world.provider.resolve(bare)
    properties = create_of(list(world.provider.requests(run)))["properties"]
    found = properties["storageProfile"]["imageReference"]
    assert (found["publisher"], found["offer"], found["sku"]) == image
    assert found["version"] != "latest"
    assert "securityProfile" not in properties, "none of these sizes has trusted launch"
    told = base64.b64decode(properties["osProfile"]["customData"]).decode()
    assert f"branch={driver}\n" in files(told)[f"{HERE}/start.sh"]
    assert world.provider.launch(run).state is InstanceState.RUNNING
    checks = {check.name: check for check in world.provider.preflight(offer).checks}
    assert checks["lifecycle"].state is PreflightState.UNKNOWN
    assert date in checks["lifecycle"].detail
    assert successor in checks["lifecycle"].detail


def test_an_image_that_the_size_cannot_boot_is_told_before_anything_is_made(world: Client) -> None:
    """NC has virtual hardware of the first generation alone; the table's images for newer GPUs are of the second."""
    offer = replace(offer_of("Standard_NC6", Market.ON_DEMAND, REGION), device="V100")
    with pytest.raises(BadRequestError, match="generation V1") as caught:
        world.provider.resolve(replace(world.request(), offer=offer, resolution=None))
    assert "image" in caught.value.hint
    assert world.remaining() == []
