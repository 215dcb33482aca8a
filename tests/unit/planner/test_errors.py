"""Errors that end a command: one class for each exit code, and none of a provider's without one."""

from __future__ import annotations

import pytest

from trainplan.planner import errors
from trainplan.planner.errors import ExitCode, PlanError, from_provider
from trainplan.providers.errors import (
    BadRequestError,
    CapacityError,
    CredentialsError,
    IncompleteListingError,
    InstanceNotFoundError,
    MachineError,
    PermissionDeniedError,
    ProviderError,
    QuotaError,
    ThrottledError,
    TransientError,
    UnrecognizedError,
)

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PlanError)]


def test_every_documented_code_has_a_class() -> None:
    codes = {kind.exit_code for kind in KINDS if PlanError in kind.__bases__}
    assert sorted(codes) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert set(ExitCode) == {*codes, 0, 130}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    assert errors.__doc__ is not None
    rows = [line.replace("│", " ").split() for line in errors.__doc__.splitlines() if "──" in line]
    drawn = {name: int(code) for _, name, code, *_ in rows}
    assert drawn == {kind.__name__: kind.exit_code for kind in KINDS if kind is not PlanError}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CredentialsError("m"), 4),
        (PermissionDeniedError("m"), 4),
        (QuotaError("m", quota="q"), 4),
        (CapacityError("m"), 5),
        (BadRequestError("m"), 2),
        (MachineError("m"), 9),
        (ThrottledError("m"), 9),
        (TransientError("m"), 9),
        (InstanceNotFoundError("m"), 9),
        (IncompleteListingError("m", resources=(), unanswered=("us-east-1c",)), 9),
        (UnrecognizedError("m"), 9),
    ],
)
def test_what_a_provider_says_becomes_an_exit_code(error: ProviderError, code: int) -> None:
    assert from_provider(error).exit_code == code


def test_the_vendors_code_and_the_hint_are_kept() -> None:
    made = from_provider(CapacityError("none left in us-east-1a", hint="another zone", code="InsufficientCapacity"))
    assert (made.message, made.hint) == ("none left in us-east-1a (InsufficientCapacity)", "another zone")


def test_every_class_of_the_seam_is_in_the_table_above() -> None:
    seam = [kind for kind in ProviderError.__subclasses__() if kind.__module__ == ProviderError.__module__]
    assert len(seam) == 11
