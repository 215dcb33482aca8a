"""Whether a launch on a TPU would be let in: the API, the slice, its zones, the timers' queue, quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pricing.offers import LifecycleState
from providers.base import Check, PreflightState
from providers.errors import (
    BadRequestError,
    CapacityError,
    InstanceNotFoundError,
    PermissionDeniedError,
    ProviderError,
)
from providers.gcp import counted
from providers.gcp.tpu.api import PAGE, pages
from providers.gcp.tpu.create import accelerator_type, why_not
from providers.gcp.tpu.reaper import QUEUE, REGION, queue_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pricing.offers import Offer
    from providers.gcp.account import Account
    from providers.gcp.tpu.api import Ask

_OK, _REFUSED, _UNKNOWN = PreflightState.OK, PreflightState.REFUSED, PreflightState.UNKNOWN
_SETUP = "plan setup gcp"
_NOT_LET_IN = (PermissionDeniedError, BadRequestError)


def queue_runs(ask_tasks: Ask, project: str) -> None:
    """Raises PermissionDeniedError where there is no queue that would end a TPU, else ProviderError."""
    try:
        told = ask_tasks("GetQueue", {"name": queue_name(project)})
    except InstanceNotFoundError as error:
        raise PermissionDeniedError(
            f"there is no queue {QUEUE!r} in {REGION}: nothing would end a TPU without this computer", hint=_SETUP
        ) from error
    if told.get("state", "RUNNING") != "RUNNING":
        raise PermissionDeniedError(
            f"the queue {QUEUE!r} in {REGION} is {str(told['state']).lower()}: nothing would end a TPU without this "
            "computer",
            hint=f"gcloud tasks queues resume {QUEUE} --location {REGION}",
        )


def of_offer(account: Account, ask_tpu: Ask, ask_tasks: Ask, offer: Offer) -> Sequence[Check]:
    """The lines of a preflight; what holds for every offer is asked once."""
    if reason := why_not(offer):
        fix = "choose a slice of one machine; plan estimate shows them"
        return (Check(name="slice", state=_REFUSED, detail=reason, fix=fix),)
    return tuple(_lines(account, ask_tpu, ask_tasks, offer))


def zones_of(account: Account, ask_tpu: Ask, offer: Offer) -> tuple[str, ...]:
    """Of the offer's zones those that list its accelerator type. Raises ProviderError."""
    wanted = accelerator_type(offer)
    return tuple(zone for zone in offer.zones if wanted in _types(account, ask_tpu, zone))


def timers(account: Account, ask_tasks: Ask) -> Check:
    """Whether there is what ends a TPU at its deadline."""
    try:
        account.once("tpu queue", lambda: queue_runs(ask_tasks, account.project))
    except ProviderError as error:
        return _failed("timers", error)
    return Check(name="timers", state=_OK, detail=f"the queue {QUEUE!r} in {REGION} ends TPUs at their deadline")


def machine_account(account: Account) -> Check:
    """Whether the service account that machines have is there."""
    email = account.machine_account
    path = f"/v1/projects/{account.project}/serviceAccounts/{email}"
    try:
        told = account.once("machine account", lambda: account.ask("GET", "iam", path))
    except InstanceNotFoundError:
        return Check(name="machine account", state=_REFUSED, detail=f"there is no {email}", fix=_SETUP)
    except ProviderError as error:
        return Check(name="machine account", state=_UNKNOWN, detail=error.message, fix=error.hint)
    if told.get("disabled"):
        fix = f"gcloud iam service-accounts enable {email}"
        return Check(name="machine account", state=_REFUSED, detail=f"{email} is switched off", fix=fix)
    return Check(name="machine account", state=_OK, detail=email)


def _lines(account: Account, ask_tpu: Ask, ask_tasks: Ask, offer: Offer) -> Iterator[Check]:
    yield _offered(account, ask_tpu, offer)
    yield timers(account, ask_tasks)
    yield machine_account(account)
    yield counted.check(account, counted.of_tpu_api(offer))
    if offer.lifecycle.state is LifecycleState.RETIRED:
        fix = f"rent {offer.lifecycle.successor}" if offer.lifecycle.successor else "choose another offer"
        yield Check(name="lifecycle", state=_UNKNOWN, detail="Google has ended it", fix=fix)


def _offered(account: Account, ask_tpu: Ask, offer: Offer) -> Check:
    wanted = accelerator_type(offer)
    try:
        zones = zones_of(account, ask_tpu, offer)
    except ProviderError as error:
        return _failed("offered", error)
    if not zones:
        detail = f"no zone of {offer.region} has {wanted}, or not to this project"
        fix = "choose another region; plan estimate --all shows them"
        return Check(name="offered", state=_REFUSED, detail=detail, fix=fix)
    return Check(name="offered", state=_OK, detail=f"{wanted} in {', '.join(zones)}")


def _types(account: Account, ask_tpu: Ask, zone: str) -> frozenset[str]:
    asked = {"parent": f"projects/{account.project}/locations/{zone}", "pageSize": PAGE}

    def look() -> frozenset[str]:
        rows = (
            row for page in pages(ask_tpu, "ListAcceleratorTypes", asked) for row in page.get("acceleratorTypes", ())
        )
        try:
            return frozenset(str(row.get("type") or row["name"].rpartition("/")[2]) for row in rows)
        except CapacityError:
            return frozenset()  # a zone that is not open to the project

    return frozenset(account.once(f"tpu types/{zone}", look))


def _failed(name: str, error: ProviderError) -> Check:
    state = _REFUSED if isinstance(error, _NOT_LET_IN) else _UNKNOWN
    return Check(name=name, state=state, detail=error.message, fix=error.hint)
