"""What every launch on AWS needs of an account, looked at in parallel (trainplan.providers.abilities.Doctor)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from trainplan.providers.aws.alarm import LATE, AwsAlarm
from trainplan.providers.aws.api import CONNECTIONS
from trainplan.providers.aws.errors import DRY_RUN, is_denied_by_organisation
from trainplan.providers.aws.plan import plan_check
from trainplan.providers.aws.preflight import identity, network
from trainplan.providers.aws.quotas import quota_check
from trainplan.providers.aws.reply import tags_in
from trainplan.providers.aws.settings import INSTANCE_PROFILE
from trainplan.providers.aws.stop import stop_check
from trainplan.providers.base import LABEL_RUN, Check
from trainplan.providers.cloud.alarm import check
from trainplan.providers.cloud.checks import LIMIT, Limit, Look, check_lines, failed, ok, refused, unknown
from trainplan.providers.errors import CapacityError, CredentialsError, PermissionDeniedError, ProviderError

if TYPE_CHECKING:
    from trainplan.providers.aws.account import AwsAccount
    from trainplan.providers.aws.setup_steps import StandingResources

_SET_UP = "plan setup aws"
_PAGE = 500
_ENDED_STATES = ("shutting-down", "terminated")
_REFUSING = (CredentialsError, PermissionDeniedError)


def examine(at: StandingResources, limit: Limit = LIMIT) -> Sequence[Check]:
    """Return one line for each of: the quotas, which take the longest to change; the account's plan, who is signed in,
    the network at home, the regions that are open, what may be listed and ended, the bucket, the role of machines,
    whether the account is for runs alone, what ends a machine that hangs. Creates nothing, raises nothing.
    """
    account = at.account
    looks: dict[str, Look] = {
        "quotas": lambda: quota_check(account, _placement(account)),
        "plan": lambda: plan_check(account, _placement(account)),
        "identity": lambda: identity(account),
        "regions": lambda: _regions(account),
        "network": lambda: network(account, _placement(account)),
        "listing": lambda: _listing(account),
        "bucket": lambda: _bucket(at),
        "machine role": lambda: _machine_role(at),
        "scope": lambda: _scope(account),
        "timer": lambda: _timer(account),
        "alarm": lambda: (
            stop_check("alarm", is_stopped=account.is_stopped()) or check(AwsAlarm(at).found, LATE, _SET_UP)
        ),
    }
    return check_lines(looks, _of_error, limit)


def _placement(account: AwsAccount) -> str:
    """The home region, or the first that may be used where that is another."""
    home, allowed = account.api.home, account.settings.regions
    return home if not allowed or home in allowed else min(allowed)


def _regions(account: AwsAccount) -> Check:
    """Every region's answer, in one line: whether machines may be listed there, and whether any may be rented."""
    names = account.regions()
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        answers = dict(zip(names, pool.map(lambda region: _refusal(account, region), names), strict=True))
    pairs = [(name, _answer(account, name, error)) for name, error in answers.items()]
    groups = {answer: [name for name, value in pairs if value == answer] for _, answer in pairs}
    detail = f"{len(names)} looked at; " + "; ".join(
        f"{answer}: {', '.join(found_names)}" for answer, found_names in groups.items()
    )
    unclear = [error for name, error in answers.items() if error is not None and not account.is_denial(name, error)]
    missing_names = sorted(account.settings.regions - set(names))
    detail += f"; set, but not open to this account: {', '.join(missing_names)}" if missing_names else ""
    if unclear:
        return unknown("regions", detail, unclear[0].hint)
    return ok("regions", detail)


def _answer(account: AwsAccount, region: str, error: ProviderError | None) -> str:
    if error is None:
        allowed = account.settings.regions
        return "open" if not allowed or region in allowed else "open, not in the setting `regions`"
    if is_denied_by_organisation(error):
        return "closed by the account's organisation"
    if account.is_denial(region, error):
        return "refused, not in the setting `regions`"
    return f"no answer ({error.message.partition(': ')[2] or error.message})"


def _refusal(account: AwsAccount, region: str) -> ProviderError | None:
    """Why machines may not be listed in a region; None: they may."""
    try:
        account.api.call("ec2", region, "DescribeInstances", {"DryRun": True})
    except ProviderError as error:
        return None if error.code == DRY_RUN else error
    return None


def _listing(account: AwsAccount) -> Check:
    """Whether the account may list instances: without that a teardown can never confirm that nothing is left."""
    try:
        account.api.call("ec2", account.api.home, "DescribeInstances", {"DryRun": True})
    except ProviderError as error:
        if error.code != DRY_RUN:
            raise
    return ok("listing", "machines may be listed")


def _bucket(at: StandingResources) -> Check:
    """Check the bucket. An identity that may create buckets needs no set-up for it: the first launch creates it."""
    if not at.has_bucket():
        return unknown("bucket", f"there is no {at.bucket} yet: the first launch makes it where it may", _SET_UP)
    if at.store.bucket is None and not at.has_made_bucket():
        return unknown("bucket", f"{at.bucket} is half made: the next launch goes on where it may", _SET_UP)
    return ok("bucket", f"{at.bucket} in {at.home}")


def _machine_role(at: StandingResources) -> Check:
    account = at.account
    name = account.settings.instance_profile
    there = account.has_instance_profile()
    if there is None:
        return unknown("machine role", f"the sign-in may not check whether the instance profile {name} exists")
    if not there:
        fix = _SET_UP if name == INSTANCE_PROFILE else "make it, or take the setting instance_profile away"
        return refused("machine role", f"there is no instance profile {name} for the machines", fix)
    if lacks := at.machine_role_lacks():
        return refused("machine role", lacks, _SET_UP)
    return ok("machine role", f"instance profile {name}")


def _scope(account: AwsAccount) -> Check:
    """Whether the account is for runs alone: AWS limits no machine's role to its own run (docs/permissions/aws)."""
    region = account.api.home
    reply = account.api.call("ec2", region, "DescribeInstances", {"MaxResults": _PAGE})
    machines = [row for reservation in reply["Reservations"] for row in reservation["Instances"]]
    living = [row for row in machines if row["State"]["Name"] not in _ENDED_STATES]
    others = [row for row in living if LABEL_RUN not in tags_in(row)]
    if not others:
        return ok("scope", f"{region} holds no machines but those of runs")
    more = " or more" if reply.get("NextToken") else ""
    detail = (
        f"machines in {region} that are not of runs: {len(others)}{more}; trainplan's roles cannot end them; "
        "machines of runs may read every secret named trainplan/… and every image of the account"
    )
    fix = "an account for these runs alone (docs/permissions)"
    return ok("scope", detail, fix)


def _timer(account: AwsAccount) -> Check:
    """What ends a machine whose own timer has failed, from within AWS."""
    lacks = account.reaper_lacks()
    if not lacks:
        return ok("timer", "the standing reaper looks every 10 minutes")
    if account.has_schedule_role() is False:
        return refused("timer", "no standing reaper would end a machine that hangs", _SET_UP)
    detail = (
        f"no standing reaper ({lacks}): each machine gets a schedule right after its create, with a second in between"
    )
    return ok("timer", detail, f"{_SET_UP} installs the reaper")


def _of_error(name: str, error: ProviderError) -> Check:
    """What AWS refuses is refused; what it does not answer is unknown. A region without a network has no offers, and
    the others may have one."""
    refusing = (CredentialsError,) if name in ("quotas", "plan") else _REFUSING
    if isinstance(error, CapacityError):
        return unknown(name, f"{error.message}; launches in other regions may have one", error.hint)
    return failed(name, error, refusing)
