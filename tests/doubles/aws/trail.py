"""CloudTrail's history of events, of which moto has nothing: one operation, in the shape of botocore's model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.doubles.aws.world import World

CLOUDTRAIL = "cloudtrail"
LAG, KEPT = timedelta(minutes=15), timedelta(days=90)
"""Until when an event may not be there yet, and for how long it is (docs/maintainers/fidelity.md)."""
MOST = 50
_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}
_RECLAIMED = "Server.SpotInstanceTermination"


def looked_up(world: World, region: str, body: bytes) -> tuple[int, dict[str, Any]]:
    """Status and body of an answer to `LookupEvents`."""
    asked = json.loads(body)
    (attribute,) = asked["LookupAttributes"]  # "Currently the list can contain only one item"
    key, value = attribute["AttributeKey"], attribute["AttributeValue"]
    begin, end = (datetime.fromtimestamp(asked[name], UTC) for name in ("StartTime", "EndTime"))
    if end < begin:
        return _refused("InvalidTimeRangeException", "the end is before the start")
    if not 1 <= asked.get("MaxResults", MOST) <= MOST:
        return _refused("InvalidMaxResultsException", "from 1 to 50")
    begin, end = max(begin, world.now - KEPT), min(end, world.now - LAG)
    rows = [
        row for row in _events(world, region)
        if begin <= row["at"] <= end and value in (row["names"] if key == "ResourceName" else (row[key],))
    ]  # fmt: skip
    rows.sort(key=lambda row: row["at"], reverse=True)
    first = int(asked.get("NextToken", "0"))
    page = rows[first : first + asked.get("MaxResults", MOST)]
    told: dict[str, Any] = {
        "Events": [
            {
                "EventName": row["EventName"],
                "EventTime": row["at"].timestamp(),
                "Resources": [{"ResourceType": "AWS::EC2::Instance", "ResourceName": name} for name in row["names"]],
                "CloudTrailEvent": json.dumps(
                    {"eventName": row["EventName"], "eventTime": f"{row['at']:%Y-%m-%dT%H:%M:%SZ}", **row["record"]}
                ),
            }
            for row in page
        ]
    }
    return 200, told | ({"NextToken": str(first + len(page))} if first + len(page) < len(rows) else {})


def _refused(code: str, text: str) -> tuple[int, dict[str, Any]]:
    return 400, {"__type": code, "message": text}


def _events(world: World, region: str) -> Iterator[dict[str, Any]]:
    """Calls, and what EC2 took back. That a machine has powered itself off is in none; an interruption names its
    machine in its details alone."""
    for at, machine_id, state in world.terminations:
        if world.machines[machine_id].region == region:
            item = {
                "instanceId": machine_id,
                "previousState": {"code": _CODES[state], "name": state},
                "currentState": {"code": 32, "name": "shutting-down"},
            }
            record = {"errorCode": None, "responseElements": {"instancesSet": {"items": [item]}}}
            yield {"at": at, "EventName": "TerminateInstances", "names": (machine_id,), "record": record}
    for machine in world.machines.values():
        if machine.region == region and machine.ended_at is not None and machine.why.startswith(_RECLAIMED):
            details = {"requestParameters": None, "serviceEventDetails": {"instanceIdSet": [machine.id]}}
            yield {"at": machine.ended_at, "EventName": "BidEvictedEvent", "names": (), "record": details}
