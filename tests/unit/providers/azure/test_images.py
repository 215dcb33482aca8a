"""The image and the trust of each kind of machine, looked up at the double and launched there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.azure import an_offer
from tests.unit.providers.azure.conftest import Client
from tests.unit.providers.azure.test_requests import create_of, offer_of
from trainplan.pricing.offers import Market
from trainplan.providers.azure.account import Size
from trainplan.providers.azure.resolution import image_for
from trainplan.providers.base import InstanceState
from trainplan.providers.cloud.images import table
from trainplan.providers.errors import BadRequestError, CapacityError

MakeWorld = Callable[..., "Client"]
HPC, UBUNTU = ("microsoft-dsvm", "ubuntu-hpc", "2204"), ("Canonical", "ubuntu-24_04-lts", "server")
SIZES = [
    ("Standard_NC4as_T4_v3", "T4", HPC, False),
    ("Standard_NC24ads_A100_v4", "A100-PCIe-80GB", HPC, False),
    ("Standard_NC40ads_H100_v5", "H100-NVL", HPC, False),
    ("Standard_D8as_v5", "cpu", UBUNTU, True),
]


@pytest.mark.parametrize(("size", "device", "image", "secure_boot"), SIZES)
def test_each_kind_of_machine_has_its_image_and_is_trusted_as_far_as_its_driver_lets(
    world: Client, size: str, device: str, image: tuple[str, ...], secure_boot: bool
) -> None:
    offer = offer_of(size, Market.ON_DEMAND)
    assert offer.device == device
    run = world.provider.resolve(replace(world.request(), offer=offer, resolution=None, calls=()))
    properties = create_of(list(world.provider.requests(run)))["properties"]
    found = properties["storageProfile"]["imageReference"]
    assert (found["publisher"], found["offer"], found["sku"]) == image
    assert properties["securityProfile"] == {
        "securityType": "TrustedLaunch",
        "uefiSettings": {"secureBootEnabled": secure_boot, "vTpmEnabled": True},
    }
    assert world.provider.launch(run).state is InstanceState.RUNNING


def test_a_size_without_scsi_gets_the_disk_controller_that_it_has(world: Client) -> None:
    """Sizes of the sixth generation have NVMe alone, and Azure would choose SCSI where a create names none."""
    run = world.provider.resolve(
        replace(world.request(), offer=offer_of("Standard_D8s_v6", Market.ON_DEMAND), resolution=None, calls=())
    )
    properties = create_of(list(world.provider.requests(run)))["properties"]
    assert properties["storageProfile"]["diskControllerType"] == "NVMe"
    assert world.provider.launch(run).state is InstanceState.RUNNING


def test_an_image_without_nvme_is_refused_before_anything_is_made(make_world: MakeWorld) -> None:
    world = make_world(image_controllers="SCSI")
    offer = offer_of("Standard_D8s_v6", Market.ON_DEMAND)
    with pytest.raises(BadRequestError, match="Standard_D8s_v6 has disk controllers of type NVMe") as caught:
        world.provider.resolve(replace(world.request(), offer=offer, resolution=None, calls=()))
    assert "image" in caught.value.hint
    assert world.remaining() == []


def trust_of(generation: str, kind: str, size: dict[str, str]) -> str:
    """Of the image for a T4, where image and size say this of themselves."""
    told: dict[str, Any] = {
        "hyperVGeneration": generation,
        "features": [{"name": "SecurityType", "value": kind}] if kind else [],
    }
    account: Any = SimpleNamespace(
        size=lambda *_: Size(family="f", zones=(), refusal="", capabilities=size),
        newest_image=lambda _, name: (name, told),
    )
    host = next(row for row in table().hosts if row.provider == "azure" and "turing" in row.architectures)
    return image_for(account, an_offer("eastus", Market.SPOT), host).trusted


@pytest.mark.parametrize(
    ("generation", "kind", "size", "trusted"),
    [
        ("V2", "TrustedLaunch", {}, "vtpm"),
        ("V2", "TrustedLaunchSupported", {"HyperVGenerations": "V1,V2"}, "vtpm"),
        ("V2", "TrustedLaunchSupported", {"TrustedLaunchDisabled": "False"}, "vtpm"),
        ("V2", "TrustedLaunchSupported", {"TrustedLaunchDisabled": "True"}, ""),
        ("V2", "", {}, ""),
        ("V1", "", {"HyperVGenerations": "V1"}, ""),
    ],
)
def test_trusted_launch_is_asked_for_where_image_and_size_have_it(
    generation: str, kind: str, size: dict[str, str], trusted: str
) -> None:
    assert trust_of(generation, kind, size) == trusted


def test_a_region_without_the_size_is_a_placement_without_room(world: Client) -> None:
    """Another placement of the plan may have it: the run does not end there."""
    there = replace(an_offer("eastus", Market.ON_DEMAND), instance_type="Standard_ND96asr_v4")
    with pytest.raises(CapacityError, match="Standard_ND96asr_v4 in eastus"):
        world.provider.resolve(replace(world.request(), offer=there, resolution=None))
