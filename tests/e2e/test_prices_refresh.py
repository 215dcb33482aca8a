"""The whole of `plan prices` as a person types it, the three vendors' price lists on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer

from tests.builders import TODAY
from tests.doubles.price_lists import World, aws_row, retail, serving, sku, variables
from trainplan.planner.clock import SystemClock
from trainplan.pricing.catalog import REFRESHED, Catalog
from trainplan.pricing.grades import Market
from trainplan.pricing.offers import OfferQuery

PLAN = Path(sys.executable).parent / "plan"
AWS, AZURE = "us-east-1", "eastus"
NOW = SystemClock().now()
"""The command's own clock: its lists are of this day."""


@dataclass
class Desk:
    """A command line whose price lists are `world`."""

    world: World
    home: Path
    environment: dict[str, str] = field(default_factory=dict)

    def plan(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PLAN, *arguments], env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )

    def json(self, *arguments: str) -> Any:
        done = self.plan(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def cheapest(self, *arguments: str) -> dict[str, Any]:
        job = ("--model", "vgg16", "--dataset", "cifar10")
        found: dict[str, Any] = self.json("estimate", *job, *arguments)["candidates"][0]
        return found


def _shipped(provider: str, region: str) -> list[tuple[str, str]]:
    """Machine types and on-demand prices that the package knows of a region."""
    query = OfferQuery(
        providers=frozenset({provider}), regions=frozenset({region}), markets=frozenset({Market.ON_DEMAND.value}),
        include_retired=True,
    )  # fmt: skip
    with Catalog.open() as catalog:
        return [(offer.instance_type, str(offer.usd_per_hour)) for offer in catalog.offers(query, TODAY)]


def _world() -> World:
    """The lists as they might be today: every g4dn is cheaper by the same share, so that its sizes still agree."""
    shipped = dict(_shipped("aws", AWS))
    share = 0.4 / float(shipped["g4dn.xlarge"])
    prices = shipped | {name: f"{float(usd) * share:.6g}" for name, usd in shipped.items() if name.startswith("g4dn.")}
    azure = [retail(name, float(usd)) for name, usd in _shipped("azure", AZURE)]
    azure += [retail("Standard_NC4as_T4_v3", 0.2, skuName="NC4as T4 v3 Spot", meterName="NC4as T4 v3 Spot")]
    azure += [retail("Standard_NC4as_T4_v3", 0.9, productName="NCasT4_v3 Series Windows")]
    regions = ("us-central1", "us-east1")
    return World(
        day=str(NOW.date()),
        spot={AWS: {"g4dn.xlarge": "0.1601", "p5.48xlarge": "N/A*"}},
        copy=[("tpu-v5litepod-1 1", "us-central1", "us-central1-a", "1.2", "0.31")],
        aws={AWS: [aws_row(name, usd) for name, usd in prices.items()]},
        advice={AWS: {"g4dn.xlarge": (60, 1)}},
        compute=[
            sku("N1 Predefined Instance Core running in Americas", "0.031611", *regions),
            sku("N1 Predefined Instance Ram running in Americas", "0.004237", *regions, unit="GiBy.h"),
            sku("Nvidia Tesla T4 GPU running in Americas", "0.35", *regions),
            sku("Commitment v1: T4 in Americas", "0.1", *regions),
            *_google_hosts(),
        ],
        tpu=[sku("Tpu-v3 Accelerator running in Americas", "8", group="TPU")],
        azure={AZURE: azure},
    )


def _google_hosts() -> list[dict[str, Any]]:
    """Parts of most machine types, in one region: everywhere else they would be gone."""
    skus = [
        sku(f"{name} GPU running in Americas", "0.56")
        for name in (
            "Nvidia L4",
            "Nvidia Tesla A100",
            "Nvidia Tesla A100 80GB",
            "Nvidia H100 80GB",
            "Nvidia Tesla V100",
        )
    ]
    for name in (
        "G2 Instance",
        "A2 Instance",
        "A3 Instance",
        "E2 Instance",
        "N2 Instance",
        "N2D AMD Instance",
        "C3 Instance",
    ):
        skus += [sku(f"{name} Core running in x", "0.025"), sku(f"{name} Ram running in x", "0.003", unit="GiBy.h")]
    spot = [entry | {"description": f"Spot Preemptible {entry['description']}"} for entry in skus]
    return [*skus, *spot]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    world = _world()
    nobody = {
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "no_proxy": "127.0.0.1",
    }
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "AZURE_", "GOOGLE_", "PLAN_")) and "proxy" not in name.lower()
    }
    with serving(world) as address:
        home = tmp_path / "home"
        yield Desk(world, home, kept | nobody | variables(address) | {"PLAN_HOME": str(home)})


def test_prices_are_read_anew_shown_and_used(desk: Desk) -> None:
    before = desk.cheapest("--provider", "aws", "--device", "T4", "--region", AWS)
    done = desk.plan("prices", "refresh", "aws", "--region", AWS)
    assert (done.returncode, "aws: on demand: " in done.stderr) == (0, True), done.stderr
    assert "g4dn.2xlarge in us-east-1, on demand: $0.752/h -> $0.572/h" in done.stdout
    after = desk.cheapest("--provider", "aws", "--device", "T4", "--region", AWS, "--market", "on_demand")
    assert (before["price_old"], after["price_as_of"]) == (True, str(NOW.date())), (
        "the day on which AWS published the list"
    )
    assert (after["usd_per_hour"], after["price_grade"]) == (0.4, "listed")
    spot = desk.cheapest("--provider", "aws", "--device", "T4", "--region", AWS, "--market", "spot")
    assert (spot["usd_per_hour"], spot["price_grade"], spot["planned_as"]) == (0.1601, "observed", "listed")
    assert (spot["planning_usd_per_hour"], spot["price_old"]) == (0.1601, False), "the region ranks by its own price"
    shown = {one["provider"]: one for one in desk.json("prices", "show")["providers"]}
    assert shown["aws"]["refreshed_on"] is not None
    assert set(shown["aws"]["parts"]) == {AWS, "spot by region", "Spot Advisor"}
    assert shown["aws"]["changes_since_shipped"]["cheaper"] >= 1
    assert shown["gcp"]["refreshed_on"] is None
    assert "aws-on-demand-page" in {source["id"] for source in shown["aws"]["sources"]}
    assert "since the shipped prices: " in desk.plan("prices", "show").stdout
    assert desk.plan("prices", "forget").stdout == "the shipped prices are used\n"
    assert desk.cheapest("--provider", "aws", "--device", "T4", "--region", AWS) == before


@pytest.mark.parametrize("usd", ["0.0001", "30"])
def test_a_row_that_cannot_be_true_is_shown_and_not_used(desk: Desk, usd: str) -> None:
    """One machine of a whole list is listed absurdly."""
    rows = [row for row in desk.world.aws[AWS] if row["Instance Type"] != "g4dn.xlarge"]
    desk.world.aws[AWS] = [*rows, aws_row("g4dn.xlarge", usd)]
    done = desk.plan("prices", "refresh", "aws", "--region", AWS)
    assert done.returncode == 0, done.stderr
    assert "held back, since they cannot be true: 1 prices; plan prices show --held" in done.stdout
    arguments = ("--provider", "aws", "--device", "T4", "--region", AWS, "--market", "on_demand")
    assert desk.cheapest(*arguments)["usd_per_hour"] == 0.526
    (held,) = desk.json("prices", "show", "--held")
    assert (held["name"], held["usd_per_hour"], held["known_usd_per_hour"]) == (
        "aws/us-east-1/g4dn.xlarge/on_demand", float(usd), 0.526,
    )  # fmt: skip
    assert held["name"] in desk.plan("prices", "show", "--held").stdout
    accepted = desk.plan("prices", "accept", held["name"])
    assert (accepted.returncode, "used from now on" in accepted.stdout) == (0, True), accepted.stderr
    assert desk.plan("prices", "show", "--held").stdout == "no price is held back\n"
    used = desk.json("estimate", "--model", "vgg16", "--dataset", "cifar10", *arguments)["candidates"]
    assert float(usd) in [row["usd_per_hour"] for row in used if row["instance_type"] == "g4dn.xlarge"]


def test_a_name_that_is_not_held_is_refused(desk: Desk) -> None:
    done = desk.plan("prices", "accept", "aws/us-east-1/g4dn.xlarge/on_demand")
    assert done.returncode == 2
    assert "no held price has the name" in done.stderr
    assert desk.plan("prices", "accept", "ibm/x").returncode == 2


def test_azure_in_pages_without_its_traps(desk: Desk) -> None:
    done = desk.json("prices", "refresh", "azure", "--region", AZURE)
    assert "Standard_NC4as_T4_v3" in done["providers"][0]["read"]
    assert all("armSkuName" in path for path in desk.world.requests)
    found = desk.cheapest("--provider", "azure", "--device", "T4", "--region", AZURE, "--market", "spot")
    assert (found["instance_type"], found["usd_per_hour"], found["price_grade"]) == (
        "Standard_NC4as_T4_v3", 0.2, "listed",
    )  # fmt: skip


def test_google_needs_a_key_and_holds_back_half_a_list(desk: Desk) -> None:
    done = desk.plan("prices", "refresh", "gcp")
    assert done.returncode == 4
    assert "would be gone" in done.stdout
    assert "plan prices refresh gcp --accept" in done.stderr
    assert set(desk.world.keys) == {"key-of-a-test"}
    assert not (desk.home / REFRESHED).exists()
    assert desk.plan("prices", "refresh", "gcp", "--accept").returncode == 0
    found = desk.cheapest("--provider", "gcp", "--device", "T4", "--market", "on_demand")
    assert (found["instance_type"], found["usd_per_hour"]) == ("n1-standard-4+1xT4", 0.539999)
    assert "key-of-a-test" not in (desk.home / REFRESHED).read_bytes().decode("latin-1")


def test_google_without_a_key_is_read_from_a_copy_that_says_so(desk: Desk) -> None:
    del desk.environment["PLAN_GCP_API_KEY"]
    desk.environment |= {"NO_GCE_CHECK": "true", "HOME": str(desk.home), "CLOUDSDK_CONFIG": str(desk.home)}
    done = desk.plan("prices", "refresh", "gcp")
    assert (done.returncode, "gcp: copy of Google's list: 2 prices" in done.stderr) == (0, True), done.stderr
    found = desk.cheapest("--provider", "gcp", "--device", "TPU v5e", "--market", "spot", "--region", "us-central1")
    assert (found["usd_per_hour"], found["price_grade"], found["price_as_of"]) == (0.31, "copied", str(NOW.date()))


@pytest.mark.parametrize(
    ("status", "content", "message"),
    [
        (200, b"<html><body>sign in</body></html>", "a web page came"),
        (200, b'{"manifest": {}, "regions": {}}', "format has changed"),
        (404, b"gone", "answers 404"),
    ],
)
def test_a_list_that_is_none_leaves_what_was_known(desk: Desk, status: int, content: bytes, message: str) -> None:
    desk.world.aws["us-west-2"] = desk.world.aws[AWS]
    desk.world.broken["Oregon"] = (status, content)
    (done,) = desk.json("prices", "refresh", "aws", "--region", AWS, "--region", "us-west-2")["providers"]
    assert done["read"] == [AWS, "spot by region", "Spot Advisor"]
    assert [part["part"] for part in done["failed"]] == ["us-west-2"]
    assert message in done["failed"][0]["reason"]
    assert "us-west-2: not read on" in desk.plan("prices", "show").stdout
    kept = desk.cheapest("--provider", "aws", "--device", "T4", "--region", "us-west-2", "--market", "on_demand")
    assert (kept["usd_per_hour"], kept["price_old"]) == (0.526, True)


def test_an_interrupted_download_is_no_price_list(desk: Desk) -> None:
    desk.world.cut_off.add("index.json")
    done = desk.plan("prices", "refresh", "aws", "--region", AWS)
    assert "cut off after" in done.stdout


def test_with_an_account_the_vendors_own_library_asks(desk: Desk) -> None:
    """moto knows offerings, answers every spot price with a stub of nothing, and has no price queries."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        desk.environment |= {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
        }
        (done,) = desk.json("prices", "refresh", "aws", "--region", AWS)["providers"]
    finally:
        server.stop()
    assert done["read"] == [AWS, "spot by region", f"{AWS} spot", "Spot Advisor"]
    assert done["failed"] == [], "what the account is not told is read from the list that everybody may read"
    with Catalog.open(desk.home / REFRESHED) as catalog:
        query = OfferQuery(providers=frozenset({"aws"}), regions=frozenset({AWS}), include_retired=True)
        every = catalog.offers(query, TODAY)
    assert min(offer.usd_per_hour for offer in every) > Decimal("0.01"), (
        "the stub's spot prices of nothing are not used"
    )
    offers = {offer.instance_type: offer for offer in every}
    assert offers["g4dn.xlarge"].availability.offered is True
    assert offers["p3.2xlarge"].availability.offered is False
    assert all(zone.startswith(AWS) for zone in offers["g4dn.xlarge"].zones)
    assert offers["g4dn.xlarge"].zones


def test_a_provider_that_is_none(desk: Desk) -> None:
    done = desk.plan("prices", "refresh", "digitalocean")
    assert (done.returncode, "nothing here reads the price list of 'digitalocean'" in done.stderr) == (2, True)
