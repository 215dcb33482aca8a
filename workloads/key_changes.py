"""Changes of keys of a job, in its values as JSON has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trainplan.workloads.model_spec import SOURCES

if TYPE_CHECKING:
    from collections.abc import Sequence

ALTERNATIVES = {"model": (*SOURCES, "read"), "data": ("name", "path", "url")}
"""Keys of which a job has one: a new one takes the place of the other. What else `data` says is of the old data."""


class Change(NamedTuple):
    """A key of a job file by its parts, its new value (None: the key is taken out), and how that was typed:
    `--batch 256`."""

    where: tuple[str, ...]
    value: object
    text: str


def with_changes(values: dict[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """A job's values as JSON has them, changed in place. The result need not be a job."""
    for change in changes:
        _put(values, change)
    return values


def _put(values: dict[str, Any], change: Change) -> None:
    """Write a change into a job's values."""
    *parts, key = change.where
    within = values
    for part in parts:
        within = within.setdefault(part, {})
    alternatives = ALTERNATIVES.get(parts[0], ()) if len(parts) == 1 else ()
    if key in alternatives and within.get(key) != change.value and change.value is not None:
        for other in alternatives if parts[0] == "model" else tuple(within):
            within.pop(other, None)
    if change.value is None:
        within.pop(key, None)
    else:
        within[key] = change.value
