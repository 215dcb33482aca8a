"""What each call to a cloud needs of its caller's permissions, by its operation and its parameters.

`needs.csv` is the one table of all three clouds; doubles judge calls by it, and tests hold the documented policies
against it. Its columns:

- `cloud`, `call`: whose call it is, by the vendor's own name (`ec2:RunInstances`, `compute.instances.insert`,
  `PUT Microsoft.Compute/virtualMachines`).
- `when`: a JMESPath expression over the call's parameters; the row counts where it finds something. "": always.
- `permission`: what is needed then. "": nothing, of the parameters that `when` names, separated by spaces (`*`: any).
- `on`: the resource, with JMESPath expressions in braces; one row is several needs where an expression finds a list.
- `context`: what a policy's conditions see, `key=expression`, separated by `;`. A list of tags becomes a key for each.
- `ground`: a row of `needs_grounds.csv`: which model or page of the vendor says so, and when it was read.

A parameter that no row of its call names raises UnknownCallError: whoever sends something new looks up what it needs.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jmespath

TABLE = Path(__file__).with_name("needs.csv")
GROUNDS = Path(__file__).with_name("needs_grounds.csv")
RESOURCE_TAGS = "tags of the resource"
"""A context that the caller of `needs` looks up."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_LITERAL = re.compile(r"'[^']*'|`[^`]*`")
_PLACEMENT = re.compile(r"\{([^}]+)\}")


class UnknownCallError(Exception):
    """A call, or a parameter of one, that is in no row of the table."""


@dataclass(frozen=True)
class Need:
    """What one call needs: an action on a resource, and what is known of both. A call may need several."""

    action: str
    resource: str = "*"
    context: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.action} on {self.resource} with {dict(self.context)}"


class Row(NamedTuple):
    """One row of the table."""

    cloud: str
    call: str
    when: str
    permission: str
    on: str
    context: str
    ground: str


@cache
def rows() -> tuple[Row, ...]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return tuple(Row(**row) for row in csv.DictReader(file))


@cache
def grounds() -> Mapping[str, Mapping[str, str]]:
    """By the name that the table uses: what it is, where it is, and when it was read."""
    with GROUNDS.open(encoding="utf-8", newline="") as file:
        return {row["ground"]: row for row in csv.DictReader(file)}


@cache
def _by_call() -> Mapping[tuple[str, str], Sequence[Row]]:
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows():
        found[row.cloud, row.call].append(row)
    return dict(found)


def permissions_of(cloud: str) -> frozenset[str]:
    """Every permission that the table names of a cloud."""
    return frozenset(row.permission for row in rows() if row.cloud == cloud and row.permission)


def needs(
    cloud: str,
    call: str,
    parameters: Mapping[str, Any],
    known: Mapping[str, str] | None = None,
    tags: Callable[[str], Mapping[str, str]] = lambda _: {},
) -> list[Need]:
    """Everything that a call needs. Raises UnknownCallError.

    `known` are values that no call carries (the account, the region); `tags` looks up those of a resource by its name.
    """
    found = _by_call().get((cloud, call))
    if found is None:
        raise UnknownCallError(f"{call} is in no row of {TABLE.name}: what it needs is not known")
    strange = sorted(name for name in parameters if not {name, "*"} & _parameters(cloud, call))
    if strange:
        raise UnknownCallError(f"{call}: what {', '.join(strange)} needs is in no row of {TABLE.name}")
    seen = {**(known or {}), **parameters}
    return [need for row in found if row.permission for need in _of_row(row, seen, tags)]


@cache
def _parameters(cloud: str, call: str) -> frozenset[str]:
    """The names that rows of a call read or say nothing is needed of."""
    names: set[str] = set()
    for row in _by_call()[cloud, call]:
        if not row.permission:
            names.update(row.when.split())
            continue
        read = [row.when, *_PLACEMENT.findall(row.on), *(part.partition("=")[2] for part in row.context.split(";"))]
        names.update(name for text in read for name in _NAME.findall(_LITERAL.sub("", text)))
    return frozenset(names)


def _of_row(row: Row, seen: Mapping[str, Any], tags: Callable[[str], Mapping[str, str]]) -> Iterator[Need]:
    if row.when and not _search(row.when, seen):
        return
    for resource in _filled(row.on, seen):
        context = tags(resource) if row.context == RESOURCE_TAGS else dict(_context(row.context, seen))
        yield Need(row.permission, resource, context)


def _filled(template: str, seen: Mapping[str, Any]) -> list[str]:
    """The template with each expression replaced by what it finds."""
    found = _PLACEMENT.search(template)
    if found is None:
        return [template]
    value = _search(found[1], seen)
    values = value if isinstance(value, list) else [value]
    filled = [f"{template[: found.start()]}{one}{template[found.end() :]}" for one in values]
    return [text for one in filled for text in _filled(one, seen)]


def _context(text: str, seen: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for part in filter(None, (part.strip() for part in text.split(";"))):
        key, _, expression = part.partition("=")
        value = _search(expression, seen)
        if isinstance(value, list):
            yield from ((f"{key}/{tag['Key']}", str(tag["Value"])) for tag in value)
        elif value:
            yield key, str(value)


def _search(expression: str, seen: Mapping[str, Any]) -> Any:
    return _compiled(expression).search(seen)


@cache
def _compiled(expression: str) -> Any:
    return jmespath.compile(expression)
