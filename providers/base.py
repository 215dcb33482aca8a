"""The seam: what every provider can do, and the values that cross it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import NewType, Protocol

from trainplan.pricing.offers import Offer, OfferQuery
from trainplan.providers.agent.spec import File
from trainplan.providers.values import OwnEnds, Resolution
from trainplan.workloads.job import TrainingJob

RunId = NewType("RunId", str)

LABEL_RUN = "trainplan-run"
LABEL_ATTEMPT = "trainplan-attempt"
LABEL_DEADLINE = "trainplan-deadline"
LABEL_CLIENT = "trainplan-client"
LABEL_PROJECT = "trainplan-project"
"""What a run was for, where its job says it: a label of its own, so that a bill can be added up by it."""


class InstanceState(StrEnum):
    """PENDING: asked for. RUNNING: it bills and works. STOPPING: told to end. ENDED: it does nothing any more,
    though what it leaves (a stopped container, a disk) may still have to be deleted."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRef:
    """Where an instance is found again. `id` is the provider's own name for it."""

    provider: str
    region: str
    id: str


class EndKind(StrEnum):
    """Why an instance has ENDED: what the caller decides on, where `Instance.reason` is what a person reads."""

    DONE = "done"
    """The trainer finished, and its output is complete."""
    STOPPED = "stopped"
    """Asked to end; what had been trained is in a checkpoint."""
    DEADLINE = "deadline"
    """The deadline of the request was reached."""
    BAD_JOB = "bad_job"
    """The trainer cannot train this job or read its data; again would end the same."""
    FAILED = "failed"
    """The trainer ended with an error."""
    OUT_OF_MEMORY = "out_of_memory"
    """Killed for want of memory."""
    KILLED = "killed"
    """Killed from outside, nobody knows why."""
    LOST = "lost"
    """Gone without leaving an exit code: the machine restarted, or the instance never came up."""
    RECLAIMED = "reclaimed"
    """The provider took it back: spot, or a machine that it stopped."""
    DEVICE_LOST = "device_lost"
    """The accelerator is not there any more."""
    REFUSED = "refused"
    """Its machine may not use the run directory; no other placement would let it."""
    NO_CAPACITY = "no_capacity"
    """There never was one: the request waited in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """`end`, `exit_code`, `reason` and `ended_at` are known once it has ENDED, as far as the provider tells.

    `bills`: something is charged for it, or was; for a request that waits in a queue nothing is. `bills_from` is since
    when at the earliest, where the provider tells that it is later than the create; `is_start_told`: since that very
    instant. `is_deleted`: its deletion has begun, and it is not charged for any more, although it is still shown."""

    ref: InstanceRef
    state: InstanceState
    run_id: RunId
    attempt: int
    launched_at: datetime | None = None
    exit_code: int | None = None
    end: EndKind | None = None
    reason: str | None = None
    ended_at: datetime | None = None
    bills: bool = True
    bills_from: datetime | None = None
    is_start_told: bool = True
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedResource:
    """Something of ours that exists at the provider, found by its label.

    `instance` tells what can be asked for with `get` from what only comes with it (a disk, an address, a schedule).
    `deadline` and `client` are what its labels say: until when it may live, and which computer made it."""

    provider: str
    region: str
    kind: str
    id: str
    run_id: RunId
    created_at: datetime | None = None
    usd_per_hour: Decimal | None = None
    attempt: int | None = None
    instance: bool = True
    deadline: datetime | None = None
    client: str | None = None

    @property
    def ref(self) -> InstanceRef:
        """The reference by which it is looked up and deleted."""
        return InstanceRef(provider=self.provider, region=self.region, id=self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorRequest:
    """A call as it is sent; `parameters` are JSON values. For the journal, the dry run and golden files."""

    service: str
    operation: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the estimate of a launch counts: GB of disk; seconds to the first step and of a whole run that nothing
    interrupts, and images/s (None: not estimated). No rented machine depends on it; the simulated cloud rents disks and
    trains by it."""

    disk_gb: Decimal
    setup_seconds: float = 0.0
    seconds: float | None = None
    images_per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One attempt of one run. The same (run_id, attempt) always gives the same instance.

    `job` is what is trained: launch writes it to the run directory as the trainer reads it (`TrainingJob.to_json`);
    folders in it are absolute. `deadline` is when the instance ends itself, whatever becomes of this computer.
    `max_steps` ends training after so many steps (a measuring run), else None; `until_steady` ends it sooner, once its
    rate is known well enough (a pilot), and `try_settings` makes it one that tries micro-batches and XLA. `vcpus` and
    `memory_gib` limit the container where the provider can; None is no limit. `zone` is None where the provider may
    choose. `resolution` is what `Resolver.resolve` looked up (an image, a network). `calls` are the calls as the
    journal keeps them: launch sends these, byte for byte, and translates anew only where there are none. `data` are
    data set files; a machine vouches for checkpoints with its `run_key`, 64 hexadecimal digits or "". `own_ends` are
    the machine's own deadlines. `expected` is None where nothing was estimated.
    """

    run_id: RunId
    attempt: int
    offer: Offer
    job: TrainingJob
    deadline: datetime
    max_steps: int | None = None
    until_steady: bool = False
    try_settings: bool = False
    vcpus: int | None = None
    memory_gib: float | None = None
    zone: str | None = None
    client: str = ""
    resolution: Resolution | None = None
    calls: tuple[VendorRequest, ...] = ()
    data: tuple[File, ...] = ()
    run_key: str = field(default="", repr=False)
    own_ends: OwnEnds | None = None
    expected: Expected | None = None

    @property
    def measuring_arguments(self) -> tuple[str, ...]:
        """Words of the trainer's command line that make it a measuring run; none for one that trains to its end."""
        return (
            *(() if self.max_steps is None else ("--max-steps", str(self.max_steps))),
            *(("--until-steady",) if self.until_steady else ()),
            *(("--try-settings",) if self.try_settings else ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """What ends a machine without its client: its own timer, and the cloud's where there is one (None: there is none).

    `gap` says in words what is left uncovered between the create and the arming of these, "" for nothing.
    """

    machine: datetime | None
    cloud: datetime | None
    gap: str = ""


class PreflightState(StrEnum):
    """Whether something may be launched. UNKNOWN: nobody has answered."""

    OK = "ok"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One line of a preflight or of `plan doctor`: what was checked, the result, what to do."""

    name: str
    state: PreflightState
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """The checks of one offer before its launch."""

    checks: tuple[Check, ...]

    @property
    def state(self) -> PreflightState:
        """REFUSED if any check is, else UNKNOWN if any is, else OK."""
        states = {check.state for check in self.checks}
        for state in (PreflightState.REFUSED, PreflightState.UNKNOWN):
            if state in states:
                return state
        return PreflightState.OK


class RunStore(Protocol):
    """The run directory: files under the run's own prefix, by relative POSIX path.

    A path that is absolute or leaves the run directory is a BadRequestError. A `prefix` is a folder or a file
    (`output` is not a prefix of `output-2/x`); the empty one is everything.

    The layout is one for every provider: `job.json`, `attempts/N/{status.json,progress.jsonl,log/…}`,
    `checkpoints/…`, `output/…` with `output/manifest.json` written last."""

    def put(self, path: str, data: bytes) -> None:
        """Write whole or not at all; a reader never sees half a file."""

    def get(self, path: str, *, start: int = 0, size: int | None = None) -> bytes:
        """Read at most `size` bytes from `start` on; b"" past the end. Raises KeyError where there is no such file."""

    def list(self, prefix: str = "") -> Sequence[str]:
        """Every path under the prefix, sorted."""

    def delete(self, prefix: str) -> None:
        """Everything under the prefix; nothing there is no error."""


class Provider(Protocol):
    """What a vendor is asked. Every call raises only trainplan.providers.errors.ProviderError."""

    @property
    def name(self) -> str:
        """The name in commands, settings and the journal: `aws`, `gcp`, `azure`, `local` or `sim`."""

    @property
    def listing_lag(self) -> timedelta:
        """How long after a create `list_owned` and `get` may not show it yet."""
        ...

    @property
    def token_memory(self) -> timedelta:
        """How long after a create was first sent the same request surely gives the same instance, running or ended.

        Later the vendor may have forgotten its token, or given its name anew: the request would make another instance.
        """
        ...

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        """What could be rented, in the catalog's order. Needs no credentials."""
        ...

    def preflight(self, offer: Offer) -> Preflight:
        """Whether a launch of this offer would be let in: identity, permission, quota, engine. Creates nothing."""
        ...

    def launch(self, request: LaunchRequest) -> Instance:
        """Ask for an instance and return at once; the deadline is armed no later than by this call.

        Idempotent: the same (run_id, attempt) returns the instance that the first call made, dead or alive.
        """
        ...

    def get(self, ref: InstanceRef) -> Instance:
        """How it stands now. Raises InstanceNotFoundError once the provider no longer knows it."""
        ...

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        """Everything of ours that bills or occupies something, everywhere, found by label alone.

        Every page of every placement has answered, or it raises IncompleteListingError: nothing listed is nothing left.
        """
        ...

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        """Pure: the calls that launch would send, in order."""
        ...

    def timers(self, request: LaunchRequest) -> Timers:
        """Pure: when what launch makes ends by itself, and what sees to it."""
        ...

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        """Ask for its end. Idempotent; returning means accepted, `get` or `list_owned` tells when it is gone."""

    def stop(self, ref: InstanceRef) -> None:
        """Ask the trainer to write a checkpoint and end (SIGTERM). Idempotent; the instance then ENDs by itself."""

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        """The last lines of the instance's own output, for when the run directory has none."""
        ...

    def store(self, run_id: RunId) -> RunStore:
        """The run directory."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """What a provider is made from: all it may know of the computer, so that none reads it by itself.

    `home` is the state folder; `options` are the provider's own settings as the person wrote them; `environment`
    is the command's (vendor variables, proxies, certificates); `now` tells the instant, in UTC.
    """

    home: Path
    options: Mapping[str, str]
    environment: Mapping[str, str]
    now: Callable[[], datetime]
