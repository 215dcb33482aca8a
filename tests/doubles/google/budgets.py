"""Budgets of a billing account and mail channels of a project, on loopback, as Google's descriptions have them.

A budget names channels that exist, at most five; its amount is in the account's currency, which it has after its
create. Projects are told by their number, as Google does; that a filter by id is taken is written in the description.
A change replaces the fields that its `updateMask` names, and without one only those that it sets to another value than
their type's default, each inside its message ("only fields with non-default values from the request are updated").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.doubles.google.world import Call, RefusedError, World

DOCUMENTS = ("billingbudgets.v1", "monitoring.v3", "bigquery.v2")
ACCOUNT = "billingAccounts/000000-111111-222222"
MOST_CHANNELS = 5
_SUM = re.compile(r"CAST\((.*) AS STRING\) AS (\w+)")
FIELDS = ("displayName", "budgetFilter", "amount", "thresholdRules", "notificationsRule", "ownershipScope", "spendCap")


@dataclass
class Budgets:
    """By name. `currency` is what the billing account is billed in."""

    budgets: dict[str, dict[str, Any]] = field(default_factory=dict)
    channels: dict[str, dict[str, Any]] = field(default_factory=dict)
    currency: str = "EUR"
    page: int = 2
    costs: list[dict[str, str]] = field(default_factory=list)
    """Rows of the export as the query of `plan bill` groups them, cost and credit apart; in pages."""
    asked: dict[str, Any] = field(default_factory=dict)
    """The query that was asked last."""


def _budget_name(call: Call) -> str:
    return f"billingAccounts/{call.path['billingAccountsId']}/budgets/{call.path['budgetsId']}"


def _channel_name(call: Call, number: str) -> str:
    return f"projects/{call.path['projectsId']}/notificationChannels/{number}"


def _budgets(world: World) -> Budgets:
    return world.table(Budgets)


def _paged(rows: list[dict[str, Any]], key: str, call: Call, size: int) -> dict[str, Any]:
    begin = int(call.query.get("pageToken", "0"))
    more = begin + size < len(rows)
    return {key: rows[begin : begin + size], **({"nextPageToken": str(begin + size)} if more else {})}


def _list(world: World, call: Call) -> dict[str, Any]:
    table = _budgets(world)
    return _paged(list(table.budgets.values()), "budgets", call, table.page)


def _kept(world: World, name: str, body: dict[str, Any]) -> dict[str, Any]:
    table = _budgets(world)
    amount = body["amount"]["specifiedAmount"]
    if amount.get("currencyCode", table.currency) != table.currency:
        raise RefusedError(400, "badRequest", "The currency code must match the currency of the billing account.")
    if int(amount.get("units", 0)) <= 0 and int(amount.get("nanos", 0)) <= 0:
        raise RefusedError(400, "badRequest", "The budget amount must be positive.")
    named = body.get("notificationsRule", {}).get("monitoringNotificationChannels", [])
    if len(named) > MOST_CHANNELS or not set(named) <= set(table.channels):
        raise RefusedError(400, "badRequest", f"Invalid notification channels: {named}")
    shown = {**body, "name": name, "etag": f"e{len(table.budgets)}"}
    shown["amount"] = {"specifiedAmount": {**amount, "currencyCode": table.currency}}
    table.budgets[name] = shown
    return shown


def _create(world: World, call: Call) -> dict[str, Any]:
    return _kept(world, f"{ACCOUNT}/budgets/b{len(_budgets(world).budgets) + 1}", call.body)


def _patch(world: World, call: Call) -> dict[str, Any]:
    name = _budget_name(call)
    _known(_budgets(world).budgets, name)
    changed = deepcopy(_budgets(world).budgets[name])
    paths = [path.split(".") for path in call.query.get("updateMask", "").split(",") if path]
    if not paths:
        _merge(changed, call.body)
    elif any(path[0] not in FIELDS for path in paths):
        raise RefusedError(400, "badRequest", f"Invalid update mask: {call.query['updateMask']}")
    elif "spendCap" in changed and ["spendCap"] not in [path[:1] for path in paths]:
        raise RefusedError(400, "badRequest", "The update mask of a spend cap budget must name spend_cap.")
    for path in paths:
        _replace(changed, call.body, path)
    return _kept(world, name, changed)


def _merge(kept: dict[str, Any], sent: dict[str, Any]) -> None:
    for key, value in sent.items():
        if isinstance(value, dict):
            _merge(kept.setdefault(key, {}), value)
        elif value not in (0, "", "0", False, []):
            kept[key] = value


def _replace(kept: dict[str, Any], sent: dict[str, Any], path: Sequence[str]) -> None:
    name, *within = path
    if within:
        _replace(kept.setdefault(name, {}), sent.get(name, {}), within)
    elif name in sent:
        kept[name] = sent[name]
    else:
        kept.pop(name, None)


def _delete(world: World, call: Call) -> dict[str, Any]:
    name = _budget_name(call)
    _known(_budgets(world).budgets, name)
    del _budgets(world).budgets[name]
    return {}


def _known(rows: dict[str, dict[str, Any]], name: str) -> None:
    if name not in rows:
        raise RefusedError(404, "notFound", f"{name} is not found.")


def _list_channels(world: World, call: Call) -> dict[str, Any]:
    table = _budgets(world)
    return _paged(list(table.channels.values()), "notificationChannels", call, table.page)


def _create_channel(world: World, call: Call) -> dict[str, Any]:
    table = _budgets(world)
    name = _channel_name(call, str(len(table.channels) + 1))
    table.channels[name] = {**call.body, "name": name, "enabled": True}
    return table.channels[name]


def _delete_channel(world: World, call: Call) -> dict[str, Any]:
    name = _channel_name(call, call.path["notificationChannelsId"])
    _known(_budgets(world).channels, name)
    rules = (one["notificationsRule"] for one in _budgets(world).budgets.values())
    if any(name in rule.get("monitoringNotificationChannels", ()) for rule in rules):
        raise RefusedError(400, "badRequest", "The channel is in use.")
    del _budgets(world).channels[name]
    return {}


def _query(world: World, call: Call) -> dict[str, Any]:
    table = _budgets(world)
    table.asked = call.body
    if call.body.get("useLegacySql") is not False:
        raise RefusedError(400, "invalidQuery", "Named parameters are not supported in legacy SQL.")
    return _results(table, 0)


def _more_results(world: World, call: Call) -> dict[str, Any]:
    return _results(_budgets(world), int(call.query["pageToken"]))


def _results(table: Budgets, begin: int) -> dict[str, Any]:
    sums = {name: _terms(term) for term, name in _SUM.findall(table.asked["query"])}
    names = ("run_id", "service", "sku", "currency")
    rows = [
        [row[name] for name in names] + [str(sum(Decimal(row.get(term, "0")) for term in sums[name])) for name in sums]
        for row in table.costs[begin : begin + table.page]
    ]
    more = begin + table.page < len(table.costs)
    return {
        "kind": "bigquery#queryResponse",
        "jobComplete": True,
        "jobReference": {"projectId": "p", "jobId": "job_1", "location": "EU"},
        "schema": {"fields": [{"name": name, "type": "STRING"} for name in (*names, *sums)]},
        "rows": [{"f": [{"v": value} for value in row]} for row in rows],
        **({"pageToken": str(begin + table.page)} if more else {}),
    }


def _terms(text: str) -> list[str]:
    """The columns of a row that a sum in the query adds up. Costs are before credits, which are below 0."""
    return [name for name, words in (("cost", "SUM(cost)"), ("credit", "UNNEST(credits)")) if words in text]


HANDLERS: dict[str, Callable[[World, Call], dict[str, Any]]] = {
    "billingbudgets.billingAccounts.budgets.list": _list,
    "billingbudgets.billingAccounts.budgets.create": _create,
    "billingbudgets.billingAccounts.budgets.patch": _patch,
    "billingbudgets.billingAccounts.budgets.delete": _delete,
    "monitoring.projects.notificationChannels.list": _list_channels,
    "monitoring.projects.notificationChannels.create": _create_channel,
    "monitoring.projects.notificationChannels.delete": _delete_channel,
    "bigquery.jobs.query": _query,
    "bigquery.jobs.getQueryResults": _more_results,
}
