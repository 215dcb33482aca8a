"""A launch request as the journal keeps it, and back: a replay sends what was recorded."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import TypeAdapter

from providers.base import LaunchRequest


def request_record(request: LaunchRequest) -> dict[str, Any]:
    """The request as JSON values; `request_from_record` gives an equal one back."""
    return dict(_adapter().dump_python(request, mode="json"))


def request_from_record(record: dict[str, Any]) -> LaunchRequest:
    return _adapter().validate_python(record)


@cache
def _adapter() -> TypeAdapter[LaunchRequest]:
    return TypeAdapter(LaunchRequest)
