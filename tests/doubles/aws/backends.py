"""moto's own models, as the world behind them changes and reads them: what reaches into moto's inside is all here."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.conftest import ROOT
from tests.doubles.aws.objects import ACCOUNT
from tests.doubles.iam_policy import Policy
from tests.faults.harness import EndedBy
from trainplan.providers.aws.setup_steps import packed

if TYPE_CHECKING:
    from tests.doubles.aws.machines import Machine
    from tests.doubles.aws.world import World
    from tests.doubles.needs import Need

REAPER, GROUP, PROFILE, SCHEDULE_ROLE = "trainplan-reaper", "trainplan", "trainplan-machine", "trainplan-schedule"
HOME = "us-east-1"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
# Public parameters and the images that they name: owner, name, size of the root disk.
PUBLIC = {
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id": (
        "ami-0d1a0000000000001",
        "898082745236",
        "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20261020",
    ),
    "/aws/service/deeplearning/ami/arm64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id": (
        "ami-0d1a0000000000002",
        "898082745236",
        "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20261009",
    ),
    "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id": (
        "ami-0cafe000000000001",
        "099720109477",
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20261101",
    ),
    "/aws/service/canonical/ubuntu/server/24.04/stable/current/arm64/hvm/ebs-gp3/ami-id": (
        "ami-0cafe000000000002",
        "099720109477",
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-arm64-server-20261101",
    ),
}
OWN_IMAGE = "ami-00f00000000000001"


def reset() -> None:
    """An account in which nothing was ever done."""
    from moto.moto_api._internal.models import moto_api_backend

    moto_api_backend.reset()


def set_up(world: World) -> None:
    """What stands in the account: images, networks, and what `plan setup` makes, as far as the scenario has it."""
    for region in world.scenario.regions:
        _images(ec2(region))
        if world.scenario.first_day or region in world.scenario.no_default_network:
            ec2(region).get_default_vpc().is_default = False
            ec2(region).subnets.clear()
    if world.scenario.bucket:
        from moto.s3.models import s3_backends

        name = f"trainplan-{ACCOUNT}-{HOME}"
        s3_backends[ACCOUNT]["aws"].create_bucket(name, HOME)
        s3_backends[ACCOUNT]["aws"].put_bucket_tagging(name, {"trainplan": "1"})
    if world.scenario.setup == "none":
        return
    from moto.iam.models import iam_backends

    iam = iam_backends[ACCOUNT]["aws"]
    standing = {PROFILE: "machine", SCHEDULE_ROLE: "schedule"}
    for role, name in (standing | {REAPER: "reaper"} if world.scenario.setup == "reaper" else standing).items():
        iam.create_role(role, TRUST, "/", None, "", [], "3600")
        iam.put_role_policy(role, "trainplan", _policy(name))
    iam.create_instance_profile(PROFILE, "/", [], [])
    iam.add_role_to_instance_profile(PROFILE, PROFILE)
    if world.scenario.setup == "reaper":
        _reaper(world)


def role_allows(profile: str, need: Need) -> bool:
    """Whether the inline policies of the role in an instance profile allow this."""
    from moto.iam.models import iam_backends

    iam = iam_backends[ACCOUNT]["aws"]
    roles = [role for row in iam.instance_profiles.values() if row.name == profile for role in row.roles]
    documents = [text for role in roles for text in role.policies.values()]
    return any(Policy(json.loads(text)).allows(need) for text in documents)


def _policy(name: str) -> str:
    """What the page on permissions lets a role do, with the bucket that is made where none is set."""
    text = (ROOT / "docs" / "permissions" / "aws" / f"{name}.json").read_text(encoding="utf-8")
    return text.replace("ACCOUNT", ACCOUNT).replace("BUCKET", f"trainplan-{ACCOUNT}-{HOME}")


def _reaper(world: World) -> None:
    function = {
        "FunctionName": REAPER, "Runtime": "python3.13", "Handler": "reaper.handler", "Timeout": 120,
        "Role": f"arn:aws:iam::{ACCOUNT}:role/{REAPER}", "Code": {"ZipFile": base64.b64encode(packed()).decode()},
    }  # fmt: skip
    functions_of(HOME).create_function(function)
    home = scheduler(HOME)
    home.create_schedule_group(GROUP, [])
    target = {"Arn": f"arn:aws:lambda:{HOME}:{ACCOUNT}:function:{REAPER}", "RoleArn": "arn:aws:iam::1:role/x"}
    home.create_schedule(
        description="", end_date=None, flexible_time_window={"Mode": "OFF"}, group_name=GROUP, kms_key_arn=None,
        name=REAPER, schedule_expression="rate(10 minutes)", schedule_expression_timezone="UTC", start_date=None,
        state="ENABLED", target=target, action_after_completion=None,
    )  # fmt: skip


def _images(backend: Any) -> None:
    from moto.ec2.models.amis import Ami

    rows = [*PUBLIC.values(), (OWN_IMAGE, ACCOUNT, "my own image with an old driver")]
    for name, owner, title in rows:
        image = Ami(
            backend, name, name=title, owner_id=owner, public=True, virtualization_type="hvm", architecture="x86_64",
            root_device_type="ebs", root_device_name="/dev/sda1", region_name=f"{backend.region_name}a",
        )  # fmt: skip
        backend.amis[name] = image
        # moto counts the snapshot behind every image as this account's; Amazon's and Canonical's are theirs.
        backend.snapshots.pop(image.ebs_snapshot.id)


def ec2(region: str) -> Any:
    from moto.ec2.models import ec2_backends

    return ec2_backends[ACCOUNT][region]


def functions_of(region: str) -> Any:
    from moto.awslambda.models import lambda_backends

    return lambda_backends[ACCOUNT][region]


def scheduler(region: str) -> Any:
    from moto.scheduler.models import scheduler_backends

    return scheduler_backends[ACCOUNT][region]


def instance(machine: Machine) -> Any:
    return ec2(machine.region).get_instance_by_id(machine.id)


def runs(machine: Machine) -> None:
    _state(instance(machine), "running", 16)


def shutting_down(machine: Machine, code: str, message: str, now: datetime) -> None:
    found = instance(machine)
    _state(found, "shutting-down", 32)
    found.plan_end = (code, message, now)
    _why(found)


def terminated(machine: Machine, *, stays: bool) -> None:
    """moto ends it with what comes with it; a disk stays where the scenario says so."""
    found = instance(machine)
    if stays:
        for _, device in found.get_block_device_mapping:
            ec2(machine.region).volumes[device.volume_id].delete_on_termination = False
            device.delete_on_termination = False
    found.terminate()
    _why(found)
    requests = ec2(machine.region).spot_instance_requests
    for request in requests.values():
        if request.instance is found:
            request.state = "closed"


def forget(machine: Machine) -> None:
    """An ended machine is shown no more."""
    machine.forgotten = True
    reservations = ec2(machine.region).reservations
    for name in [name for name, row in reservations.items() if any(one.id == machine.id for one in row.instances)]:
        del reservations[name]


def reaper_stands(world: World) -> bool:
    groups = scheduler(HOME).schedule_groups
    found = groups[GROUP].schedules.get(REAPER) if GROUP in groups else None
    stands = {row.function_name for row in functions_of(HOME).list_functions()}
    return found is not None and found.state == "ENABLED" and REAPER in stands


def tell_turns(world: World) -> None:
    """Every turn of the reaper since the last call of this, as the metrics that Lambda keeps of it."""
    from moto.cloudwatch.models import cloudwatch_backends

    metrics = cloudwatch_backends[ACCOUNT][HOME]
    for at, succeeded in world.turns[world.told_turns :]:
        of = {"Dimensions": [{"Name": "FunctionName", "Value": REAPER}], "Timestamp": at.replace(tzinfo=None)}
        rows = [{"MetricName": "Invocations", "Value": 1}, {"MetricName": "Errors", "Value": int(not succeeded)}]
        metrics.put_metric_data("AWS/Lambda", [{**of, **row} for row in rows])
    world.told_turns = len(world.turns)


def schedules(world: World) -> Iterator[tuple[datetime, Callable[[], None]]]:
    """One-time schedules that are still to come, and what each does."""
    from moto.scheduler.models import scheduler_backends

    for region, backend in list(scheduler_backends[ACCOUNT].items()):
        for group in list(backend.schedule_groups.values()):
            for row in list(group.schedules.values()):
                if row.schedule_expression.startswith("at("):
                    at = datetime.fromisoformat(row.schedule_expression[3:-1]).replace(tzinfo=UTC)
                    yield at, lambda w=world, r=region, g=group, s=row: _fires(w, r, g, s)  # type: ignore[misc]


def _fires(world: World, region: str, group: Any, schedule: Any) -> None:
    if schedule.action_after_completion == "DELETE":
        group.delete_schedule(schedule.name)
    if not world.scenario.cloud_timer_works:
        return
    for name in json.loads(schedule.target.get("Input", "{}")).get("InstanceIds", ()):
        machine = world.machines.get(name)
        if machine is not None and machine.region == region:
            text = "Client.UserInitiatedShutdown"
            world.note_termination(machine)
            world.end(machine, text, f"{text}: User initiated shutdown", EndedBy.CLOUD_TIMER)


def exists(kind: str, region: str, name: str) -> bool:
    """Whether a thing is still there, whatever any list shows."""
    backend = ec2(region)
    match kind:
        case "volume":
            return name in backend.volumes
        case "network interface":
            return name in backend.enis
        case "spot request":
            return name in backend.spot_instance_requests and backend.spot_instance_requests[name].state == "active"
        case _:
            return any(name in group.schedules for group in scheduler(region).schedule_groups.values())


def tags(kind: str, region: str, name: str) -> dict[str, str] | None:
    """The tags of a resource of EC2's; None where there is no such resource."""
    backend = ec2(region)
    there = {
        "volume": backend.volumes,
        "network-interface": backend.enis,
        "spot-instances-request": backend.spot_instance_requests,
        "security-group": {group.id: group for groups in backend.groups.values() for group in groups.values()},
        "instance": {row.id: row for rows in backend.reservations.values() for row in rows.instances},
    }
    return dict(backend.tags.get(name) or {}) if name in there[kind] else None


def _state(ec2_instance: Any, name: str, code: int) -> None:
    ec2_instance._state.name, ec2_instance._state.code = name, code


def _why(ec2_instance: Any) -> None:
    from moto.ec2.models.instances import StateReason

    code, message, at = ec2_instance.plan_end
    ec2_instance.state_reason = StateReason(message, code)
    who = "User initiated " if code.startswith("Client.") else code + " "
    ec2_instance._reason = f"{who}({at:%Y-%m-%d %H:%M:%S} GMT)"
