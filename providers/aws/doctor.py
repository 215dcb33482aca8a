"""What every launch on AWS needs of an account, looked at in parallel (providers.base.Doctor)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from providers.aws.checks import identity, network
from providers.aws.errors import DRY_RUN
from providers.aws.settings import INSTANCE_PROFILE
from providers.base import Check, PreflightState
from providers.errors import CapacityError, CredentialsError, PermissionDeniedError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from providers.aws.account import Account
    from providers.aws.standing import Standing

_SET_UP = "plan setup aws"
_REFUSING = (CredentialsError, PermissionDeniedError)


def examine(at: Standing) -> Sequence[Check]:
    """One line each for: who is signed in, the network at home, the regions that are open, what may be listed and
    ended, the bucket, the role of machines, what ends one that hangs. Creates nothing, raises nothing."""
    account = at.account
    looks: dict[str, Callable[[], Check]] = {
        "identity": lambda: identity(account),
        "regions": lambda: _regions(account),
        "network": lambda: network(account, account.api.home),
        "listing": lambda: _listing(account),
        "bucket": lambda: _bucket(at),
        "machine role": lambda: _machine_role(account),
        "timer": lambda: _timer(account),
    }
    with ThreadPoolExecutor(len(looks)) as pool:
        return list(pool.map(lambda known: _line(*known), looks.items()))


def _regions(account: Account) -> Check:
    found = account.regions()
    return _ok("regions", f"{len(found)} are open: {', '.join(found)}")


def _listing(account: Account) -> Check:
    """Whether what is left of a run could be found: a teardown that cannot look is never done."""
    try:
        account.api.call("ec2", account.api.home, "DescribeInstances", {"DryRun": True})
    except ProviderError as error:
        if error.code != DRY_RUN:
            raise
    return _ok("listing", "machines may be listed")


def _bucket(at: Standing) -> Check:
    """Whoever may make buckets needs no set-up for that: the first launch makes it."""
    if not at.has_bucket():
        return _unknown("bucket", f"there is no {at.bucket} yet: the first launch makes it where it may", _SET_UP)
    if at.store.bucket is None and not at.has_made_bucket():
        return _unknown("bucket", f"{at.bucket} is half made: the next launch goes on where it may", _SET_UP)
    return _ok("bucket", f"{at.bucket} in {at.home}")


def _machine_role(account: Account) -> Check:
    name = account.settings.instance_profile
    there = account.has_instance_profile()
    if there is None:
        return _unknown("machine role", f"whether there is an instance profile {name} may not be looked up")
    if not there:
        fix = _SET_UP if name == INSTANCE_PROFILE else "make it, or take the setting instance_profile away"
        return _refused("machine role", f"there is no instance profile {name} for the machines", fix)
    return _ok("machine role", f"instance profile {name}")


def _timer(account: Account) -> Check:
    """What ends a machine whose own timer has failed, from within AWS."""
    if account.has_reaper():
        return _ok("timer", "the standing reaper looks every 10 minutes")
    if account.has_schedule_role() is False:
        return _refused("timer", "nothing stands ready to end a machine that hangs", _SET_UP)
    detail = "no standing reaper: each machine gets a schedule right after its create, with a second in between"
    return Check(name="timer", state=PreflightState.OK, detail=detail, fix=f"{_SET_UP} installs the reaper")


def _line(name: str, look: Callable[[], Check]) -> Check:
    """What AWS refuses is refused; what it does not answer is unknown. A region without a network has no offers, and
    the others may have one."""
    try:
        return look()
    except ProviderError as error:
        refused = isinstance(error, _REFUSING)
        detail = error.message
        if isinstance(error, CapacityError):
            detail = f"{detail}; launches in other regions may have one"
        return Check(
            name=name,
            state=PreflightState.REFUSED if refused else PreflightState.UNKNOWN,
            detail=detail,
            fix=error.hint,
        )


def _ok(name: str, detail: str) -> Check:
    return Check(name=name, state=PreflightState.OK, detail=detail)


def _refused(name: str, detail: str, fix: str) -> Check:
    return Check(name=name, state=PreflightState.REFUSED, detail=detail, fix=fix)


def _unknown(name: str, detail: str, fix: str = "") -> Check:
    return Check(name=name, state=PreflightState.UNKNOWN, detail=detail, fix=fix)
