"""How the simulated cloud behaves: a TOML file that a person writes, every key with a default."""

from __future__ import annotations

import tomllib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, Field, ValidationError

from trainplan.pricing.grades import Market
from trainplan.providers.errors import BadRequestError
from trainplan.providers.sim.values import Code, Effect, Event, Fault, Incident
from trainplan.workloads.job import Duration
from trainplan.workloads.regular_file import regular_text
from trainplan.workloads.values import Value

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(strict=True, ge=0)]
Range = tuple[Duration, Duration]


def _between(low: int, high: int) -> Range:
    return timedelta(seconds=low), timedelta(seconds=high)


class PlacementRule(Value):
    """Stock and reclaim rate of some placements; None means any, and the last rule that fits counts.

    `start` and `end` bound the time, from the beginning of the world.
    """

    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    market: Market | None = None
    stock: Count | None = None
    reclaims_per_hour: Annotated[float, Field(ge=0)] | None = None
    start: Duration = timedelta(0)
    end: Duration | None = None


class QuotaRule(Value):
    """How many devices the account may have at once in a region, family and market; None means any of these."""

    region: str | None = None
    family: str | None = None
    market: Market | None = None
    devices: Count


class FaultRule(Value):
    """See trainplan.providers.sim.values.Fault; `start` and `end` count from when the rule is read."""

    operation: str = "*"
    effect: Effect = Effect.ERROR
    code: str = Code.INTERNAL
    where: dict[str, str] = Field(default_factory=dict)
    skip: Count = 0
    times: Count | None = 1
    chance: Share = 1.0
    start: Duration | None = None
    end: Duration | None = None
    takes: Duration = timedelta(0)


class IncidentRule(Value):
    """See trainplan.providers.sim.values.Incident; `at` counts from when the rule is read, `after` from the machine's
    start."""

    event: Event
    run: str = "*"
    attempt: int | None = None
    at: Duration | None = None
    after: Duration | None = None


class Script(Value):
    """What goes wrong, and when."""

    faults: tuple[FaultRule, ...] = ()
    incidents: tuple[IncidentRule, ...] = ()

    def made_faults(self, base: datetime, prefix: str) -> tuple[Fault, ...]:
        """The rules as faults, with durations as instants from `base`."""
        return tuple(_fault(rule, base, f"{prefix}-{number}") for number, rule in enumerate(self.faults))

    def made_incidents(self, base: datetime) -> tuple[Incident, ...]:
        """The incidents of the script, their instants counted from `base`."""
        return tuple(_incident(rule, base) for rule in self.incidents)


class Scenario(Script):
    """The world's rules. A range is drawn from evenly. `throughput_factor` scales how fast machines train."""

    seed: int = 0
    start: AwareDatetime | None = None
    """When the world begins; None: when it is first used."""
    boot: Range | None = None
    """None: as the job's estimate has it, give or take a tenth; without an estimate 40 to 90 s."""
    deletion: Range = _between(20, 60)
    clean_up: Range = _between(5, 20)
    """From the end of a machine to that of its disk and its address."""
    listing_lag: Duration = timedelta(seconds=5)
    notice: Duration = timedelta(minutes=2)
    timer_grace: Duration = timedelta(minutes=5)
    """From a machine's deadline to when the cloud deletes it."""
    forgets_after: Duration = timedelta(hours=1)
    """How long an ended machine can still be asked for."""
    token_memory: Duration = timedelta(hours=24)
    """How long after its machine has ended a create's token still names it; later the same create makes another."""
    page_size: Annotated[int, Field(strict=True, ge=1)] = 20
    standing_reaper: bool = True
    """The cloud's timer is armed by the create itself; false: by a schedule of its own."""
    machine_timer_works: bool = True
    cloud_timer_works: bool = True
    disks_stay: bool = False
    addresses_stay: bool = False
    throughput_factor: Annotated[float, Field(gt=0)] = 1.0
    stock: Count = 8
    """Machines of a type and market in a zone."""
    quota: Count = 32
    """Devices of a family and market in a region."""
    reclaims_per_hour: Annotated[float, Field(ge=0)] = 0.05
    placements: tuple[PlacementRule, ...] = ()
    quotas: tuple[QuotaRule, ...] = ()


def read_scenario(path: Path) -> Scenario:
    """A scenario out of a file. Raises BadRequestError naming the file and what is wrong in it."""
    try:
        return Scenario.model_validate(tomllib.loads(regular_text(path)))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadRequestError(f"{path}: {where}: {first['msg']}", hint="see docs/simulated-cloud.md") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadRequestError(
            f"the scenario {path} cannot be read: {error}", hint="sim_scenario names a file"
        ) from None


def _fault(rule: FaultRule, base: datetime, name: str) -> Fault:
    return Fault(
        id=name,
        operation=rule.operation,
        effect=rule.effect,
        code=rule.code,
        where=rule.where,
        skip=rule.skip,
        times=rule.times,
        chance=rule.chance,
        start=None if rule.start is None else base + rule.start,
        end=None if rule.end is None else base + rule.end,
        seconds=rule.takes.total_seconds(),
    )


def _incident(rule: IncidentRule, base: datetime) -> Incident:
    after = timedelta(0) if rule.at is None and rule.after is None else rule.after
    return Incident(
        event=rule.event,
        run=rule.run,
        attempt=rule.attempt,
        at=None if rule.at is None else base + rule.at,
        after_seconds=None if after is None else after.total_seconds(),
    )
