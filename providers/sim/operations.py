"""The API of the simulated cloud: one method for each operation. Parameters and replies are JSON values."""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trainplan.pricing.grades import Market
from trainplan.providers.base import LABEL_DEADLINE, LABEL_RUN
from trainplan.providers.cloud.labels import instant
from trainplan.providers.sim.api import RefusedError
from trainplan.providers.sim.catalogue import ADDRESS_USD_PER_HOUR, DISK_GB, DISK_GB_USD_PER_HOUR, TYPES, ZONES
from trainplan.providers.sim.draws import between
from trainplan.providers.sim.ledger import SENT, ledger
from trainplan.providers.sim.life import ended_machine
from trainplan.providers.sim.stock import Spot, check_quota, choose_zone, devices_used, has_room, quota_name, quota_of
from trainplan.providers.sim.training import MODEL, START_SECONDS, model_bytes
from trainplan.providers.sim.values import Code, Course, Kind, MachineState, SimMachine, Thing, Why
from trainplan.workloads.output_files import STOPPED_FOR_GOOD

if TYPE_CHECKING:
    from trainplan.providers.sim.scenario import Scenario
    from trainplan.providers.sim.world import World


_RECORDS_ARE_KEPT = timedelta(days=14)
"""As long as Compute Engine keeps its operations at least (docs/maintainers/fidelity.md)."""
_DELETION_SECONDS = 3
"""How long the deletion of a disk or an address takes (assumed, docs/maintainers/fidelity.md)."""
_BOOT_SECONDS = 40.0, 90.0
"""Of a machine whose job was not estimated (made up)."""
_LEAST_BOOT_SECONDS = 10.0
_BOOT_SPREAD = 0.1
"""How far a boot is from what was estimated, at most (made up)."""


class Operations:
    """The operations of one simulated cloud."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._by_name: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "GetCosts": self._costs,
            "GetIdentity": self._identity,
            "GetImage": self._image,
            "GetQuota": self._quota,
            "GetSpotPlacement": self._spot_placement,
            "RunInstance": self._run_instance,
            "CreateSchedule": self._create_schedule,
            "DescribeInstance": self._describe,
            "GetRecord": self._record,
            "GetConsole": self._console,
            "StopTraining": self._stop_training,
            "DeleteInstance": self._delete_instance,
            "ListInstances": self._list_instances,
            "PutObject": self._put_object,
            "GetObject": self._get_object,
            "ListObjects": self._list_objects,
            "DeleteObjects": self._delete_objects,
        }
        for kind in Kind:
            self._by_name[list_operation(kind)] = self._lister(kind)
            self._by_name[delete_operation(kind)] = self._deleter(kind)

    def carry_out(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out an operation by its name and return its reply. Raises RefusedError."""
        if operation not in self._by_name:
            raise RefusedError(Code.UNKNOWN_OPERATION, f"there is no operation {operation}")
        try:
            return self._by_name[operation](parameters)
        # Wrong parameters raise these where they are first used; a client gets an error of the cloud, as of a vendor.
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RefusedError(Code.BAD_PARAMETER, f"{operation}: {type(error).__name__}: {error}") from error

    def _identity(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"account": "practice"}

    def _costs(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return ledger(self._world.state, self._world.now)

    def _image(self, request: Mapping[str, Any]) -> dict[str, Any]:
        region, name = _region(request), str(request["name"])
        return {"image": f"img-{_digest(region, name)[:12]}"}

    def _quota(self, request: Mapping[str, Any]) -> dict[str, Any]:
        region, family, market = _region(request), str(request["family"]), Market(request["market"]).value
        used = devices_used(self._world.state.machines.values(), region, family, market)
        limit = quota_of(self._world.scenario, region, family, market)
        return {"quota": quota_name(region, family, market), "devices": limit, "used": used}

    def _spot_placement(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Whether spot capacity is available now. Like a vendor's placement score, the answer is no promise."""
        world, region = self._world, _region(request)
        zones = (str(request["zone"]),) if request.get("zone") else ZONES[region]
        placements = [
            Spot(region=region, zone=zone, instance_type=str(request["instanceType"]), market=Market.SPOT)
            for zone in zones
        ]
        machines = world.state.machines.values()
        return {"likely": has_room(world.scenario, placements, machines, world.age)}

    def _run_instance(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Create a machine. The same token gives the same machine, dead or alive, until the cloud forgets the token.

        With other parameters a used token is refused. As on EC2, a token is valid in the zone that the request names,
        else in the region; elsewhere the same token creates another machine (docs/maintainers/fidelity.md).
        """
        world, region, token = self._world, _region(request), str(request["clientToken"])
        fingerprint = _digest(json.dumps(request, sort_keys=True))
        name, instance = self._named_by(str(request.get("zone") or region), token)
        if instance is not None:
            if instance.fingerprint != fingerprint:
                raise RefusedError(Code.TOKEN_MISMATCH, f"the token {token} was used with other parameters for {name}")
            return _description_of(instance)
        machine = self._new_machine(name, fingerprint, request, self._placement(request, region))
        world.put(machine)
        disk_usd_per_hour = Decimal(str(request.get("diskGb") or DISK_GB)) * DISK_GB_USD_PER_HOUR
        for kind, rate in ((Kind.DISK, disk_usd_per_hour), (Kind.ADDRESS, ADDRESS_USD_PER_HOUR)):
            thing = f"{kind}-{machine.id[2:]}"
            world.state.things[thing] = Thing(
                id=thing, kind=kind, region=region, machine=machine.id, labels=machine.labels, usd_per_hour=rate,
                created_at=world.now, shown_from=self._shown_from(thing),
            )  # fmt: skip
        return _description_of(machine)

    def _named_by(self, placement: str, token: str) -> tuple[str, SimMachine | None]:
        """The id and the machine of a token in a placement; the machine is None if the next create is to get this
        id."""
        world, number = self._world, 0
        while True:
            name = f"i-{_digest(placement, token, *([str(number)] if number else []))[:16]}"
            machine = world.state.machines.get(name)
            # A forgotten token creates another machine, which needs another id: the number of the try is part of it.
            is_gone = machine is not None and machine.state is MachineState.TERMINATED
            if (
                machine is None
                or not is_gone
                or world.now - (machine.ended_at or world.now) < world.scenario.token_memory
            ):
                return name, machine
            number += 1

    def _placement(self, request: Mapping[str, Any], region: str) -> Spot:
        """Choose the zone of a new machine. Raises RefusedError if a quota is exceeded or no zone has capacity."""
        world, name, market = self._world, str(request["instanceType"]), Market(request["market"]).value
        zones = ZONES[region] if request.get("zone") is None else (str(request["zone"]),)
        if name not in TYPES or not set(zones) <= set(ZONES[region]) or not str(request["image"]).startswith("img-"):
            raise RefusedError(Code.BAD_PARAMETER, f"no {name} in {', '.join(zones)} from image {request['image']!r}")
        placements = [Spot(region=region, zone=zone, instance_type=name, market=market) for zone in zones]
        check_quota(world.scenario, placements[0], world.state.machines.values())
        return choose_zone(world.scenario, placements, world.state.machines.values(), world.age)

    def _new_machine(self, name: str, fingerprint: str, request: Mapping[str, Any], placement: Spot) -> SimMachine:
        world, rules = self._world, self._world.scenario
        labels = {str(key): str(value) for key, value in request["labels"].items()}
        user_data = {str(key): str(value) for key, value in request["userData"].items()}
        boot = between(rules.seed, *_boot_seconds(rules, user_data), "boot", request["clientToken"], placement.zone)
        reaped = instant(labels.get(LABEL_DEADLINE)) if rules.standing_reaper else None
        return SimMachine(
            id=name,
            region=placement.region,
            zone=placement.zone,
            instance_type=placement.instance_type,
            market=placement.market,
            labels=labels,
            token=str(request["clientToken"]),
            fingerprint=fingerprint,
            user_data=user_data,
            usd_per_hour=TYPES[placement.instance_type].usd_per_hour(placement.region, placement.market),
            created_at=world.now,
            shown_from=self._shown_from(name),
            boots_at=world.now + timedelta(seconds=boot),
            deadline=instant(user_data.get("deadline")),
            cloud_timer_at=None if reaped is None else reaped + rules.timer_grace,
        )

    def _create_schedule(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Schedule the deletion of the newest machine of a token at an instant."""
        world, region, token = self._world, _region(request), str(request["instanceToken"])
        live = [
            instance
            for instance in world.state.machines.values()
            if instance.live and (instance.region, instance.token) == (region, token)
        ]
        if not live:
            raise RefusedError(Code.NO_INSTANCE, "there is no machine to schedule the end of")
        machine = live[-1]
        name, at = f"{Kind.SCHEDULE}-{machine.id[2:]}", datetime.fromisoformat(request["at"])
        if name not in world.state.things:
            world.put(replace(machine, cloud_timer_at=at))
            world.state.things[name] = Thing(
                id=name, kind=Kind.SCHEDULE, region=region, machine=machine.id, labels=dict(request["labels"]),
                usd_per_hour=ADDRESS_USD_PER_HOUR * 0, created_at=world.now, shown_from=self._shown_from(name),
                goes_at=at if world.scenario.cloud_timer_works else None,
            )  # fmt: skip
        return {"id": name}

    def _describe(self, request: Mapping[str, Any]) -> dict[str, Any]:
        machine = self._machine(request)
        # Eventual consistency: a look-up may not find a new machine yet, though its create succeeded.
        if machine.shown_from > self._world.now:
            raise RefusedError(Code.NO_INSTANCE, f"there is no instance {machine.id}")
        return _description_of(machine)

    def _console(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"output": self._world.console(self._machine(request).id)}

    def _stop_training(self, request: Mapping[str, Any]) -> dict[str, Any]:
        machine = self._machine(request)
        if machine.live:
            asked_at = machine.asked_at or self._world.now
            self._world.put(replace(machine, asked_at=asked_at, course=self._marked(machine.course)))
        return {}

    def _marked(self, course: Course | None) -> Course | None:
        """What trains, with what the run directory has of the stop that it is asked for."""
        if course is None:
            return None
        mark = self._world.files.find(course.run, f"attempts/{course.attempt}/{STOPPED_FOR_GOOD}")
        return replace(course, for_good=mark is not None)

    def _delete_instance(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if run := self._machine(request).labels.get(LABEL_RUN):
            self._world.tell(run)
        machine = self._machine(request)
        self._world.put(ended_machine(machine, self._world.now, Why.DELETED, self._world.scenario))
        return {}

    def _record(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """When a machine ended, also of one that no look-up shows any more; nothing of one that is forgotten."""
        machine = self._world.state.machines.get(str(request["id"]))
        if machine is None or machine.region != request["region"] or machine.forgotten or machine.ended_at is None:
            return {"endedAt": None}
        is_kept = self._world.now - machine.ended_at <= _RECORDS_ARE_KEPT
        return {"endedAt": machine.ended_at.isoformat() if is_kept else None}

    def _machine(self, request: Mapping[str, Any]) -> SimMachine:
        """The machine of a request. Raises RefusedError if there is none in that region or it ended too long ago."""
        name, world = str(request["id"]), self._world
        machine = world.state.machines.get(name)
        there = machine is not None and machine.region == request["region"] and not machine.forgotten
        if machine is None or not there or self._long_gone(machine):
            raise RefusedError(Code.NO_INSTANCE, f"there is no instance {name}")
        return machine

    def _long_gone(self, machine: SimMachine) -> bool:
        if machine.state is not MachineState.TERMINATED or machine.gone_at is None:
            return False
        return self._world.now > machine.gone_at + self._world.scenario.forgets_after

    def _list_instances(self, request: Mapping[str, Any]) -> dict[str, Any]:
        region, now = _region(request), self._world.now
        machines = [
            machine
            for machine in self._world.state.machines.values()
            if machine.region == region and machine.shown_from <= now and not machine.forgotten
        ]
        matching = [
            machine for machine in machines if not self._long_gone(machine) and _labelled(machine.labels, request)
        ]
        return self._page([_description_of(machine) for machine in matching], request)

    def _lister(self, kind: Kind) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        def listing(request: Mapping[str, Any]) -> dict[str, Any]:
            region, now = _region(request), self._world.now
            documents = [
                _shown_thing(thing)
                for thing in self._world.state.things.values()
                if (thing.kind, thing.region) == (kind, region) and thing.shown_from <= now and thing.ended_at is None
                if _labelled(thing.labels, request)
            ]
            return self._page(documents, request)

        return listing

    def _deleter(self, kind: Kind) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        def delete(request: Mapping[str, Any]) -> dict[str, Any]:
            world, thing = self._world, self._world.state.things.get(str(request["id"]))
            if thing is None or thing.ended_at is not None or (thing.kind, thing.region) != (kind, request["region"]):
                raise RefusedError(Code.NO_INSTANCE, f"there is no {kind} {request['id']}")
            machine = world.state.machines[thing.machine]
            if kind is Kind.SCHEDULE:  # without its schedule the machine has no cloud timer any more
                world.put(replace(machine, cloud_timer_at=None))
            elif machine.state is not MachineState.TERMINATED:
                raise RefusedError(Code.IN_USE, f"{thing.id} is in use by {machine.id}")
            at = world.now + timedelta(seconds=_DELETION_SECONDS)
            world.state.things[thing.id] = replace(thing, goes_at=min(at, thing.goes_at or at))
            return {}

        return delete

    def _page(self, items: list[dict[str, Any]], request: Mapping[str, Any]) -> dict[str, Any]:
        begin, size = int(request.get("pageToken") or 0), self._world.scenario.page_size
        more = str(begin + size) if begin + size < len(items) else None
        return {"items": items[begin : begin + size], "nextPageToken": more, "warnings": []}

    def _shown_from(self, name: str) -> datetime:
        rules = self._world.scenario
        lag = rules.listing_lag.total_seconds()
        return self._world.now + timedelta(seconds=between(rules.seed, 0, lag, "lag", name))

    def _put_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        try:
            data = b64decode(request["data"], validate=True)
        except Base64Error as error:
            raise ValueError(str(error)) from None
        self._world.files.write(str(request["run"]), str(request["path"]), data)
        return {}

    def _get_object(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._world.tell(str(request["run"]))
        data = self._world.files.read(str(request["run"]), str(request["path"]))
        start = int(request.get("start") or 0)
        end = None if request.get("size") is None else start + int(request["size"])
        if request["path"] == MODEL and not start:
            self._bill_model(str(request["run"]))
        return {"data": b64encode(data[start:end]).decode()}

    def _bill_model(self, run: str) -> None:
        """Bill the way out of a trained model of the job's size: what the simulation stores is a stand-in."""
        job_json = self._world.files.job_json(run)
        if job_json is not None:
            name, counts = f"{SENT}{run}", self._world.state.counts
            counts[name] = counts.get(name, 0) + model_bytes(job_json)

    def _list_objects(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._world.tell(str(request["run"]))
        return {"paths": self._world.files.paths(str(request["run"]), str(request["prefix"]))}

    def _delete_objects(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self._world.tell(str(request["run"]))
        self._world.files.delete(str(request["run"]), str(request["prefix"]))
        return {}


def list_operation(kind: Kind) -> str:
    """The operation that lists resources of a kind."""
    return {Kind.DISK: "ListDisks", Kind.ADDRESS: "ListAddresses", Kind.SCHEDULE: "ListSchedules"}[kind]


def delete_operation(kind: Kind) -> str:
    """The operation that deletes a resource of a kind."""
    return {Kind.DISK: "DeleteDisk", Kind.ADDRESS: "DeleteAddress", Kind.SCHEDULE: "DeleteSchedule"}[kind]


def _region(request: Mapping[str, Any]) -> str:
    region = str(request["region"])
    if region not in ZONES:
        raise RefusedError(Code.BAD_PARAMETER, f"there is no region {region}")
    return region


def _labelled(labels: Mapping[str, str], request: Mapping[str, Any]) -> bool:
    """Whether the labels match those of the request, in which the value None matches any value."""
    pairs: Iterable[tuple[str, str | None]] = (request.get("labels") or {}).items()
    return all(key in labels and value in (None, labels[key]) for key, value in pairs)


def _description_of(machine: SimMachine) -> dict[str, Any]:
    ending = machine.trainer_end
    return {
        "id": machine.id,
        "region": machine.region,
        "zone": machine.zone,
        "instanceType": machine.instance_type,
        "market": machine.market,
        "state": machine.state.value,
        "labels": dict(machine.labels),
        "createdAt": machine.created_at.isoformat(),
        "usdPerHour": str(machine.usd_per_hour if machine.live else 0),  # an ended machine bills nothing
        "stopAsked": machine.asked_at is not None,
        "exitCode": None if ending is None else ending.exit_code,
        "why": None if machine.why is None else machine.why.value,
        "endedAt": None if machine.ended_at is None else machine.ended_at.isoformat(),
    }


def _boot_seconds(rules: Scenario, user_data: Mapping[str, str]) -> tuple[float, float]:
    """From the create to the first line of the trainer, shortest and longest."""
    if rules.boot is not None:
        return rules.boot[0].total_seconds(), rules.boot[1].total_seconds()
    if "setup_seconds" not in user_data:
        return _BOOT_SECONDS
    expected = max(_LEAST_BOOT_SECONDS, float(user_data["setup_seconds"]) - START_SECONDS)
    return (1 - _BOOT_SPREAD) * expected, (1 + _BOOT_SPREAD) * expected


def _shown_thing(thing: Thing) -> dict[str, Any]:
    return {
        "id": thing.id,
        "region": thing.region,
        "instance": thing.machine,
        "labels": dict(thing.labels),
        "createdAt": thing.created_at.isoformat(),
        "usdPerHour": str(thing.usd_per_hour),
    }


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
