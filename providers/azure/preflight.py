"""Whether Azure would let a launch in: what it says of the account, of the size, and of the quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from trainplan.pricing.offers import LifecycleState, Market, Offer
from trainplan.providers.azure.account import GRANTS, NO_SPOT, NO_TIMER_HERE, SCHEDULER, SET_UP, AzureAccount
from trainplan.providers.azure.names import NAMESPACES
from trainplan.providers.azure.quotas import QUOTAS_PAGE, closed, quota_names
from trainplan.providers.base import Check, PreflightState
from trainplan.providers.cloud.checks import LIMIT, Limit, Look, check_lines, failed, ok, refused, unknown
from trainplan.providers.errors import BadRequestError, CredentialsError, PermissionDeniedError, ProviderError
from trainplan.workloads.wording import Option, Text

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
_SPOTLESS = Text("take ", Option.MARKET("on_demand"))
REGISTERING = "registering"
"""The state of a resource provider whose registration was asked for, in small letters."""


def checks(account: AzureAccount, offer: Offer, limit: Limit = LIMIT) -> Sequence[Check]:
    """What every launch needs, then whether the subscription gets this size at this placement, and how many cores it
    may have: in parallel, each line by itself."""
    looks: dict[str, Look] = {name: partial(look, account) for name, look in ACCOUNT_CHECKS.items()}
    looks["region"] = lambda: _region(account, offer)
    looks["offered here"] = lambda: _offered(account, offer)
    looks["quota"] = lambda: _quota(account, offer)
    if offer.market is Market.SPOT:
        looks["spot"] = lambda: _spot(account)
    if account.settings.cloud_timer:
        looks["deadline timer"] = lambda: _timed(account, offer)
    if offer.lifecycle.state is LifecycleState.RETIRED:
        looks["lifecycle"] = lambda: _retired(offer)
    return check_lines(looks, of_error, limit)


def of_error(name: str, error: ProviderError) -> Check:
    """Refused where Azure refuses the question, unknown where it does not answer: who may not look may still be let
    in."""
    pair = (CredentialsError, BadRequestError)
    return failed(name, error, (*pair, PermissionDeniedError) if name == "subscription" else pair)


def _subscription(account: AzureAccount) -> Check:
    state = account.state()
    if state != "Enabled":
        fix = "https://portal.azure.com/#view/Microsoft_Azure_Billing shows what is owed or has ended"
        return refused("subscription", f"{account.subscription} is {state}", fix)
    credit = account.credit()
    if credit is None:
        return ok("subscription", f"{account.subscription} is enabled")
    ends = "; its spending limit is on: Azure stops what runs when the credit is used up"
    detail = f"{account.subscription} is enabled, {credit.name} ({account.quota_id()}), which {NO_SPOT}"
    return ok("subscription", f"{detail}{ends if account.ends_with_credit() else ''}")


def _spot(account: AzureAccount) -> list[Check]:
    """A line where the kind of the subscription may not get spot."""
    why = account.no_spot()
    return [unknown("spot", why, str(_SPOTLESS))] if why else []


def _registered(account: AzureAccount) -> Check:
    states = {name: account.registration(name).lower() for name in NAMESPACES}
    missing_names = [name for name, state in states.items() if state not in ("registered", REGISTERING)]
    if missing_names:
        detail = f"not registered: {', '.join(missing_names)}"
        return refused("resource providers", detail, f"{SET_UP} registers them")
    waiting = [name for name, state in states.items() if state == REGISTERING]
    if waiting:
        detail = f"being registered, region by region: {', '.join(waiting)}"
        fix = "wait some minutes, then plan doctor azure again; regions that are done can be used already"
        return unknown("resource providers", detail, fix)
    return ok("resource providers", f"{len(NAMESPACES)} registered")


def _permission(account: AzureAccount) -> Check:
    missing_names = [action for action in LAUNCH_ACTIONS if not account.may(action)]
    if missing_names:
        detail = f"the sign-in may not: {', '.join(missing_names)}"
        fix = "whoever owns the subscription grants the role of docs/permissions/azure/client.json, or Contributor"
        return refused("permission", detail, fix)
    return ok("permission", "the sign-in may launch and delete")


def _set_up(account: AzureAccount) -> Check:
    identity = account.identity()
    return ok("set-up", f"machines are {identity.path.rpartition('/')[2]}")


def _self_deletion(account: AzureAccount) -> Check:
    """Check the self-deletion. Without it Azure's timer only deallocates a machine that has ended, and its disk and
    address continue to bill.
    """
    if account.role():
        return ok("self-deletion", "a machine may delete its own group")
    lacks = "its role is not defined" if account.may(GRANTS) else f"the sign-in may not {GRANTS} (Contributor may not)"
    behind = (
        "Azure deallocates it after its deadline, disk and address bill on"
        if account.settings.cloud_timer
        else ("no timer in the cloud would end the machine without this computer: `cloud_timer` is none")
    )
    return Check(
        name="self-deletion",
        state=UNKNOWN if account.settings.cloud_timer else REFUSED,
        detail=f"a machine cannot delete its own group: {lacks}; if this computer is lost, {behind}",
        fix="whoever owns the subscription grants Role Based Access Control Administrator, then plan setup azure",
    )


def _offered(account: AzureAccount, offer: Offer) -> Check:
    size, where = account.size(offer.region, offer.instance_type), f"{offer.instance_type} in {offer.region}"
    if size is None:
        return refused("offered here", f"there is no {where}", "choose another region")
    if size.refusal:
        fix = "ask for access in the portal (Help + support, quota, Compute-VM), or choose another region"
        return refused("offered here", f"the subscription does not get {where}: {size.refusal}", fix)
    return ok("offered here", f"{where} is offered to the subscription")


def _region(account: AzureAccount, offer: Offer) -> list[Check]:
    """A line where the subscription can create nothing in the region."""
    shut = closed(account, [offer.region])
    fix = "choose one of these regions, or ask whoever owns the subscription's policies"
    return [refused("region", f"{name}: {why}", fix) for name, why in shut.items()]


def _timed(account: AzureAccount, offer: Offer) -> Check:
    if not account.is_timed(offer.region):
        detail = f"{offer.region} has no {SCHEDULER}: Azure would not end a machine there at its deadline"
        return refused("deadline timer", detail, NO_TIMER_HERE)
    return ok("deadline timer", f"{SCHEDULER} is offered in {offer.region}")


def _quota(account: AzureAccount, offer: Offer) -> Check:
    quotas = account.quotas(offer.region)
    size = account.size(offer.region, offer.instance_type)
    names = quota_names(offer, size.family if size else "")
    need = offer.vcpus or 0
    lines = []
    for name in names:
        quota = quotas.get(name)
        if quota is None:
            continue
        lines.append(f"{quota.used} of {quota.limit} used: {quota.name}")
        if quota.free < need:
            fix = account.raising(
                f"raise {quota.name} in {offer.region} to at least {quota.used + need}: {QUOTAS_PAGE}"
            )
            return refused("quota", f"{lines[-1]}, {need} needed", fix)
    if not lines:
        detail = f"Azure lists no quota for {offer.instance_type} in {offer.region}"
        return unknown("quota", detail)
    return ok("quota", "; ".join(lines))


def _retired(offer: Offer) -> Check:
    cycle = offer.lifecycle
    detail = f"{offer.instance_type} was retired on {cycle.date}; take {cycle.successor}"
    fix = "Azure rents it to no new customers; only an account that still has some may rent it"
    return unknown("lifecycle", detail, fix)


ACCOUNT_CHECKS: Mapping[str, Callable[[AzureAccount], Check]] = {
    "subscription": _subscription,
    "resource providers": _registered,
    "permission": _permission,
    "set-up": _set_up,
    "self-deletion": _self_deletion,
}
