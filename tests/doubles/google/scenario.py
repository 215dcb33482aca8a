"""What happens in a double's world: how long things take, what there is, and what goes wrong."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FaultRule(_Frozen):
    """Something that goes wrong with calls of one method (`operation`: its id in Google's description; `*`: any).

    Of the calls that match, the first `skip` pass, then `times` are hit (None: all), each with the probability
    `chance`; `after` and `until` are seconds from the beginning of the world. `error`: the reply is `status` with
    `code`; `operation_error`: the operation fails with `code`; `warning`: a list leaves `place` out (all of it where
    that is "") and says so.
    """

    operation: str = "*"
    effect: Literal["error", "lost_request", "lost_reply", "operation_error", "warning"] = "error"
    status: int = 503
    code: str = "backendError"
    message: str = "as the test wants it"
    place: str = ""
    skip: int = 0
    times: int | None = 1
    chance: float = 1.0
    after: float = 0.0
    until: float | None = None


class Incident(_Frozen):
    """Befalls running machines of an attempt (None: of each), so many seconds after they run.

    `crash`: the host fails. `vanish`: it is gone, and no operation tells why.
    """

    event: Literal["preempt", "maintenance", "crash", "vanish"]
    attempt: int | None = None
    after: float = 0.0


class Scenario(_Frozen):
    """`stock` and `quotas` have no bound where they name none; a place of `stock` is a zone or a region.

    `real`: machines are real ones, which somebody boots and ends (tests/e2e), and time is the computer's.
    `trainer`: `simulated` trains as the simulated cloud does, `named` behaves as tests/doubles/fake_trainer.py by the
    name of the job, `hung` never ends and does not listen. `others` are things in the project that somebody else
    made, by kind (`disks`, `addresses`, `forwardingRules`, `snapshots`): each has a `scope` and a `row`.
    """

    began: datetime | None = None
    seed: int = 1
    operation_seconds: float = 5.0
    boot_seconds: float = 20.0
    deletion_seconds: float = 4.0
    lag_seconds: float = 5.0
    notice_seconds: float = 30.0
    token_seconds: float = 3600.0
    page_size: int = 500
    stock: dict[str, int] = Field(default_factory=dict)
    quotas: dict[str, dict[str, float]] = Field(default_factory=dict)
    closed_zones: tuple[str, ...] = ()
    billing: bool = True
    networks: tuple[str, ...] = ("default", "trainplan")
    machine_timer_works: bool = True
    cloud_timer_works: bool = True
    disks_stay: bool = False
    others: dict[str, tuple[dict[str, Any], ...]] = Field(default_factory=dict)
    real: bool = False
    trainer: Literal["simulated", "named", "hung"] = "simulated"
    faults: tuple[FaultRule, ...] = ()
    incidents: tuple[Incident, ...] = ()
