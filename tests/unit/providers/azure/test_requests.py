"""What a launch sends, whole, as a person reads it: golden files, and what Azure's own models say of it."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import TODAY, a_job
from tests.conftest import Golden
from tests.contract.azure import DIGEST, PUBLIC_KEY, a_provider
from tests.doubles.azure.compute import types_file
from tests.doubles.azure.life import start_up_of
from tests.doubles.azure.rules import PRINCIPAL, SUBSCRIPTION
from tests.doubles.azure.wire import SdkModels, Types, WireError
from tests.doubles.clock import NOON
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.offers import Market, Offer, OfferQuery
from trainplan.providers.agent.spec import File, read_spec
from trainplan.providers.azure.deadline import timer_of
from trainplan.providers.azure.provider import AzureProvider
from trainplan.providers.azure.resolution import AzureResolution, TrustedLaunch
from trainplan.providers.base import LABEL_DEADLINE, LaunchRequest, RunId, VendorRequest
from trainplan.providers.errors import BadRequestError

HPC = "microsoft-dsvm:ubuntu-hpc:2204:22.04.2026102101"
RESOLUTION = AzureResolution(
    image_digest=DIGEST,
    run_uri="azblob://trainplan0123456789abcd/trainplan/runs/261121-0badcafe",
    run_region="eastus",
    boot_deadline=NOON + timedelta(minutes=45),
    subscription=SUBSCRIPTION,
    identity=f"/subscriptions/{SUBSCRIPTION}/resourceGroups/trainplan/providers/Microsoft.ManagedIdentity"
    "/userAssignedIdentities/trainplan-machine",
    principal=PRINCIPAL,
    machine_role="dcb58a0b-ec22-5b56-89c4-85acfe366c10",
    image=HPC,
    trusted_launch=TrustedLaunch.VTPM,
    ssh_key=PUBLIC_KEY,
)
KINDS = [
    ("t4-on-demand", "Standard_NC4as_T4_v3", Market.ON_DEMAND),
    ("t4-spot", "Standard_NC4as_T4_v3", Market.SPOT),
    ("a100-spot", "Standard_NC24ads_A100_v4", Market.SPOT),
]
BASE = "azure/t4-on-demand.json"


class Here:
    """No double: nothing is asked for what a launch sends."""

    options: dict[str, str] = {"subscription": SUBSCRIPTION}  # noqa: RUF012
    environment: dict[str, str] = {}  # noqa: RUF012

    def now(self) -> Any:
        return NOON

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)

    def bucket(self) -> Any:
        raise AssertionError


def a_pure_provider(home: Path, **options: str) -> AzureProvider:
    return a_provider(home, Here(), **options)  # type: ignore[arg-type]


def offer_of(instance_type: str, market: Market, region: str = "eastus") -> Offer:
    """As the catalog has it, at prices that do not move when the catalog's do."""
    with Catalog.open() as catalog:
        wanted = OfferQuery(
            providers=frozenset({"azure"}), regions=frozenset({region}), instance_types=frozenset({instance_type}),
            include_retired=True,
        )  # fmt: skip
        known = catalog.offers(wanted, TODAY)[0]
    prices = {Market.SPOT: Decimal("0.21"), Market.ON_DEMAND: Decimal("0.526")}
    return replace(known, market=market, usd_per_hour=prices[market], on_demand_usd_per_hour=Decimal("0.526"))


def a_request(offer: Offer, **changes: Any) -> LaunchRequest:
    made = LaunchRequest(
        run_id=RunId("261121-0badcafe"), attempt=1, offer=offer, job=a_job(),
        deadline=NOON + timedelta(hours=8), client="0123456789abcdef", resolution=RESOLUTION,
    )  # fmt: skip
    return replace(made, **changes)


def create_of(calls: list[VendorRequest]) -> dict[str, Any]:
    (create,) = [call for call in calls if call.operation == "PUT virtualMachines"]
    body = create.parameters["body"]
    assert isinstance(body, dict)
    return body


def readable(calls: list[VendorRequest]) -> str:
    """The calls with their long bodies by their hash, and what the machine is told decoded."""
    rows = []
    for call in calls:
        given: dict[str, Any] = json.loads(json.dumps(call.parameters))
        for name in ("Body", "SHA256", "Bytes"):
            if name in given:
                given[name] = f"({name} of {given['Path'].rpartition('/')[2]})"
        if call.operation == "PUT virtualMachines":
            system = given["body"]["properties"]["osProfile"]
            system["customData"] = start_up_of(given["body"])
        rows.append({"service": call.service, "operation": call.operation, "parameters": given})
    return json.dumps(rows, indent=1) + "\n"


@pytest.mark.parametrize(("name", "instance_type", "market"), KINDS, ids=[kind[0] for kind in KINDS])
def test_a_launch_sends_this(name: str, instance_type: str, market: Market, tmp_path: Path, golden: Golden) -> None:
    provider = a_pure_provider(tmp_path)
    run = a_request(offer_of(instance_type, market))
    calls = list(provider.requests(run))
    assert calls == list(provider.requests(run))
    base = readable(list(provider.requests(a_request(offer_of(*KINDS[0][1:])))))
    if name == KINDS[0][0]:
        golden.check(BASE, base)
    else:
        golden.check_difference(f"azure/{name}.diff", readable(calls), BASE, base)


@pytest.mark.parametrize(("name", "instance_type", "market"), KINDS, ids=[kind[0] for kind in KINDS])
def test_azures_own_models_and_types_take_it(name: str, instance_type: str, market: Market, tmp_path: Path) -> None:
    del name
    body = create_of(list(a_pure_provider(tmp_path).requests(a_request(offer_of(instance_type, market)))))
    SdkModels("azure.mgmt.compute", "VirtualMachine").check(body)
    file = types_file()
    if file is not None:
        Types(file, "Microsoft.Compute/virtualMachines").check(body)


def test_microsofts_types_are_looked_at() -> None:
    """They say what is required, which the models do not."""
    file = types_file()
    if file is None:
        pytest.skip("needs TRAINPLAN_SHARED for Microsoft's description of the API")
    with pytest.raises(WireError, match="location"):
        Types(file, "Microsoft.Compute/virtualMachines").check({"properties": {}})


@pytest.mark.parametrize(
    "wrong",
    [{"spotty": True}, {"priority": "Spotty"}, {"vmId": "x"}, {"storageProfile": {"osDisk": {"diskSizeGB": "64"}}}],
)
def test_azures_models_refuse_what_is_wrong(wrong: dict[str, Any]) -> None:
    with pytest.raises(WireError):
        SdkModels("azure.mgmt.compute", "VirtualMachine").check({"location": "x", "properties": wrong})


def test_everything_goes_with_its_machine(tmp_path: Path) -> None:
    body = create_of(list(a_pure_provider(tmp_path).requests(a_request(offer_of(KINDS[1][1], Market.SPOT)))))
    properties = body["properties"]
    (interface,) = properties["networkProfile"]["networkInterfaceConfigurations"]
    address = interface["properties"]["ipConfigurations"][0]["properties"]["publicIPAddressConfiguration"]
    rows = [properties["storageProfile"]["osDisk"], interface["properties"], address["properties"]]
    assert [row["deleteOption"] for row in rows] == ["Delete"] * 3
    assert (properties["priority"], properties["evictionPolicy"]) == ("Spot", "Delete")
    assert properties["billingProfile"]["maxPrice"] == 0.526


def test_spot_without_a_known_price_of_on_demand_is_not_capped(tmp_path: Path) -> None:
    offer = replace(offer_of(KINDS[1][1], Market.SPOT), on_demand_usd_per_hour=None)
    body = create_of(list(a_pure_provider(tmp_path).requests(a_request(offer))))
    assert body["properties"]["billingProfile"] == {"maxPrice": -1.0}


def test_nothing_comes_in(tmp_path: Path) -> None:
    calls = list(a_pure_provider(tmp_path).requests(a_request(offer_of(KINDS[0][1], Market.ON_DEMAND))))
    (rules,) = [call.parameters["body"] for call in calls if call.operation == "PUT networkSecurityGroups"]
    assert isinstance(rules, dict)
    assert [rule["properties"]["access"] for rule in rules["properties"]["securityRules"]] == ["Deny"]
    assert create_of(calls)["properties"]["osProfile"]["linuxConfiguration"]["disablePasswordAuthentication"] is True


def test_the_machine_is_told_when_and_how_to_end(tmp_path: Path) -> None:
    run = a_request(offer_of(KINDS[0][1], Market.ON_DEMAND))
    calls = list(a_pure_provider(tmp_path).requests(run))
    body = create_of(calls)
    told = start_up_of(body)
    assert told == {"run": run.run_id, "attempt": "1", "deadline": run.deadline.isoformat()}
    assert body["tags"][LABEL_DEADLINE] == run.deadline.isoformat()
    (spec,) = [call for call in calls if str(call.parameters.get("Path", "")).endswith("spec.json")]
    end = read_spec(base64.b64decode(str(spec.parameters["Body"])).decode()).end
    group = "trainplan-261121-0badcafe-1"
    assert end == {"kind": "azure_group", "subscription": SUBSCRIPTION, "group": group, "machine": group}
    digest = hashlib.sha256(base64.b64decode(str(spec.parameters["Body"]))).hexdigest()
    started = base64.b64decode(body["properties"]["osProfile"]["customData"]).decode()
    assert digest in started
    (identity,) = body["identity"]["userAssignedIdentities"]
    assert f'\\"identity\\": \\"{identity}\\"' in started


def test_azure_ends_it_after_its_own_deadline(tmp_path: Path) -> None:
    run = a_request(offer_of(KINDS[0][1], Market.ON_DEMAND))
    provider = a_pure_provider(tmp_path)
    last = list(provider.requests(run))[-1]
    body = last.parameters["body"]
    assert isinstance(body, dict)
    assert last.operation == "POST virtualMachinesSubmitDeallocate"
    assert body["schedule"]["deadLine"] == timer_of(run).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert provider.timers(run).cloud == timer_of(run) > run.deadline == provider.timers(run).machine
    assert "create" in provider.timers(run).gap


def test_without_the_clouds_timer_only_the_machines_is_promised(tmp_path: Path) -> None:
    run = a_request(offer_of(KINDS[0][1], Market.ON_DEMAND))
    provider = a_pure_provider(tmp_path, cloud_timer="none")
    assert provider.timers(run).cloud is None
    assert list(provider.requests(run))[-1].operation == "PUT virtualMachines"


def test_who_may_not_grant_launches_without_the_grant(tmp_path: Path) -> None:
    run = a_request(offer_of(KINDS[0][1], Market.ON_DEMAND), resolution=replace(RESOLUTION, machine_role=""))
    operations = [call.operation for call in a_pure_provider(tmp_path).requests(run)]
    assert "PUT roleAssignments" not in operations
    assert "PUT virtualMachines" in operations


def test_what_was_not_looked_up_is_not_guessed(tmp_path: Path) -> None:
    bare = a_request(offer_of(KINDS[0][1], Market.ON_DEMAND), resolution=None)
    with pytest.raises(BadRequestError, match="was not looked up"):
        a_pure_provider(tmp_path).requests(bare)


def test_the_disk_has_room_for_the_data_twice(tmp_path: Path) -> None:
    provider, offer = a_pure_provider(tmp_path), offer_of(KINDS[0][1], Market.ON_DEMAND)
    data = (File(path="data/c", uri="", to="data/c", sha256="0" * 64, size_bytes=100 * 2**30),)
    sizes = [
        create_of(list(provider.requests(run)))["properties"]["storageProfile"]["osDisk"]["diskSizeGB"]
        for run in (a_request(offer), a_request(offer, data=data))
    ]
    assert sizes == [128, 364]


def test_an_image_of_the_persons_own_is_taken_by_its_id(tmp_path: Path) -> None:
    image = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/g/providers/Microsoft.Compute/images/mine"
    provider = a_pure_provider(tmp_path, image=image)
    run = a_request(
        offer_of("Standard_NC6s_v3", Market.ON_DEMAND, "westeurope"), resolution=replace(RESOLUTION, image=image)
    )
    body = create_of(list(provider.requests(run)))
    assert body["properties"]["storageProfile"]["imageReference"] == {"id": image}
