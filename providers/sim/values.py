"""What there is in the simulated cloud: machines, what comes with them, and what goes wrong on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum


class Code(StrEnum):
    """What a refused call is answered with."""

    BAD_PARAMETER = "InvalidParameter"
    TOKEN_MISMATCH = "IdempotencyTokenMismatch"
    UNKNOWN_OPERATION = "UnknownOperation"
    NO_CAPACITY = "InsufficientCapacity"
    QUOTA = "QuotaExceeded"
    THROTTLED = "Throttled"
    EXPIRED = "ExpiredCredentials"
    DENIED = "AccessDenied"
    INTERNAL = "InternalError"
    UNAVAILABLE = "PlacementUnavailable"
    NO_INSTANCE = "InstanceNotFound"
    NO_OBJECT = "NoSuchKey"
    IN_USE = "ResourceInUse"


class MachineState(StrEnum):
    """STOPPED: the provider stopped it; it trains no more, and its disk still bills until somebody deletes it."""

    PENDING = "pending"
    RUNNING = "running"
    SHUTTING_DOWN = "shutting_down"
    STOPPED = "stopped"
    TERMINATED = "terminated"


class Why(StrEnum):
    """Why a machine ended: what a cloud calls the state reason."""

    TRAINER_ENDED = "InstanceInitiatedShutdown"
    DELETED = "UserInitiatedDelete"
    MACHINE_TIMER = "MachineDeadline"
    CLOUD_TIMER = "ScheduledDelete"
    RECLAIMED = "SpotReclaim"
    MAINTENANCE = "HostMaintenance"
    DEVICE_LOST = "AcceleratorLost"
    HOST_FAILED = "HostFailure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The training of one attempt as it was started: all its events follow from it and from when it is asked to end.
    `for_good`: that is a person's stop, after which the run does not go on elsewhere."""

    run: str
    attempt: int
    job_json: str
    device: str
    device_count: int
    images_per_second: float
    began_at: datetime
    start_step: int = 0
    deadline: datetime | None = None
    max_steps: int | None = None
    until_steady: bool = False
    try_settings: bool = False
    run_key: str = field(default="", repr=False)
    evaluate_seconds: float = 5.0
    for_good: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """When and how a trainer ends: `state` as its status.json says it, `exit_code` as the machine is left with."""

    at: datetime
    exit_code: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimMachine:
    """An instance, kept for ever.

    `deadline` is what its user data says, for the machine's own timer; `cloud_timer_at` is when the cloud deletes
    it. `told_until` is up to when its trainer's files are written. `ended_at` is when it stopped billing, `gone_at`
    when it had shut down. `shown_from` is when lists begin to show it; one that is `forgotten` no list shows.
    """

    id: str
    region: str
    zone: str
    instance_type: str
    market: str
    labels: Mapping[str, str]
    token: str
    fingerprint: str
    user_data: Mapping[str, str]
    usd_per_hour: Decimal
    created_at: datetime
    shown_from: datetime
    boots_at: datetime
    deadline: datetime | None = None
    cloud_timer_at: datetime | None = None
    state: MachineState = MachineState.PENDING
    reclaim_at: datetime | None = None
    course: Course | None = None
    told_until: datetime | None = None
    asked_at: datetime | None = None
    noticed_at: datetime | None = None
    trainer_end: Ending | None = None
    ended_at: datetime | None = None
    gone_at: datetime | None = None
    why: Why | None = None
    forgotten: bool = False

    @property
    def live(self) -> bool:
        """Whether it holds stock and quota and bills at its own rate."""
        return self.state in (MachineState.PENDING, MachineState.RUNNING)


class Kind(StrEnum):
    """What comes with an instance, bills or clutters, and may outlive it."""

    DISK = "disk"
    ADDRESS = "address"
    SCHEDULE = "schedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """A disk, an address or a schedule of one machine. `goes_at` is when it goes by itself, None: it stays."""

    id: str
    kind: Kind
    region: str
    machine: str
    labels: Mapping[str, str]
    usd_per_hour: Decimal
    created_at: datetime
    shown_from: datetime
    goes_at: datetime | None = None
    ended_at: datetime | None = None


class Effect(StrEnum):
    """What a fault does to a call. ERROR, LOST_REQUEST: the call has no effect. LOST_REPLY, SLOW, WARNING: it has.

    WARNING: a list comes back without its items, and says so beside them.
    """

    ERROR = "error"
    LOST_REQUEST = "lost_request"
    LOST_REPLY = "lost_reply"
    SLOW = "slow"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong with calls of one operation (`*`: any).

    Of the calls that match, the first `skip` pass, then `times` of them are hit (None: all), each with the
    probability `chance`. `where` are parameters that must be so (`*`: there, whatever it is); `start` and `end`
    bound the time. `code` is what an ERROR says; `seconds` is what SLOW takes.
    """

    id: str
    operation: str = "*"
    effect: Effect = Effect.ERROR
    code: str = Code.INTERNAL
    where: Mapping[str, str] = field(default_factory=dict)
    skip: int = 0
    times: int | None = 1
    chance: float = 1.0
    start: datetime | None = None
    end: datetime | None = None
    seconds: float = 0.0
    seen: int = 0


class Event(StrEnum):
    """What can befall a running machine. RECLAIM comes with the notice that the cloud gives, the others without."""

    RECLAIM = "reclaim"
    MAINTENANCE = "maintenance"
    LOSE_DEVICE = "lose_device"
    CRASH = "crash"
    VANISH = "vanish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Befalls machines of a run (`*`: of any) and attempt (None: of each), once for each.

    At the instant `at`, or `after_seconds` after the machine runs. RECLAIM means when it is taken.
    """

    event: Event
    run: str = "*"
    attempt: int | None = None
    at: datetime | None = None
    after_seconds: float | None = None
