"""What AWS ends by itself when the alarm's amount is spent: an action of the budget, and the standing reaper.

The action that stops machines (RUN_SSM_DOCUMENTS, STOP_EC2_INSTANCES) names their ids when it is made, one to a hundred
of one region (botocore 1.44, budgets, SsmActionDefinition), so it can stop none that is launched later. The one that
works for those attaches a policy to a role (APPLY_IAM_POLICY): AWS attaches `trainplan-stop` to the reaper's role, and
the reaper (deadline.py), which looks every ten minutes, ends every machine of ours while that is so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainplan.providers.aws.permissions import POLICY, trust
from trainplan.providers.aws.permissions import policy as document_of
from trainplan.providers.aws.settings import ALARM_ROLE, REAPER, STOP_POLICY
from trainplan.providers.aws.setup_steps import TAGS, StandingResources, role_arn, step
from trainplan.providers.cloud.alarm import NAME, Alarm
from trainplan.providers.cloud.checks import refused
from trainplan.workloads.wording import Command, Option, Text

if TYPE_CHECKING:
    from trainplan.providers.abilities import SetupStep
    from trainplan.providers.aws.permissions import Identity
    from trainplan.providers.base import Check, VendorRequest

ENDS = "every machine of trainplan in this account, whoever launched it"
WHAT = (
    f"when AWS knows that all of it is spent, it attaches the policy {STOP_POLICY} to the role {REAPER}; the reaper "
    f"then ends, within 10 minutes, {ENDS}, and launches are refused, until "
    f"{Command('setup', 'aws', Option.ALARM('AMOUNT')).typed} is typed "
    "again. What was trained since the last checkpoint is lost; disks and buckets stay"
)
REARM = Text(Command("setup", "aws", Option.ALARM("AMOUNT"), Option.EMAIL("ADDRESS"), Option.STOP), " sets it anew")
NEWS_HOURS = "AWS renews what a budget knows up to three times a day, typically 8 to 12 hours after the last time"
"""So AWS's page on budgets, as guides of 2025 and 2026 quote it; of CreateBudgetAction nothing else is said."""
_SERVICE = "budgets"
_ALL_SPENT = {"ActionThresholdValue": 100.0, "ActionThresholdType": "PERCENTAGE"}


@dataclass(frozen=True)
class AlarmStop:
    """Every look raises ProviderError."""

    at: StandingResources

    def stands(self) -> bool:
        """Whether the budget has an action of ours."""
        return bool(self._actions())

    def is_armed(self, wanted: Alarm) -> bool:
        """Whether an action stands that ends what runs, tells the same people, and has not fired."""
        actions = self._actions()
        if len(actions) != 1 or self.at.account.is_stopped():
            return False
        found, asked = actions[0], self._action(wanted)
        people = {str(one["Address"]) for one in found.get("Subscribers", ()) if one["SubscriptionType"] == "EMAIL"}
        same = all(found.get(name) == asked[name] for name in ("NotificationType", "ActionThreshold", "ApprovalModel"))
        roles = found["Definition"]["IamActionDefinition"].get("Roles")
        return same and roles == [REAPER] and people == set(wanted.emails)

    def steps(self, wanted: Alarm) -> list[SetupStep]:
        """What makes it, after the budget and the standing reaper."""
        if self.is_armed(wanted) and not self._role_calls():
            return []
        whole = step(
            "alarm's role", "what AWS Budgets may do: attach that one policy to that one role", self._role_calls()
        )
        calls = [*self._disarming(), self._call("CreateBudgetAction", **self._action(wanted))]
        armed = step("alarm's stop", f"{WHAT}. {NEWS_HOURS}. Free for two budgets of an account", calls)
        return [one for one in (whole, armed) if one is not None]

    def disarming(self) -> list[SetupStep]:
        """What takes it away, before its budget is deleted or changed to one that warns alone."""
        there = self._actions() or self.at.account.is_stopped()
        steps = [
            step(
                "alarm's stop",
                "the action of the budget: nothing is ended any more",
                self._disarming() if there else [],
            ),
            step("alarm's role", f"the role {ALARM_ROLE} and the policy {STOP_POLICY}", self._roleless()),
        ]
        return [one for one in steps if one is not None]

    def _actions(self) -> list[Mapping[str, Any]]:
        """The budget's actions that are ours; a person may have made others."""
        rows: list[Mapping[str, Any]] = []
        more: dict[str, str] = {}
        while True:
            reply = self.at.find(_SERVICE, "DescribeBudgetActionsForBudget", {**self._who(), **more})
            rows += (reply or {}).get("Actions", ())
            if not (reply or {}).get("NextToken"):
                break
            more = {"NextToken": reply["NextToken"]}
        ours = self._policy_arn()
        return [row for row in rows if row["Definition"].get("IamActionDefinition", {}).get("PolicyArn") == ours]

    def _action(self, wanted: Alarm) -> dict[str, Any]:
        people = [{"SubscriptionType": "EMAIL", "Address": address} for address in wanted.emails]
        return {
            "NotificationType": "ACTUAL",
            "ActionType": "APPLY_IAM_POLICY",
            "ActionThreshold": _ALL_SPENT,
            "Definition": {"IamActionDefinition": {"PolicyArn": self._policy_arn(), "Roles": [REAPER]}},
            "ExecutionRoleArn": role_arn(self.at.account.identity(), ALARM_ROLE),
            "ApprovalModel": "AUTOMATIC",
            "Subscribers": people,
        }

    def _disarming(self) -> list[VendorRequest]:
        """An action that has fired would not do so again: it is made anew, and its policy is taken from the role."""
        calls = []
        if self.at.account.is_stopped():
            calls.append(self.at.call("iam", "DetachRolePolicy", RoleName=REAPER, PolicyArn=self._policy_arn()))
        return [*calls, *(self._call("DeleteBudgetAction", ActionId=row["ActionId"]) for row in self._actions())]

    def _role_calls(self) -> list[VendorRequest]:
        who = self.at.account.identity()
        calls = []
        if self.at.find("iam", "GetPolicy", {"PolicyArn": self._policy_arn()}) is None:
            document = json.dumps(document_of("stop", who, self.at.bucket))
            calls.append(self.at.call("iam", "CreatePolicy", PolicyName=STOP_POLICY, PolicyDocument=document))
        wanted = document_of("alarm-role", who, self.at.bucket)
        if (role := self.at.role(ALARM_ROLE)) is None:
            trusted = json.dumps(trust("budgets", who))
            calls.append(
                self.at.call("iam", "CreateRole", RoleName=ALARM_ROLE, AssumeRolePolicyDocument=trusted, Tags=TAGS)
            )
        by_name = {"RoleName": ALARM_ROLE, "PolicyName": POLICY}
        has = self.at.find("iam", "GetRolePolicy", by_name) if role is not None else None
        if has is None or has["PolicyDocument"] != wanted:
            calls.append(self.at.call("iam", "PutRolePolicy", **by_name, PolicyDocument=json.dumps(wanted)))
        return calls

    def _roleless(self) -> list[VendorRequest]:
        calls = []
        if self.at.role(ALARM_ROLE) is not None:
            by_name = {"RoleName": ALARM_ROLE, "PolicyName": POLICY}
            has = self.at.find("iam", "GetRolePolicy", by_name)
            calls += [self.at.call("iam", "DeleteRolePolicy", **by_name)] if has else []
            calls.append(self.at.call("iam", "DeleteRole", RoleName=ALARM_ROLE))
        if self.at.find("iam", "GetPolicy", {"PolicyArn": self._policy_arn()}) is not None:
            calls.append(self.at.call("iam", "DeletePolicy", PolicyArn=self._policy_arn()))
        return calls

    def _policy_arn(self) -> str:
        return stop_policy_arn(self.at.account.identity())

    def _who(self) -> dict[str, object]:
        return {"AccountId": self.at.account.identity().account, "BudgetName": NAME}

    def _call(self, operation: str, **parameters: object) -> VendorRequest:
        return self.at.call(_SERVICE, operation, **self._who(), **parameters)


def stop_check(name: str, *, is_stopped: bool) -> Check | None:
    """The line of a doctor or a preflight while the alarm ends what runs; None while it does not."""
    if not is_stopped:
        return None
    detail = "the account's alarm is spent: every machine of trainplan is ended, and none is launched"
    return refused(name, detail, f"{REARM}; without {Option.STOP} it warns alone")


def stop_policy_arn(who: Identity) -> str:
    """The ARN of the policy that means: end what runs."""
    return f"arn:{who.partition}:iam::{who.account}:policy/{STOP_POLICY}"
