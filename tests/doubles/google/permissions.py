"""Whether somebody may make a call to Google: all that it needs, by tests/doubles/needs.csv, against what they have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.doubles.needs import needs, permissions_of

if TYPE_CHECKING:
    from tests.doubles.google.world import Call

ON_ACCOUNT = "iam.serviceAccounts.actAs"
"""Granted on the service account, not by a role of the project."""


def all_names() -> frozenset[str]:
    """Every permission name that this double knows."""
    return permissions_of("google")


def permissions_for(call: Call) -> tuple[str, ...]:
    """The permissions that a call needs, by its method, path, query and body. Raises UnknownCallError."""
    parameters = {**call.path, **call.query, **call.body}
    return tuple(dict.fromkeys(need.action for need in needs("google", call.method, parameters)))


def lacking(call: Call, granted: frozenset[str] | None, denied: set[str]) -> str | None:
    """The first permission that a caller lacks for a call; None: it may. `granted` None stands for an owner, who has
    all but what is `denied`. Raises UnknownCallError."""
    for name in permissions_for(call):
        allowed = granted is None or name in granted or name == ON_ACCOUNT
        if name in denied or not allowed:
            return name
    return None
