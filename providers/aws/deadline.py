"""The standing reaper: a Lambda function that terminates every machine whose tag `expires-at` says that it is over, and
every machine of ours while the account's alarm says so (trainplan.providers.aws.stop).

It runs as this file alone (trainplan.providers.aws.setup_steps packs it), so it imports nothing of ours.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

OURS, EXPIRES = "trainplan", "expires-at"
ROLE, STOP = "trainplan-reaper", "trainplan-stop"  # its own role, and the policy on it with which the alarm ends runs
LIVE = ["pending", "running", "stopping", "stopped"]
THREADS = 8
CLOSED = "explicit deny in a service control policy"  # of a region: nothing of ours can be made or ended there


def handler(event: dict[str, str], context: object) -> dict[str, list[str]]:
    """Look in every region that is open to the account; `event["time"]` is the instant of the schedule.

    Raises RuntimeError, once all is done that can be, where something was refused: it then counts as an error.
    """
    del context
    import boto3

    session = boto3.Session()
    regions = [row["RegionName"] for row in session.client("ec2").describe_regions()["Regions"]]
    clients = [session.client("ec2", region_name=region) for region in regions]  # no thread may make one
    now = datetime.fromisoformat(event["time"])
    stopped, failed = _stopped(session)
    with ThreadPoolExecutor(THREADS) as pool:
        told = list(pool.map(lambda ec2: _reaped(ec2, now, stopped), clients))
    ended = [name for names, _ in told for name in names]
    failed += [f"{region}: {why}" for region, (_, whys) in zip(regions, told, strict=True) for why in whys]
    if failed:
        raise RuntimeError(f"terminated {ended}; {'; '.join(failed)}")
    return {"terminated": ended}


def _stopped(session: Any) -> tuple[bool, list[str]]:
    """Whether the alarm ends what runs, and why that is not known: then only what is over ends."""
    try:
        attached = session.client("iam").list_attached_role_policies(RoleName=ROLE)["AttachedPolicies"]
    except Exception as error:  # noqa: BLE001  what is over has to end all the same
        return False, [str(error)]
    return any(policy["PolicyName"] == STOP for policy in attached), []


def _reaped(ec2: Any, now: datetime, stopped: bool) -> tuple[list[str], list[str]]:
    """The machines of a region that were told to end, and what was refused."""
    ours = [{"Name": f"tag:{OURS}", "Values": ["1"]}, {"Name": "instance-state-name", "Values": LIVE}]
    ended, failed = [], []
    try:
        for page in ec2.get_paginator("describe_instances").paginate(Filters=ours):
            for machine in (one for row in page["Reservations"] for one in row["Instances"]):
                try:
                    if stopped or _is_over(machine, now):
                        ec2.terminate_instances(InstanceIds=[machine["InstanceId"]])
                        ended.append(machine["InstanceId"])
                except Exception as error:  # noqa: BLE001  the others have to end all the same
                    failed.append(f"{machine['InstanceId']}: {error}")
    except Exception as error:  # noqa: BLE001  and so have the other regions'
        failed += [] if CLOSED in str(error) else [str(error)]
    return ended, failed


def _is_over(machine: dict[str, Any], now: datetime) -> bool:
    """Raises ValueError for a tag that is no instant."""
    tags = {tag["Key"]: tag["Value"] for tag in machine["Tags"]}
    return EXPIRES in tags and datetime.fromisoformat(tags[EXPIRES]) <= now
