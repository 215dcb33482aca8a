"""What CloudTrail still has of the end of a machine that EC2 has forgotten: 90 days of calls and of spot interruptions,
in every account without a set-up.

A machine that powers itself off leaves no event, since nobody calls EC2 (assumed).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from trainplan.providers.agent.schema import instant

if TYPE_CHECKING:
    from trainplan.providers.aws.api import Api

IS_KEPT = timedelta(days=89)
"""Event history has 90 days (LookupEvents of CloudTrail's API, by botocore's model)."""
MOST_PAGES = 20
"""Of 50 events each. AWS takes two look-ups a second in a region."""
_EVICTED = "BidEvictedEvent"
_ALIVE = ("pending", "running")


def ended_at(api: Api, region: str, instance_id: str, now: datetime) -> datetime | None:
    """When a call ended the instance, or EC2 took it back, whichever came first; None where neither is recorded. Raises
    ProviderError."""
    # Whether the event of an interruption is found by the instance's id nobody states: it names it in its details.
    wanted = (("ResourceName", instance_id), ("EventName", _EVICTED))
    events = (event for key, value in wanted for event in _events(api, region, key, value, now))
    return min((at for event in events if (at := _end_in(event, instance_id)) is not None), default=None)


def was_evicted(api: Api, region: str, instance_id: str, now: datetime) -> bool:
    """Whether EC2 took the instance back, by its record of spot interruptions. Raises ProviderError."""
    events = _events(api, region, "EventName", _EVICTED, now)
    return any(_end_in(event, instance_id) is not None for event in events)


def _events(api: Api, region: str, key: str, value: str, now: datetime) -> Iterator[Mapping[str, Any]]:
    parameters: dict[str, Any] = {
        "LookupAttributes": [{"AttributeKey": key, "AttributeValue": value}],
        "StartTime": now - IS_KEPT,
        "EndTime": now,
    }
    for _ in range(MOST_PAGES):
        page = api.call("cloudtrail", region, "LookupEvents", parameters)
        yield from page.get("Events", ())
        if not page.get("NextToken"):
            return
        parameters["NextToken"] = page["NextToken"]


def _end_in(event: Mapping[str, Any], instance_id: str) -> datetime | None:
    """When this event ended the instance; None where it did not, or cannot be read."""
    try:
        record = json.loads(event["CloudTrailEvent"])
        if record.get("errorCode"):
            return None
        if record["eventName"] == _EVICTED:
            is_its_end = instance_id in record["serviceEventDetails"]["instanceIdSet"]
        else:
            # Whoever ends what has ended already is recorded too.
            is_its_end = record["eventName"] == "TerminateInstances" and any(
                item["instanceId"] == instance_id and item["previousState"]["name"] in _ALIVE
                for item in record["responseElements"]["instancesSet"]["items"]
            )
        return instant(record["eventTime"]) if is_its_end else None
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
