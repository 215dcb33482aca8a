"""What a test wants of the double: its account, its stock and quotas, how long things take, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

REGIONS = ("af-south-1", "eu-west-1", "us-east-1", "us-west-2")
VCPUS = 256.0
STOCK = 8


class Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Placement(Value):
    """Other stock in some placements, and another spot price; None: any."""

    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    market: str | None = None
    stock: int | None = None
    spot_price: str | None = None
    score: int | None = None


class QuotaRule(Value):
    """vCPUs of one quota code in some region."""

    code: str
    vcpus: float
    region: str | None = None


class Fault(Value):
    """Something that goes wrong with calls of an operation (`*`: any): the first `skip` pass, then `times` (None: all)
    are hit, each with probability `chance`, between `start` and `end` seconds of the world.

    `error`: refused with `code` and `status`. `lost_request`: no answer, and nothing happened. `lost_reply`: no
    answer, and it happened.
    """

    operation: str = "*"
    service: str | None = None
    region: str | None = None
    effect: Literal["error", "lost_request", "lost_reply"] = "error"
    code: str = "InternalError"
    message: str = "as the test wants it"
    status: int = 400
    skip: int = 0
    times: int | None = 1
    chance: float = 1.0
    start: float | None = None
    end: float | None = None


class Unknown(Value):
    """A thing that the call which needs it does not find for so many seconds after its create; None: it never does
    (tests/doubles/aws/unknown.py). `from_start`: it was made when the world began."""

    resource: str
    needed_by: str
    seconds: float | None = None
    from_start: bool = False


class Incident(Value):
    """Befalls machines of an attempt (None: each) so many seconds after they run: `reclaim` (spot takes it back,
    after its notice), `crash` (its host fails)."""

    event: Literal["reclaim", "crash"]
    attempt: int | None = None
    after: float


class Scenario(Value):
    """`first_day`: a new account, with EC2's default quotas and without default networks; `setup` and `unknown` are
    given beside it (tests/contract/aws_scenes.py). `plan` is what AWS Free Tier says of the account, with what is left
    of its 100 USD; "none": it has nothing of it. `policies` of docs/permissions/aws are all that whoever calls may
    do, less the actions that are `withheld`; without any, everything is allowed. `bucket`: that of run directories is
    there, as a set-up makes it.

    Durations in seconds. `setup` is what stands in the account: the standing reaper and all it needs, everything but
    the reaper, or nothing. `trainer` is how machines train: by the job's name as tests/contract/sim.py has it, or never
    to an end. `never_start` are attempts whose machine is taken and then has no room. `retired` are types that
    this account still has. `real`: time is this computer's, and whoever boots machines tells when they are off
    (tests/e2e). `reaper_fails`: the standing reaper's turn before the world began has failed. `latency` is real: so
    long each answer is under way (benchmarks). `denied_regions` are closed by a policy of the account's organisation.
    `image_first`: a create is denied only once its image was found.
    """

    seed: int = 0
    first_day: bool = False
    plan: Literal["FREE", "PAID", "none"] = "PAID"
    plan_has_ended: bool = False
    real: bool = False
    regions: tuple[str, ...] = REGIONS
    setup: Literal["reaper", "schedule", "none"] = "reaper"
    retired: tuple[str, ...] = ()
    trainer: Literal["named", "hung", "silent", "unsaved", "forgetful"] = "named"
    images_per_second: float = 100.0
    boot: tuple[float, float] = (10.0, 20.0)
    deletion: tuple[float, float] = (2.0, 4.0)
    listing_lag: float = 5.0
    latency: float = 0.0
    notice: float = 120.0
    reaper_every: float = 300.0
    never_start: tuple[int, ...] = ()
    page_size: int = 100
    machine_timer_works: bool = True
    cloud_timer_works: bool = True
    reaper_fails: bool = False
    disks_stay: bool = False
    image_first: bool = False
    forgets_after: float = 3600.0
    vcpus: float = VCPUS
    stock: int = STOCK
    no_default_network: tuple[str, ...] = ()
    denied_regions: tuple[str, ...] = ()
    placements: tuple[Placement, ...] = ()
    quotas: tuple[QuotaRule, ...] = ()
    bucket: bool = False
    policies: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    incidents: tuple[Incident, ...] = ()


def scenario_of(values: Mapping[str, Any]) -> Scenario:
    return Scenario.model_validate(values)


def last_that_fits(placements: Sequence[Placement], key: str, **where: str) -> Any:
    """What the last placement with a value for `key` says that fits; None: none does."""
    found = None
    for placement in placements:
        fits = all(getattr(placement, name) in (None, value) for name, value in where.items())
        if fits and getattr(placement, key) is not None:
            found = getattr(placement, key)
    return found
