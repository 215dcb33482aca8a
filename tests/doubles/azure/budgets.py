"""Budgets and costs of the subscription in Cost Management, as Microsoft's reference of Budgets 2024-08-01 has them.

A new monthly budget begins with the first of a month that is not over, and keeps its begin: the words of that refusal
are those of https://github.com/Azure/CanadaPubSecALZ/issues/317. It ends ten years later where no end is given. At most
five notifications, each with one to fifty addresses and a threshold from 0 to 1000; a change names the version that it
changes. Costs come in pages.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.doubles.azure.values import Answer, ArmError, Request

if TYPE_CHECKING:
    from tests.doubles.azure.arm import Arm, Take

CURRENCY = "CHF"
_YEARS = 10
_MOST_RULES, _MOST_PEOPLE, _MOST_PERCENT = 5, 50, 1000


def routes(home: str) -> list[tuple[str, str, Take]]:
    budget = home + r"/providers/Microsoft\.Consumption/budgets/(?P<name>[^/]+)"
    query = home + r"/providers/Microsoft\.CostManagement/query"
    return [("GET", budget, _get), ("PUT", budget, _put), ("DELETE", budget, _delete), ("POST", query, _costs)]


def _costs(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    """Rows of `world.costs` (run, category, sub-category, cost), two a page, in the form of Microsoft's reference."""
    dataset = request.body["dataset"]
    names = [entry["name"] for entry in dataset["grouping"]]
    if request.body["timeframe"] != "Custom" or names[1:] != ["MeterCategory", "MeterSubCategory"]:
        raise ArmError(400, "BadRequest", "Invalid query definition.")
    begin = int(request.query.get("$skiptoken", "0"))
    rows = [[cost, names[0], run, *rest, CURRENCY] for run, *rest, cost in arm.world.costs[begin : begin + 2]]
    columns = ["Cost", "TagKey", "TagValue", "MeterCategory", "MeterSubCategory", "Currency"]
    more = f"{request.path}?api-version=2025-03-01&$skiptoken={begin + 2}" if begin + 2 < len(arm.world.costs) else None
    shown = {"columns": [{"name": name} for name in columns], "rows": rows, "nextLink": more}
    return Answer(200, {"properties": shown})


def _get(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    return Answer(200, _known(arm, parameters))


def _known(arm: Arm, parameters: dict[str, str]) -> dict[str, Any]:
    if parameters["name"] not in arm.world.budgets:
        raise ArmError(404, "NotFound", f"The budget {parameters['name']} is not found.")
    return arm.world.budgets[parameters["name"]]


def _put(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    known = arm.world.budgets.get(parameters["name"])
    if known is not None and request.body.get("eTag") != known["eTag"]:
        raise ArmError(412, "PreconditionFailed", "The eTag is not that of the latest version.")
    properties = request.body["properties"]
    begins = properties["timePeriod"]["startDate"]
    if known is None:
        _check_begin(arm, begins)
    elif datetime.fromisoformat(begins) != datetime.fromisoformat(known["properties"]["timePeriod"]["startDate"]):
        raise ArmError(400, "400", "Start date of budgets cannot be updated. Please delete and create a new budget.")
    _check(properties)
    version = int(known["eTag"]) + 1 if known else 1
    arm.world.budgets[parameters["name"]] = {
        "id": request.path,
        "name": parameters["name"],
        "eTag": str(version),
        "properties": {
            **properties,
            "timePeriod": {"endDate": f"{int(begins[:4]) + _YEARS}{begins[4:]}", **properties["timePeriod"]},
            "currentSpend": {"amount": 0.0, "unit": CURRENCY},
        },
    }
    return Answer(200 if known else 201, arm.world.budgets[parameters["name"]])


def _check_begin(arm: Arm, begins: str) -> None:
    begin = datetime.fromisoformat(begins)
    if begin.day != 1 or begin < arm.world.now.replace(day=1, hour=0, minute=0, second=0, microsecond=0):
        raise ArmError(400, "InvalidArgument", "startDate is not valid.")


def _check(properties: dict[str, Any]) -> None:
    rules = list(properties["notifications"].values())
    wrong = (
        (properties["timeGrain"] != "Monthly" or properties["category"] != "Cost", "timeGrain"),
        (properties["amount"] <= 0, "amount"),
        (len(rules) > _MOST_RULES, "notifications"),
        (any(not 1 <= len(rule["contactEmails"]) <= _MOST_PEOPLE for rule in rules), "contactEmails"),
        (any(not 0 < rule["threshold"] <= _MOST_PERCENT for rule in rules), "threshold"),
    )
    for is_wrong, name in wrong:
        if is_wrong:
            raise ArmError(400, "InvalidArgument", f"{name} is not valid.")


def _delete(arm: Arm, request: Request, parameters: dict[str, str]) -> Answer:
    _known(arm, parameters)
    del arm.world.budgets[parameters["name"]]
    return Answer(200)
