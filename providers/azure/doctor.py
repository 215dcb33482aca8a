"""`plan doctor azure`: the account, looked at from every side at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from trainplan.providers.azure.account import GRANTS, SET_UP, AzureAccount
from trainplan.providers.azure.alarm import LATE
from trainplan.providers.azure.listing import others_groups
from trainplan.providers.azure.preflight import ACCOUNT_CHECKS, of_error
from trainplan.providers.azure.quotas import quotas_line, regions_line
from trainplan.providers.base import Check, RunId
from trainplan.providers.cloud.alarm import Alarm, check
from trainplan.providers.cloud.checks import LIMIT, Limit, Look, check_lines, ok, refused, unknown
from trainplan.providers.errors import PermissionDeniedError

if TYPE_CHECKING:
    from trainplan.providers.cloud.launch import Rented

_NOBODY = RunId("doctor")
_MOST_NAMES = 3
_ANY_ROLE = "any role (docs/permissions/azure/README.md has the condition for people who only launch)"
_HOLDS_LATER = f"{SET_UP} grants Storage Blob Data Contributor; a new right takes up to 30 minutes to hold"


def examine(
    account: AzureAccount,
    rented: Rented,
    machines_may_write: Callable[[], bool],
    alarm: Callable[[], Alarm | None],
    limit: Limit = LIMIT,
) -> Sequence[Check]:
    """Return one line for each check; nothing is created, nothing is raised. `machines_may_write` looks at their right
    to the container, `alarm` at the monthly alarm; both raise ProviderError.
    """
    looks: dict[str, Look] = {
        "quotas": partial(quotas_line, account),
        "regions": partial(regions_line, account),
        **{name: partial(look, account) for name, look in ACCOUNT_CHECKS.items()},
        "run directories": partial(_run_directories, rented),
        "machines' data": partial(_machines_data, machines_may_write),
        "granting": partial(_granting, account),
        "scope": partial(_scope, account),
        "alarm": partial(check, alarm, LATE, SET_UP),
    }
    return check_lines(looks, of_error, limit)


def _run_directories(rented: Rented) -> Check:
    """Whether the person may read where machines write."""
    try:
        store = rented.store(_NOBODY)
        store.list()
    except PermissionDeniedError as error:
        detail = (
            f"{error.message} (the owner of a subscription has no right to the data in its "
            "storage without a role for that)"
        )
        return refused("run directories", detail, _HOLDS_LATER)
    return ok("run directories", store.uri.rpartition("/runs/")[0])


def _machines_data(machines_may_write: Callable[[], bool]) -> Check:
    """A machine that may not write its run directory ends at its boot deadline, and has billed until then."""
    if machines_may_write():
        return ok("machines' data", "machines may write run directories")
    return refused(
        "machines' data",
        "nobody has granted the machines' identity a right to the container of run directories",
        f"whoever may assign roles runs {SET_UP}",
    )


def _granting(account: AzureAccount) -> Check:
    """What a Contributor cannot have: it may make machines, and grant nothing to them."""
    if account.may(GRANTS):
        narrowed = "the machines' role to machines, and no other" if account.is_narrowed(GRANTS) else _ANY_ROLE
        return ok("granting", f"the sign-in may assign {narrowed}")
    return unknown(
        "granting",
        (
            "the sign-in may not assign roles: it can launch, stop and delete with the rights that somebody else "
            "granted, but not set up, and its machines cannot delete their groups by themselves"
        ),
        "an owner runs plan setup azure once, or grants Role Based Access Control Administrator",
    )


def _scope(account: AzureAccount) -> Check:
    """Whether the subscription is for these runs alone: Azure has no condition that narrows what the client's role
    deletes."""
    others = others_groups(account)
    if not others:
        detail = "the subscription holds no resource groups but those of runs and of the set-up"
        return ok("scope", detail)
    text = ", ".join(others[:_MOST_NAMES]) + (
        f" and {len(others) - _MOST_NAMES} more" if len(others) > _MOST_NAMES else ""
    )
    return ok(
        "scope",
        (
            f"the subscription also holds {len(others)} resource groups that are not of runs ({text}): "
            "whoever has the role trainplan client can delete them"
        ),
        "a subscription for these runs alone (docs/permissions)",
    )
