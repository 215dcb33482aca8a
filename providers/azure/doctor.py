"""`plan doctor azure`: the account, looked at from every side at once."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from queue import Empty, Queue
from threading import Thread
from typing import TYPE_CHECKING

from providers.azure.account import GRANTS, SET_UP
from providers.azure.preflight import ACCOUNT_CHECKS, checked
from providers.base import Check, PreflightState, RunId
from providers.errors import PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.azure.account import Account
    from providers.rented import Rented

ANSWERS_WITHIN_SECONDS = 6.0
_NOBODY = RunId("doctor")
_HOLDS_LATER = f"{SET_UP} grants Storage Blob Data Contributor; a new right takes up to 30 minutes to hold"


def examine(account: Account, rented: Rented, machines_may_write: Callable[[], bool]) -> Sequence[Check]:
    """One line each; nothing is created, nothing is raised. `machines_may_write` looks at their right to the container,
    and raises ProviderError."""
    looks = [
        *((name, partial(look, account)) for name, look in ACCOUNT_CHECKS.items()),
        ("run directories", partial(_run_directories, rented)),
        ("machines' data", partial(_machines_data, machines_may_write)),
        ("granting", partial(_granting, account)),
    ]
    answers: Queue[tuple[int, Check]] = Queue()
    for number, (name, look) in enumerate(looks):
        # Nobody waits for one that hangs, also not when the command ends.
        Thread(
            target=lambda *row: answers.put((row[0], checked(*row[1:]))), args=(number, name, look), daemon=True
        ).start()
    return _in_time([name for name, _ in looks], answers)


def _in_time(names: Sequence[str], answers: Queue[tuple[int, Check]]) -> Sequence[Check]:
    found: dict[int, Check] = {}
    until = time.monotonic() + ANSWERS_WITHIN_SECONDS
    while len(found) < len(names) and (left := until - time.monotonic()) > 0:
        with contextlib.suppress(Empty):
            number, check = answers.get(timeout=left)
            found[number] = check
    silent = f"no answer within {ANSWERS_WITHIN_SECONDS:.0f} s"
    return [
        found.get(number) or Check(name=name, state=PreflightState.UNKNOWN, detail=silent, fix="look at the network")
        for number, name in enumerate(names)
    ]


def _run_directories(rented: Rented) -> Check:
    """Whether the person may read where machines write."""
    try:
        store = rented.store(_NOBODY)
        store.list()
    except PermissionDeniedError as error:
        detail = f"{error.message} (owning the subscription is no right to what is in its storage)"
        return Check(name="run directories", state=PreflightState.REFUSED, detail=detail, fix=_HOLDS_LATER)
    return Check(name="run directories", state=PreflightState.OK, detail=store.uri.rpartition("/runs/")[0])


def _machines_data(machines_may_write: Callable[[], bool]) -> Check:
    """A machine that may not write its run directory ends at its boot deadline, and has billed until then."""
    if machines_may_write():
        return Check(name="machines' data", state=PreflightState.OK, detail="machines may write run directories")
    return Check(
        name="machines' data",
        state=PreflightState.REFUSED,
        detail="nobody has granted the machines' identity a right to the container of run directories",
        fix=f"whoever may assign roles runs {SET_UP}",
    )


def _granting(account: Account) -> Check:
    """What a Contributor cannot have: it may make machines, and grant nothing to them."""
    if account.may(GRANTS):
        return Check(name="granting", state=PreflightState.OK, detail="the sign-in may assign roles")
    return Check(
        name="granting",
        state=PreflightState.UNKNOWN,
        detail="the sign-in may not assign roles: it can launch, stop and delete with the rights that somebody else "
        "granted, but not set up, and its machines cannot delete their groups by themselves",
        fix="an owner runs plan setup azure once, or grants Role Based Access Control Administrator",
    )
