"""The plan of an account: a new customer's is often AWS's free plan, on which EC2 creates machines of few types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from trainplan.providers.aws.errors import NO_SUCH_THING
from trainplan.providers.base import PreflightState
from trainplan.providers.cloud.checks import ok, refused, unknown
from trainplan.providers.errors import PermissionDeniedError, ProviderError
from trainplan.workloads.wording import Option, Text

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer
    from trainplan.providers.aws.account import AwsAccount
    from trainplan.providers.base import Check

REGION = "us-east-1"
"""Where AWS Free Tier answers for the whole account (botocore's endpoints, 1.44)."""
UPGRADE = (
    "aws freetier upgrade-account-plan --account-plan-type PAID --region us-east-1 ends the free plan; what is left of "
    "the credits stays, and costs beyond them are charged from then on"
)
_CLOSES = "AWS then closes the account, and what runs ends, unless it is upgraded"
"""aws.amazon.com/free, as quoted 2026-09-13 (robhunter/agentdeals issue 1625): "The account closes on its own 6 months
after you open it or when your credits run out, whichever comes first". Its FAQ: access to resources and data is lost
(as quoted 2026-08-08)."""
_KEPT = "AWS keeps the data for 90 days after the end, and deletes it then"
"""The billing guide's page on the free tier, as quoted 2026-09-05."""
_MEANWHILE = Text("until then ", Option.DEVICE("cpu"), " launches on the cheapest of them that the price table has")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPlan:
    """What AWS Free Tier says of an account. `credits` is in words, "" where it names none."""

    is_free: bool
    has_ended: bool = False
    credits: str = ""
    ends_at: datetime | None = None


NO_PLAN = AccountPlan(is_free=False)
"""An account of which AWS Free Tier has nothing: opened before 2025-07-15, or an organisation's (assumed)."""


def account_plan(account: AwsAccount) -> AccountPlan:
    """Look the plan up. Raises ProviderError, also where the identity may not ask."""
    try:
        reply = account.api.call("freetier", REGION, "GetAccountPlanState", {})
    except ProviderError as error:
        if error.code == NO_SUCH_THING:
            return NO_PLAN
        raise
    return AccountPlan(
        is_free=reply.get("accountPlanType") == "FREE",
        has_ended=reply.get("accountPlanStatus") == "EXPIRED",
        credits=_money(reply.get("accountPlanRemainingCredits") or {}),
        ends_at=reply.get("accountPlanExpirationDate"),
    )


def types_let_in(account: AwsAccount, region: str) -> tuple[str, ...]:
    """The types that EC2 creates on the free plan in a region; AWS changes them. Raises ProviderError."""
    request = {"Filters": [{"Name": "free-tier-eligible", "Values": ["true"]}]}
    rows = account.pages(region, "DescribeInstanceTypes", request, "InstanceTypes")
    return tuple(sorted(str(row["InstanceType"]) for row in rows))


def plan_check(account: AwsAccount, region: str) -> Check:
    """The line of a doctor. Raises ProviderError."""
    plan = account.plan()
    day = f"{plan.ends_at:%Y-%m-%d}" if plan.ends_at else ""
    if not plan.is_free:
        left = f"; {plan.credits} of credits are left{f' until {day}' if day else ''}" if plan.credits else ""
        return ok("plan", f"not the free plan{left}")
    if plan.has_ended:
        return refused("plan", f"the free plan has ended{f' on {day}' if day else ''}", f"{UPGRADE}; {_KEPT}")
    free = f"free until {_end(plan.credits, day)}: {_CLOSES}"
    try:
        types = account.free_types(region)
    except PermissionDeniedError as error:
        return unknown("plan", f"{free}; which machines EC2 creates on it is not known: {error.message}", UPGRADE)
    return ok("plan", f"{free}; EC2 creates {_alone(types)} in {region}", f"{UPGRADE}; {_MEANWHILE}")


def plan_for(account: AwsAccount, offer: Offer) -> Check:
    """The line of a preflight: whether the plan lets this machine in. Raises ProviderError."""
    plan = account.plan()
    if not plan.is_free:
        return ok("plan", "not the free plan")
    if plan.has_ended:
        return refused("plan", "the free plan has ended", f"{UPGRADE}; {_KEPT}")
    types = account.free_types(offer.region)
    detail = f"on the free plan EC2 creates {_alone(types)} in {offer.region}"
    return ok("plan", detail) if offer.instance_type in types else refused("plan", detail, UPGRADE)


def closed_by_plan(account: AwsAccount, offer: Offer) -> str:
    """Why the plan keeps this machine out, in words; "" where it does not, or where nobody tells."""
    try:
        check = plan_for(account, offer)
    except ProviderError:
        return ""
    return check.detail if check.state is PreflightState.REFUSED else ""


def is_free(account: AwsAccount) -> bool:
    """Whether the account is known to be on the free plan."""
    try:
        return account.plan().is_free
    except ProviderError:
        return False


def _end(credits_left: str, day: str) -> str:
    """When a free plan ends: at its last day or with its last credit, whichever is first."""
    used_up = f"the {credits_left} of credits are used up" if credits_left else "its credits are used up"
    return f"{day or '6 months after sign-up'}, or until {used_up}, if sooner"


def _alone(types: tuple[str, ...]) -> str:
    return f"{', '.join(types)} alone" if types else "no machines"


def _money(credits_left: Mapping[str, Any]) -> str:
    amount, unit = credits_left.get("amount"), credits_left.get("unit", "USD")
    if amount is None:
        return ""
    return f"${amount:.2f}" if unit == "USD" else f"{amount:.2f} {unit}"
