"""IAM Conditions as Google evaluates them: CEL by cel-python, and the three functions that Google adds to it.

https://cloud.google.com/iam/docs/conditions-attribute-reference (extract, getAttribute, hasOnly); at most twelve
logical operators in one condition (https://cloud.google.com/iam/docs/conditions-overview#limitations).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import celpy
from celpy import celtypes

MOST_OPERATORS = 12
_OPERATORS = re.compile(r"&&|\|\||!(?!=)")
_ATTRIBUTES = {"type", "name", "service"}
_DECLARED = {"resource": celtypes.MapType, "api": celtypes.MapType}
TYPES = {
    "compute.googleapis.com/Instance": re.compile(r"projects/[^/]+/zones/[^/]+/instances/[^/]+"),
    "compute.googleapis.com/Disk": re.compile(r"projects/[^/]+/zones/[^/]+/disks/[^/]+"),
    "storage.googleapis.com/Bucket": re.compile(r"projects/_/buckets/[^/]+"),
    "storage.googleapis.com/Object": re.compile(r"projects/_/buckets/[^/]+/objects/.+"),
    "cloudresourcemanager.googleapis.com/Project": re.compile(r"projects/[^/]+"),
}
"""The form of a name of each type (https://cloud.google.com/iam/docs/conditions-resource-attributes)."""


class Resource(NamedTuple):
    """What a permission is asked about, as a condition sees it."""

    type: str
    name: str


@dataclass(frozen=True)
class Evaluator:
    """One condition. Raises AssertionError for one that Google would not take."""

    expression: str

    def __post_init__(self) -> None:
        assert len(_OPERATORS.findall(self.expression)) <= MOST_OPERATORS, self.expression
        asked = set(re.findall(r"resource\.(\w+)", self.expression))
        assert asked <= _ATTRIBUTES, asked - _ATTRIBUTES
        compiled(self.expression)

    def holds(self, resource: Resource, changed_roles: tuple[str, ...] = ()) -> bool:
        """Whether the condition is true for a permission on this resource; `changed_roles` are those of the grants
        that a change of a policy makes or takes away."""
        form = TYPES[resource.type]
        assert form.fullmatch(resource.name), f"{resource.name} is no name of {resource.type}"
        given: Any = {"resource": resource._asdict(), "api": {"iam.googleapis.com/modifiedGrantsByRole": changed_roles}}
        found = compiled(self.expression).evaluate(celpy.json_to_cel(given))  # type: ignore[attr-defined, arg-type]
        assert isinstance(found, celtypes.BoolType), found
        return bool(found)


@cache
def compiled(expression: str) -> celpy.Runner:
    environment = celpy.Environment(annotations=_DECLARED)  # type: ignore[arg-type]
    functions: Any = {"extract": _extract, "getAttribute": _get_attribute, "hasOnly": _has_only}
    return environment.program(environment.compile(expression), functions=functions)


def extracted(text: str, template: str) -> str:
    """What stands in the place of `{…}` in the first match of a template; "" where nothing matches."""
    before, rest = template.split("{", 1)
    _, after = rest.split("}", 1)
    start = text.find(before)
    if start < 0:
        return ""
    start += len(before)
    end = text.find(after, start) if after else len(text)
    return text[start:end] if end >= 0 else ""


def _extract(text: celtypes.StringType, template: celtypes.StringType) -> celtypes.StringType:
    return celtypes.StringType(extracted(str(text), str(template)))


def _get_attribute(api: Any, name: Any, default: Any) -> Any:
    return api.get(name, default)


def _has_only(value: Any, allowed: Any) -> celtypes.BoolType:
    return celtypes.BoolType(set(value) <= set(allowed))
