"""Whether Azure would let a launch in: what it says of the account, of the size, and of the quotas."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pricing.offers import LifecycleState
from providers.azure.account import GRANTS, NO_TIMER_HERE, SCHEDULER, SET_UP
from providers.azure.names import NAMESPACES
from providers.azure.quotas import QUOTAS_PAGE, quota_names
from providers.azure.regions import closed
from providers.base import Check, PreflightState
from providers.errors import BadRequestError, CredentialsError, PermissionDeniedError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pricing.offers import Offer
    from providers.azure.account import Account

OK, REFUSED, UNKNOWN = PreflightState.OK, PreflightState.REFUSED, PreflightState.UNKNOWN
LAUNCH_ACTIONS = (
    "Microsoft.Resources/subscriptions/resourceGroups/write",
    "Microsoft.Resources/subscriptions/resourceGroups/delete",
    "Microsoft.Compute/virtualMachines/write",
    "Microsoft.Network/virtualNetworks/write",
    "Microsoft.Network/networkSecurityGroups/write",
    "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
)
"""What a launch cannot do without."""
REGISTERING = "registering"
"""The state of a resource provider whose registration was asked for, in small letters."""


def account_checks(account: Account) -> tuple[Check, ...]:
    """The lines that every launch needs, whatever the offer."""
    return tuple(checked(name, partial(look, account)) for name, look in ACCOUNT_CHECKS.items())


def offer_checks(account: Account, offer: Offer) -> tuple[Check, ...]:
    """Whether the subscription gets this size at this place, and how many cores it may have."""
    found = [
        *_region(account, offer),
        checked("offered here", lambda: _offered(account, offer)),
        checked("quota", lambda: _quota(account, offer)),
    ]
    if account.settings.cloud_timer:
        found.append(checked("deadline timer", lambda: _timed(account, offer)))
    if offer.lifecycle.state is LifecycleState.RETIRED:
        found.append(_retired(offer))
    return tuple(found)


def checked(name: str, look: Callable[[], Check]) -> Check:
    """A line, whatever becomes of the question: refused where Azure refuses it, unknown where it does not answer."""
    try:
        return look()
    except (CredentialsError, BadRequestError) as error:
        return Check(name=name, state=REFUSED, detail=error.message, fix=error.hint)
    except PermissionDeniedError as error:
        # Who may not look may still be let in.
        state = REFUSED if name == "subscription" else UNKNOWN
        return Check(name=name, state=state, detail=error.message, fix=error.hint)
    except ProviderError as error:
        return Check(name=name, state=UNKNOWN, detail=error.message, fix=error.hint)


def _subscription(account: Account) -> Check:
    state = account.state()
    if state != "Enabled":
        fix = "https://portal.azure.com/#view/Microsoft_Azure_Billing shows what is owed or has ended"
        return Check(name="subscription", state=REFUSED, detail=f"{account.subscription} is {state}", fix=fix)
    return Check(name="subscription", state=OK, detail=f"{account.subscription} is enabled")


def _registered(account: Account) -> Check:
    states = {name: account.registration(name).lower() for name in NAMESPACES}
    missing = [name for name, state in states.items() if state not in ("registered", REGISTERING)]
    if missing:
        detail = f"not registered: {', '.join(missing)}"
        return Check(name="resource providers", state=REFUSED, detail=detail, fix=f"{SET_UP} registers them")
    waiting = [name for name, state in states.items() if state == REGISTERING]
    if waiting:
        detail = f"being registered, region by region: {', '.join(waiting)}"
        fix = "wait some minutes, then plan doctor azure again; regions that are done can be used already"
        return Check(name="resource providers", state=UNKNOWN, detail=detail, fix=fix)
    return Check(name="resource providers", state=OK, detail=f"{len(NAMESPACES)} registered")


def _permission(account: Account) -> Check:
    missing = [action for action in LAUNCH_ACTIONS if not account.may(action)]
    if missing:
        detail = f"the sign-in may not: {', '.join(missing)}"
        fix = "whoever owns the subscription grants the role of docs/permissions/azure/client.json, or Contributor"
        return Check(name="permission", state=REFUSED, detail=detail, fix=fix)
    return Check(name="permission", state=OK, detail="the sign-in may launch and delete")


def _set_up(account: Account) -> Check:
    identity = account.identity()
    return Check(name="set-up", state=OK, detail=f"machines are {identity.path.rpartition('/')[2]}")


def _self_deletion(account: Account) -> Check:
    """Without it a machine that has ended is only deallocated, by Azure's timer: disk and address bill on."""
    if account.role():
        return Check(name="self-deletion", state=OK, detail="a machine may delete its own group")
    lacks = "its role is not defined" if account.may(GRANTS) else f"the sign-in may not {GRANTS} (Contributor may not)"
    behind = (
        "Azure deallocates it after its deadline, disk and address bill on"
        if account.settings.cloud_timer
        else ("nothing stands behind this computer: `cloud_timer` is none")
    )
    return Check(
        name="self-deletion",
        state=UNKNOWN if account.settings.cloud_timer else REFUSED,
        detail=f"a machine cannot delete its own group: {lacks}; if this computer is lost, {behind}",
        fix="whoever owns the subscription grants Role Based Access Control Administrator, then plan setup azure",
    )


def _offered(account: Account, offer: Offer) -> Check:
    size, where = account.size(offer.region, offer.instance_type), f"{offer.instance_type} in {offer.region}"
    if size is None:
        return Check(name="offered here", state=REFUSED, detail=f"there is no {where}", fix="choose another region")
    if size.refused:
        fix = "ask for access in the portal (Help + support, quota, Compute-VM), or choose another region"
        return Check(
            name="offered here", state=REFUSED, detail=f"the subscription does not get {where}: {size.refused}", fix=fix
        )
    return Check(name="offered here", state=OK, detail=f"{where} is offered to the subscription")


def _region(account: Account, offer: Offer) -> list[Check]:
    """A line where the subscription can create nothing in the region."""
    shut = closed(account, [offer.region])
    fix = "choose one of these regions, or ask whoever owns the subscription's policies"
    return [Check(name="region", state=REFUSED, detail=f"{name}: {why}", fix=fix) for name, why in shut.items()]


def _timed(account: Account, offer: Offer) -> Check:
    if not account.is_timed(offer.region):
        detail = f"{offer.region} has no {SCHEDULER}: Azure would not end a machine there at its deadline"
        return Check(name="deadline timer", state=REFUSED, detail=detail, fix=NO_TIMER_HERE)
    return Check(name="deadline timer", state=OK, detail=f"{SCHEDULER} is offered in {offer.region}")


def _quota(account: Account, offer: Offer) -> Check:
    quotas = account.quotas(offer.region)
    size = account.size(offer.region, offer.instance_type)
    names = quota_names(offer, size.family if size else "")
    needed = offer.vcpus or 0
    said = []
    for name in names:
        quota = quotas.get(name)
        if quota is None:
            continue
        said.append(f"{quota.used} of {quota.limit} used: {quota.name}")
        if quota.free < needed:
            fix = f"raise {quota.name} in {offer.region} to at least {quota.used + needed}: {QUOTAS_PAGE}"
            return Check(name="quota", state=REFUSED, detail=f"{said[-1]}, {needed} needed", fix=fix)
    if not said:
        detail = f"Azure lists no quota for {offer.instance_type} in {offer.region}"
        return Check(name="quota", state=UNKNOWN, detail=detail)
    return Check(name="quota", state=OK, detail="; ".join(said))


def _retired(offer: Offer) -> Check:
    cycle = offer.lifecycle
    detail = f"{offer.instance_type} was retired on {cycle.date}; take {cycle.successor}"
    fix = "Azure takes no new ones; only an account that still has some may be let in"
    return Check(name="lifecycle", state=UNKNOWN, detail=detail, fix=fix)


ACCOUNT_CHECKS: Mapping[str, Callable[[Account], Check]] = {
    "subscription": _subscription,
    "resource providers": _registered,
    "permission": _permission,
    "set-up": _set_up,
    "self-deletion": _self_deletion,
}
