"""The simulated cloud's values and codes to ours and back. Pure."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from trainplan.providers.base import (
    LABEL_ATTEMPT,
    LABEL_CLIENT,
    LABEL_DEADLINE,
    LABEL_RUN,
    EndKind,
    Instance,
    InstanceRef,
    InstanceState,
    LaunchRequest,
    OwnedResource,
    RunId,
    VendorRequest,
)
from trainplan.providers.cloud.exit_codes import how_it_ended
from trainplan.providers.cloud.labels import labels_of, number
from trainplan.providers.cloud.launch import resolution_of
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)
from trainplan.providers.sim.api import DisconnectedError, RefusedError
from trainplan.providers.sim.catalogue import PROVIDER
from trainplan.providers.sim.values import Code, MachineState, Why
from trainplan.providers.values import Resolution

_STATES = {
    MachineState.PENDING: InstanceState.PENDING,
    MachineState.RUNNING: InstanceState.RUNNING,
    MachineState.SHUTTING_DOWN: InstanceState.STOPPING,
    MachineState.STOPPED: InstanceState.ENDED,
    MachineState.TERMINATED: InstanceState.ENDED,
}
_ENDS = {
    Why.DELETED: (EndKind.KILLED, "it was deleted"),
    Why.MACHINE_TIMER: (EndKind.DEADLINE, "the machine's own timer ended it"),
    Why.CLOUD_TIMER: (EndKind.DEADLINE, "the cloud's timer ended it"),
    Why.RECLAIMED: (EndKind.RECLAIMED, "spot took it back"),
    Why.MAINTENANCE: (EndKind.RECLAIMED, "the provider stopped it for maintenance of its host"),
    Why.DEVICE_LOST: (EndKind.DEVICE_LOST, "its accelerator is not there any more"),
    Why.HOST_FAILED: (EndKind.LOST, "its host failed"),
}
_SIGN_IN = "a scenario makes the credentials expire; practise what you would do, and wait"
_ERRORS: dict[str, Callable[[RefusedError], ProviderError]] = {
    Code.BAD_PARAMETER: lambda error: _error_of(BadRequestError, error, "this is a mistake of the program: report it"),
    Code.UNKNOWN_OPERATION: lambda error: _error_of(
        BadRequestError, error, "end the old simulated cloud, and try again"
    ),
    Code.TOKEN_MISMATCH: lambda error: _error_of(
        BadRequestError, error, "an attempt cannot be sent again with other parameters; launch the job again"
    ),
    Code.NO_CAPACITY: lambda error: CapacityError(
        error.message,
        elsewhere=tuple(map(str, error.details.get("elsewhere", ()))),
        hint="another zone, region or machine may have one",
        code=error.code,
    ),
    Code.QUOTA: lambda error: QuotaError(
        error.message,
        quota=str(error.details.get("quota", "unknown")),
        hint="raise it in the scenario, or choose another region",
        code=error.code,
    ),
    Code.THROTTLED: lambda error: _error_of(ThrottledError, error, "wait a little"),
    Code.EXPIRED: lambda error: _error_of(CredentialsError, error, _SIGN_IN),
    Code.DENIED: lambda error: _error_of(PermissionDeniedError, error, "the scenario denies it"),
    Code.INTERNAL: lambda error: _error_of(TransientError, error, "try again"),
    Code.UNAVAILABLE: lambda error: _error_of(TransientError, error, "try again later"),
    Code.NO_INSTANCE: lambda error: _error_of(InstanceNotFoundError, error, ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SimResolution(Resolution):
    """`image` is the trainer's image in the region."""

    image: str


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """What the API raises as a ProviderError."""
    try:
        yield
    except RefusedError as error:
        raise _ERRORS.get(error.code, _unrecognized)(error) from error
    except DisconnectedError as error:
        raise TransientError(f"the simulated cloud did not answer: {error}", hint="try again") from error


def token_of(request: LaunchRequest) -> str:
    """The idempotency token of an attempt."""
    return hashlib.sha256(f"{request.run_id}\n{request.attempt}".encode()).hexdigest()[:32]


def run_instance(request: LaunchRequest) -> VendorRequest:
    """The call that makes the machine."""
    ends = request.own_ends
    timer = ends.timer if ends else request.deadline
    user_data = {"run": request.run_id, "attempt": str(request.attempt), "deadline": timer.isoformat()}
    if ends is not None:
        user_data["trains_until"] = ends.trainer.isoformat()
    if request.max_steps is not None:
        user_data["max_steps"] = str(request.max_steps)
    if request.until_steady:
        user_data["until_steady"] = "yes"
    if request.try_settings:
        user_data["try_settings"] = "yes"
    if request.run_key:
        user_data["run_key"] = request.run_key
    expected = request.expected
    # A measuring run finds out what the machine does: nobody tells it.
    if expected is not None and expected.images_per_second is not None and request.max_steps is None:
        user_data |= {
            "setup_seconds": str(expected.setup_seconds),
            "seconds": str(expected.seconds),
            "images_per_second": str(expected.images_per_second),
        }
    parameters: dict[str, object] = {
        "region": request.offer.region,
        "zone": request.zone,
        "instanceType": request.offer.instance_type,
        "market": str(request.offer.market),
        "image": resolution_of(request, SimResolution).image,
        "clientToken": token_of(request),
        "labels": labels_of(request),
        "userData": user_data,
    }
    if expected is not None:
        parameters["diskGb"] = str(expected.disk_gb)
    return VendorRequest(service=PROVIDER, operation="RunInstance", parameters=parameters)


def instance(reply: Mapping[str, Any]) -> Instance:
    """An instance as the cloud shows it."""
    labels = reply["labels"]
    state = _STATES[MachineState(reply["state"])]
    if reply["stopAsked"] and state is InstanceState.RUNNING:
        state = InstanceState.STOPPING
    end, exit_code, reason = _end(reply) if state is InstanceState.ENDED else (None, None, None)
    return Instance(
        ref=InstanceRef(provider=PROVIDER, region=reply["region"], id=reply["id"]),
        state=state,
        run_id=RunId(labels.get(LABEL_RUN, "")),
        attempt=number(labels.get(LABEL_ATTEMPT)) or 0,
        launched_at=datetime.fromisoformat(reply["createdAt"]),
        exit_code=exit_code,
        end=end,
        reason=reason,
        ended_at=datetime.fromisoformat(reply["endedAt"]) if reply["endedAt"] else None,
    )


def owned(kind: str, reply: Mapping[str, Any], *, is_instance: bool) -> OwnedResource:
    """Something of ours as a list shows it."""
    labels = reply["labels"]
    deadline = labels.get(LABEL_DEADLINE)
    return OwnedResource(
        provider=PROVIDER,
        region=reply["region"],
        kind=kind,
        id=reply["id"],
        run_id=RunId(labels[LABEL_RUN]),
        created_at=datetime.fromisoformat(reply["createdAt"]),
        usd_per_hour=Decimal(reply["usdPerHour"]),
        attempt=number(labels.get(LABEL_ATTEMPT)),
        instance=is_instance,
        deadline=None if deadline is None else datetime.fromisoformat(deadline),
        client=labels.get(LABEL_CLIENT),
    )


def _end(reply: Mapping[str, Any]) -> tuple[EndKind, int | None, str]:
    why = Why(reply["why"])
    if why is Why.TRAINER_ENDED:
        return (*_trainer_end(reply["exitCode"]),)
    kind, reason = _ENDS[why]
    return kind, reply["exitCode"], reason


def _trainer_end(exit_code: int) -> tuple[EndKind, int, str]:
    kind, reason = how_it_ended(exit_code)
    return kind, exit_code, reason


def _error_of(kind: type[ProviderError], error: RefusedError, hint: str) -> ProviderError:
    return kind(error.message, hint=hint, code=error.code)


def _unrecognized(error: RefusedError) -> ProviderError:
    return UnrecognizedError(
        f"the simulated cloud says {error.code}: {error.message}", hint="look up what exists", code=error.code
    )
