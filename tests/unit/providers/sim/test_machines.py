"""Making, finding and deleting machines in the simulated cloud, and what its ledger says of it."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.doubles.clock import NOON
from tests.unit.providers.sim.worlds import Practice
from trainplan.providers.sim.api import RefusedError
from trainplan.providers.sim.catalogue import DISK_USD_PER_HOUR
from trainplan.providers.sim.ledger import most_at_once
from trainplan.providers.sim.values import Code


def refused(practice: Practice, **changes: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        practice.launch("r2", **changes)
    return caught.value


def test_the_same_token_gives_the_same_machine() -> None:
    practice = Practice()
    assert practice.launch() == practice.launch()
    assert practice.ledger["runs"]["r1"]["instances"] == 1


@pytest.mark.parametrize("change", [{"market": "spot"}, {"instanceType": "k80.one"}, {"labels": {}}, {"userData": {}}])
def test_the_same_token_with_other_parameters_is_refused(change: dict[str, Any]) -> None:
    practice = Practice()
    practice.launch()
    with pytest.raises(RefusedError) as caught:
        practice.launch(**change)
    assert caught.value.code == Code.TOKEN_MISMATCH


@pytest.mark.parametrize(
    "placement", [{"region": "sim-west", "zone": "sim-west-a"}, {"zone": "sim-east-b"}, {"zone": None}]
)
def test_a_token_counts_in_its_zone_or_where_none_is_named_in_its_region(placement: dict[str, Any]) -> None:
    practice = Practice()
    assert practice.launch() != practice.launch(**placement)
    assert practice.launch(**placement) == practice.launch(**placement)
    assert practice.ledger["runs"]["r1"]["max_live"] == 2


@pytest.mark.parametrize(("hours", "machines"), [(20, 1), (30, 2), (24 * 30, 2)])
def test_a_token_names_its_machine_for_a_day_after_it_has_ended(hours: int, machines: int) -> None:
    """Though nobody is shown the machine any more; later the same create makes another one, as on EC2."""
    practice = Practice()
    machine = practice.launch(lasting=timedelta(hours=1))
    practice.wait(hours=hours)
    with pytest.raises(RefusedError) as caught:
        practice.look(machine)
    assert caught.value.code == Code.NO_INSTANCE
    asked = practice.world.state.machines[machine]
    again = practice.launch(labels=dict(asked.labels), userData=dict(asked.user_data))
    assert (again == machine) is (machines == 1)
    assert practice.ledger["runs"]["r1"]["instances"] == machines
    assert practice.launch(labels=dict(asked.labels), userData=dict(asked.user_data)) == again


def test_what_was_refused_has_used_up_no_token() -> None:
    practice = Practice({"placements": [{"zone": "sim-east-a", "stock": 0}]})
    assert refused(practice).code == Code.NO_CAPACITY
    assert practice.launch("r2", zone="sim-east-b")


def test_a_zone_without_stock_names_others_that_have_some() -> None:
    practice = Practice({"stock": 1, "placements": [{"zone": "sim-east-c", "stock": 0}]})
    practice.launch()
    error = refused(practice)
    assert (error.code, error.details["elsewhere"]) == (Code.NO_CAPACITY, ["sim-east-b"])
    assert practice.launch("r3", zone=None)
    assert practice.row(practice.launch("r3", zone=None))["zone"] == "sim-east-b"
    assert refused(practice, zone=None).code == Code.NO_CAPACITY


def test_stock_comes_and_goes_by_the_rules_of_the_scenario() -> None:
    practice = Practice({"placements": [{"instance_type": "t4.one", "stock": 0, "start": "1h", "end": "2h"}]})
    practice.launch()
    practice.wait(hours=1)
    assert refused(practice).code == Code.NO_CAPACITY
    practice.wait(hours=1)
    assert practice.launch("r2")


def test_a_deleted_machine_gives_its_stock_back() -> None:
    practice = Practice({"stock": 1})
    practice.call("DeleteInstance", id=practice.launch())
    assert practice.launch("r2")


def test_quota_counts_devices_of_a_region_family_and_market() -> None:
    practice = Practice({"quota": 5, "quotas": [{"region": "sim-west", "devices": 0}]})
    practice.launch(instanceType="t4.four")
    practice.launch("r3")
    error = refused(practice)
    assert (error.code, error.details["quota"]) == (Code.QUOTA, "t4-on_demand-devices/sim-east")
    assert practice.launch("r4", market="spot")
    assert practice.launch("r5", instanceType="k80.one")
    assert refused(practice, region="sim-west", zone="sim-west-a").code == Code.QUOTA
    told = practice.call("GetQuota", family="t4", market="on_demand")
    assert (told["used"], told["devices"]) == (5, 5)


@pytest.mark.parametrize(
    "change",
    [{"instanceType": "t5.one"}, {"zone": "sim-west-a"}, {"image": ""}, {"region": "nowhere"}, {"labels": 3}],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    assert refused(Practice(), **change).code == Code.BAD_PARAMETER


def test_an_operation_that_is_not_there_is_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        Practice().call("MakeCoffee")
    assert caught.value.code == Code.UNKNOWN_OPERATION


def test_lists_lag_behind_a_create() -> None:
    practice = Practice({"listing_lag": "10s"})
    machine = practice.launch()
    assert practice.ids() == []
    with pytest.raises(RefusedError):
        practice.look(machine)
    practice.wait(seconds=10)
    assert practice.ids() == [machine]
    assert len(practice.ids("ListDisks")) == len(practice.ids("ListAddresses")) == 1
    assert practice.look(machine)["id"] == machine


def test_lists_come_in_pages_and_by_label() -> None:
    practice = Practice({"page_size": 2})
    machines = [practice.launch(f"r{number}") for number in range(5)]
    practice.launch("foreign", labels={"theirs": "1"})
    asked: dict[str, Any] = {"labels": {"trainplan-run": None}}
    pages = [practice.call("ListInstances", **asked)]
    while token := pages[-1]["nextPageToken"]:
        pages.append(practice.call("ListInstances", **asked, pageToken=token))
    assert [len(page["items"]) for page in pages] == [2, 2, 1]
    assert [item["id"] for page in pages for item in page["items"]] == machines
    assert practice.ids(labels={"trainplan-run": "r3"}) == [machines[3]]


def test_deleting_takes_a_while_and_takes_along_what_came_with_it() -> None:
    practice = Practice({"deletion": ["30s", "30s"], "clean_up": ["10s", "10s"]})
    machine = practice.launch()
    practice.wait(minutes=10)
    practice.call("DeleteInstance", id=machine)
    practice.call("DeleteInstance", id=machine)
    assert practice.look(machine)["state"] == "shutting_down"
    practice.wait(seconds=30)
    assert practice.look(machine)["state"] == "terminated"
    assert practice.ledger["left"] == practice.ids("ListDisks") + practice.ids("ListAddresses")
    practice.wait(seconds=10)
    assert practice.ledger["left"] == []
    assert practice.look(machine)["why"] == "UserInitiatedDelete"


def test_a_disk_in_use_cannot_be_deleted_and_one_that_stays_must_be() -> None:
    practice = Practice({"disks_stay": True, "addresses_stay": True})
    machine = practice.launch()
    (disk,) = practice.ids("ListDisks")
    with pytest.raises(RefusedError) as caught:
        practice.call("DeleteDisk", id=disk)
    assert caught.value.code == Code.IN_USE
    practice.call("DeleteInstance", id=machine)
    practice.wait(days=1)
    (address,) = practice.ids("ListAddresses")
    assert practice.ledger["left"] == [disk, address]
    practice.call("DeleteDisk", id=disk)
    practice.call("DeleteAddress", id=address)
    practice.wait(seconds=5)
    assert practice.ledger["left"] == []


def test_the_ledger_counts_dollars_by_the_second_with_a_minimum() -> None:
    practice = Practice()
    short, long = practice.launch(), practice.launch("r2", market="spot")
    practice.wait(seconds=10)
    practice.call("DeleteInstance", id=short)
    practice.wait(minutes=20)
    practice.call("DeleteInstance", id=long)
    practice.wait(hours=1)
    assert Decimal(practice.row(short)["usd"]) == Decimal("0.5") / 60
    assert Decimal(practice.row(long)["usd"]) == Decimal("0.16") * 1210 / 3600
    disk = practice.row(short.replace("i-", "disk-"))
    assert Decimal(disk["usd"]) < DISK_USD_PER_HOUR / 20
    assert Decimal(practice.ledger["usd"]) == sum(Decimal(run["usd"]) for run in practice.ledger["runs"].values())


@pytest.mark.parametrize(
    ("spans", "most"),
    [
        ([], 0),
        ([(0, 5), (5, 9)], 1),
        ([(0, 5), (4, 9)], 2),
        ([(0, None), (3, None), (1, 2)], 2),
        ([(0, 0), (0, 0)], 0),
    ],
)
def test_the_most_at_once(spans: list[tuple[int, int | None]], most: int) -> None:
    instants = [
        (NOON + timedelta(seconds=begin), None if end is None else NOON + timedelta(seconds=end))
        for begin, end in spans
    ]
    assert most_at_once(instants) == most
