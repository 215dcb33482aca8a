"""Which permission a call of Resource Manager takes, and whether a role, with the condition on it, gives it."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.doubles.needs import needs

ASSIGNMENTS = "Microsoft.Authorization/roleAssignments"
_GROUPS = {"resourcegroups": "resourceGroups"}
_TOKEN = re.compile(
    r"\s*(?:(?P<mark>[()!])|(?P<word>AND|OR)\b|ActionMatches\{'(?P<action>[^']+)'\}"
    r"|@(?P<source>Request|Resource)\[(?P<attribute>[^\]]+)\]\s+(?P<operator>[\w:]+)\s+"
    r"(?:'(?P<text>[^']*)'|\{(?P<values>[^}]*)\}))"
)


def call_of(method: str, path: str) -> str:
    """The call as tests/doubles/needs.csv names it: its method and its resource type, or what it lets one do."""
    parts = [part for part in path.split("/") if part]
    if "providers" not in parts or parts[-1] == "providers":
        return f"{method} {'/'.join(['Microsoft.Resources', *(_GROUPS.get(kind, kind) for kind in parts[::2])])}"
    at = len(parts) - 1 - parts[::-1].index("providers")
    namespace, rest = parts[at + 1], parts[at + 2 :]
    if not rest:
        return f"{method} Microsoft.Resources/subscriptions/providers"
    if "publishers" in rest:
        return f"{method} {namespace}/locations/publishers/artifacttypes/offers/skus/versions"
    doing = len(rest) % 2 == 1 and method == "POST"
    kinds = [*rest[:-1:2], rest[-1]] if doing else rest[::2]
    return f"{method} {'/'.join([namespace, *kinds])}"


def actions_for(method: str, path: str, body: Any = None) -> list[str]:
    """The permissions that a call needs, its own first. Raises UnknownCallError."""
    told = body if isinstance(body, dict) else {}
    properties = told.get("properties") if isinstance(told.get("properties"), dict) else {}
    parameters = {**{key: value for key, value in told.items() if key != "properties"}, **(properties or {})}
    return [need.action for need in needs("azure", call_of(method, path), parameters)]


def permits(granted: Sequence[Mapping[str, Any]], action: str, attributes: Mapping[str, str]) -> bool:
    """Whether one of the permissions (as `permissions` lists them) gives the action on what has these attributes."""
    return any(
        _matches(action, row.get("actions", ()))
        and not _matches(action, row.get("notActions", ()))
        and (not row.get("condition") or holds(row["condition"], action, attributes))
        for row in granted
    )


def holds(condition: str, action: str, attributes: Mapping[str, str]) -> bool:
    """What Azure's page on the format of conditions (version 2.0) says of one. Raises ValueError for another form.

    `attributes` by source and name: `Request:Microsoft.Authorization/roleAssignments:PrincipalId`.
    """
    tokens = list(_tokens(condition))
    found = _either(tokens, action, attributes)
    if tokens:
        raise ValueError(f"the condition goes on with {tokens[0]}")
    return found


def attributes_of(source: str, properties: Mapping[str, Any]) -> dict[str, str]:
    """Of a role assignment that is asked for (`Request`) or that is there (`Resource`)."""
    names = {
        "RoleDefinitionId": "roleDefinitionId",
        "PrincipalId": "principalId",
        "PrincipalType": "principalType",
    }
    return {
        f"{source}:{ASSIGNMENTS}:{name}": str(properties.get(key, "")).rpartition("/")[2] for name, key in names.items()
    }


def _matches(action: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def _tokens(condition: str) -> Iterator[re.Match[str]]:
    at = 0
    text = condition.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"the condition cannot be read from {text[at : at + 40]!r}")
        yield found
        at = found.end()


def _either(tokens: list[re.Match[str]], action: str, attributes: Mapping[str, str]) -> bool:
    found = _both(tokens, action, attributes)
    while tokens and tokens[0]["word"] == "OR":
        tokens.pop(0)
        found = _both(tokens, action, attributes) or found
    return found


def _both(tokens: list[re.Match[str]], action: str, attributes: Mapping[str, str]) -> bool:
    found = _one(tokens, action, attributes)
    while tokens and tokens[0]["word"] == "AND":
        tokens.pop(0)
        found = _one(tokens, action, attributes) and found
    return found


def _one(tokens: list[re.Match[str]], action: str, attributes: Mapping[str, str]) -> bool:
    if not tokens:
        raise ValueError("the condition ends too early")
    token = tokens.pop(0)
    if token["mark"] == "!":
        return not _one(tokens, action, attributes)
    if token["mark"] == "(":
        found = _either(tokens, action, attributes)
        if not tokens or tokens.pop(0)["mark"] != ")":
            raise ValueError("a bracket of the condition is not closed")
        return found
    if token["action"]:
        return _matches(action, [token["action"]])
    if token["attribute"] is None:
        raise ValueError(f"the condition has {token[0]!r} where a comparison should be")
    return _compared(token, attributes)


def _compared(token: re.Match[str], attributes: Mapping[str, str]) -> bool:
    """An attribute that is not there makes a comparison false."""
    value = attributes.get(f"{token['source']}:{token['attribute']}", "")
    if token["operator"] == "ForAnyOfAnyValues:GuidEquals":
        return value.lower() in [one.strip().lower() for one in (token["values"] or "").split(",")]
    if token["operator"] == "StringLike":
        return bool(value) and fnmatch.fnmatchcase(value, token["text"] or "")
    raise ValueError(f"{token['operator']} is no comparison that is known here")
