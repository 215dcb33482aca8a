"""Launch requests, targets and refusals as the journal keeps them, and back: a replay sends what was recorded."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from planner.targets import Refusal, Target
from providers.base import LaunchRequest

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def request_record(request: LaunchRequest) -> dict[str, Any]:
    """The request as JSON values; `request_from_record` gives an equal one back."""
    return dict(_requests().dump_python(request, mode="json"))


def request_from_record(record: dict[str, Any]) -> LaunchRequest:
    return _requests().validate_python(record)


def targets_text(targets: tuple[Target, ...]) -> str:
    return _targets().dump_json(targets).decode()


# A run is read before each of its actions, and its targets hardly ever change.
@lru_cache(maxsize=64)
def targets_from_text(text: str) -> tuple[Target, ...]:
    return _targets().validate_json(text)


def refusal_record(refusal: Refusal) -> dict[str, Any]:
    return dict(_refusals().dump_python(refusal, mode="json"))


def refusal_from_record(record: dict[str, Any]) -> Refusal:
    return _refusals().validate_python(record)


@cache
def _requests() -> TypeAdapter[LaunchRequest]:
    from pydantic import TypeAdapter

    return TypeAdapter(LaunchRequest)


@cache
def _targets() -> TypeAdapter[tuple[Target, ...]]:
    from pydantic import TypeAdapter

    return TypeAdapter(tuple[Target, ...])


@cache
def _refusals() -> TypeAdapter[Refusal]:
    from pydantic import TypeAdapter

    return TypeAdapter(Refusal)
