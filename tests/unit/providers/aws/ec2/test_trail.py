"""When a machine ended that EC2 has forgotten, by CloudTrail's history of events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.contract.aws import TimedAws
from tests.contract.harness import Ask, launched, let_show, request
from tests.doubles.aws import remote
from tests.doubles.clock import NOON
from tests.unit.providers.aws.ec2.placements import on
from trainplan.providers.aws.trail import MOST_PAGES, ended_at
from trainplan.providers.errors import InstanceNotFoundError

ID, OTHER = "i-0123456789abcdef0", "i-0fedcba9876543210"


def test_a_call_that_ended_a_machine_is_found_for_90_days_and_one_that_came_later_is_not_it(
    provider: TimedAws, double: remote.Double
) -> None:
    ref = launched(provider, request(provider)).ref
    let_show(provider)
    at = double.now()
    provider.delete(ref)
    provider.sleep(60)
    provider.delete(ref)
    assert provider.ended_at(ref) is None, "it is 15 minutes behind"
    provider.sleep(2 * 3600)
    with pytest.raises(InstanceNotFoundError):
        provider.get(ref)
    told = provider.ended_at(ref)
    assert told is not None
    assert abs(told - at) <= timedelta(seconds=1)
    provider.sleep(timedelta(days=91).total_seconds())
    assert provider.ended_at(ref) is None


def test_a_spot_machine_that_was_taken_back_is_found(provider: TimedAws, double: remote.Double) -> None:
    ref = launched(provider, on(provider, "g4dn.xlarge", "spot")).ref
    double.sleep(60)
    at = double.now()
    double.ask("reclaim", id=ref.id)
    double.sleep(7200)
    told = provider.ended_at(ref)
    assert told is not None
    assert abs(told - at) <= timedelta(seconds=1)
    assert provider.was_taken_back(ref)
    assert not provider.was_taken_back(replace(ref, id=OTHER))


def test_a_machine_that_powered_itself_off_has_left_no_event(provider: TimedAws, double: remote.Double) -> None:
    ref = launched(provider, request(provider, Ask(behaviour="finish"))).ref
    double.sleep(7200)
    (row,) = [row for row in double.ask("ledger") if row["id"] == ref.id]
    assert (row["ended_at"] is not None, provider.ended_at(ref)) == (True, None)


def terminated(instance_id: str = ID, before: str = "running", second: int = 5, **more: Any) -> dict[str, Any]:
    item = {"instanceId": instance_id, "previousState": {"name": before}}
    told = {"eventName": "TerminateInstances", "eventTime": f"2026-11-21T12:00:{second:02}Z"}
    return {**told, "responseElements": {"instancesSet": {"items": [item]}}, **more}


def evicted(instance_id: str = ID, second: int = 9) -> dict[str, Any]:
    told = {"eventName": "BidEvictedEvent", "eventTime": f"2026-11-21T12:00:{second:02}Z"}
    return {**told, "responseElements": None, "serviceEventDetails": {"instanceIdSet": [instance_id]}}


class Trail:
    """What was asked, and one page of these events, over and over where it `goes_on`."""

    home = "us-east-1"

    def __init__(self, *records: object, goes_on: bool = False) -> None:
        self.page: dict[str, Any] = {"Events": [{"CloudTrailEvent": json.dumps(record)} for record in records]}
        self.page |= {"NextToken": "more"} if goes_on else {}
        self.asked: list[dict[str, Any]] = []

    def call(self, service: str, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        assert (service, region, operation) == ("cloudtrail", "eu-west-1", "LookupEvents")
        self.asked.append(dict(parameters))
        return self.page


@pytest.mark.parametrize(
    ("records", "second"),
    [
        ((), None),
        ((terminated(),), 5),
        ((terminated(before="terminated"), terminated(before="pending", second=3)), 3),
        ((terminated(errorCode="Client.UnauthorizedOperation"),), None),
        ((terminated(OTHER), evicted(OTHER)), None),
        ((terminated(before="shutting-down", second=30), evicted()), 9),
        ((evicted(), terminated(second=7)), 7),
        (({"eventName": "RunInstances"}, {}, 7, None, {"eventName": "BidEvictedEvent"}), None),
        ((terminated(eventTime="yesterday"), terminated(responseElements=None)), None),
    ],
)
def test_the_first_event_that_ended_it_counts(records: tuple[object, ...], second: int | None) -> None:
    told = ended_at(Trail(*records), "eu-west-1", ID, NOON)
    assert (told.second if told else None) == second


def test_a_history_without_end_is_not_read_to_its_end() -> None:
    trail = Trail(evicted(OTHER), goes_on=True)
    assert ended_at(trail, "eu-west-1", ID, NOON) is None
    assert len(trail.asked) == 2 * MOST_PAGES
    assert {key for asked in trail.asked for key in asked} == {"LookupAttributes", "StartTime", "EndTime", "NextToken"}
