"""AWS Budgets beside moto's: actions of a budget, and what happens to a budget when something is spent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.doubles.aws.objects import ACCOUNT
from tests.doubles.iam_policy import Policy
from tests.doubles.needs import Need

FIXED = ("BudgetName", "AccountId", "ResourceTags")


class RefusedError(Exception):
    """With the code and the words of AWS Budgets."""


@dataclass
class Actions:
    """The actions of budgets, and the mails that AWS has sent, in their order."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    mails: list[dict[str, Any]] = field(default_factory=list)

    def create(self, given: dict[str, Any]) -> dict[str, Any]:
        budget_of(given["BudgetName"])
        definition = given["Definition"].get("IamActionDefinition")
        if given["ActionType"] != "APPLY_IAM_POLICY" or definition is None:
            raise RefusedError("InvalidParameterException", "the definition is not one of the action's type")
        iam = iam_of()
        role = next((one for one in iam.roles.values() if one.arn == given["ExecutionRoleArn"]), None)
        if role is None or "budgets.amazonaws.com" not in str(role.assume_role_policy_document):
            raise RefusedError("InvalidParameterException", "AWS Budgets cannot assume the execution role")
        if definition["PolicyArn"] not in iam.managed_policies:
            raise RefusedError("NotFoundException", "the policy does not exist")
        names = {one.name for one in iam.roles.values()}
        if missing := set(definition.get("Roles", ())) - names:
            raise RefusedError("InvalidParameterException", f"no role {missing}")
        row = {name: value for name, value in given.items() if name not in FIXED}
        row |= {"ActionId": str(UUID(int=len(self.rows) + 1)), "BudgetName": given["BudgetName"], "Status": "STANDBY"}
        self.rows.append(row)
        return {"AccountId": ACCOUNT, "BudgetName": given["BudgetName"], "ActionId": row["ActionId"]}

    def delete(self, name: str, action_id: str) -> dict[str, Any]:
        found = next((row for row in self.of(name) if row["ActionId"] == action_id), None)
        if found is None:
            raise RefusedError("NotFoundException", "Unable to get the action - it doesn't exist.")
        self.rows.remove(found)
        return {"AccountId": ACCOUNT, "BudgetName": name, "Action": found}

    def of(self, name: str) -> list[dict[str, Any]]:
        budget_of(name)
        return [row for row in self.rows if row["BudgetName"] == name]

    def spend(self, usd: float, credit_usd: float) -> None:
        """Costs and credits of the month so far: each budget counts as its CostTypes say, which take credits off where
        they say nothing. What is passed sends its mails; an action runs once."""
        for name, budget in all_budgets().items():
            counts_credits = budget.to_dict()["CostTypes"]["IncludeCredit"]
            share = 100 * (usd - (credit_usd if counts_credits else 0)) / float(budget.budget["BudgetLimit"]["Amount"])
            for rule in budget.notifications:
                if rule.details["NotificationType"] == "ACTUAL" and share > rule.details["Threshold"]:
                    self.mails += [
                        {"to": one["Address"], "percent": rule.details["Threshold"]} for one in rule.subscribers
                    ]
            for row in self.of(name):
                if row["Status"] == "STANDBY" and share >= row["ActionThreshold"]["ActionThresholdValue"]:
                    row["Status"] = "EXECUTION_SUCCESS" if _carried_out(row) else "EXECUTION_FAILURE"


def _carried_out(row: dict[str, Any]) -> bool:
    """Whether the execution role let the policy be attached."""
    iam, definition = iam_of(), row["Definition"]["IamActionDefinition"]
    role = next(one for one in iam.roles.values() if one.arn == row["ExecutionRoleArn"])
    held = [Policy(json.loads(text)) for text in role.policies.values()]
    for name in definition.get("Roles", ()):
        context = {"iam:PolicyARN": definition["PolicyArn"]}
        need = Need("iam:AttachRolePolicy", f"arn:aws:iam::{ACCOUNT}:role/{name}", context)
        if not any(policy.allows(need) for policy in held):
            return False
        iam.attach_role_policy(definition["PolicyArn"], name)
    return True


def all_budgets() -> dict[str, Any]:
    from moto.budgets.models import budgets_backends

    return dict(budgets_backends[ACCOUNT]["aws"].budgets[ACCOUNT])


def budget_of(name: str) -> Any:
    found = all_budgets().get(name)
    if found is None:
        raise RefusedError("NotFoundException", f"Unable to get budget: {name} - the budget doesn't exist.")
    return found


def iam_of() -> Any:
    from moto.iam.models import iam_backends

    return iam_backends[ACCOUNT]["aws"]
