"""Launch requests, targets and refusals as the journal keeps them, and back: a replay sends what was recorded."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from trainplan.planner.runs.targets import Refusal, Target
from trainplan.providers.abilities import Resolver
from trainplan.providers.base import LaunchRequest, Provider
from trainplan.workloads.job import job_from_json

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from trainplan.providers.values import Resolution


_JOB, _RESOLUTION = "job_json", "resolved"
"""Under these names a record has the request's job, as its own text, and its cloud's resolution. Journals of all
versions have them, and no record has the names of LaunchRequest's own two fields."""


def request_record(request: LaunchRequest) -> dict[str, Any]:
    """The request as JSON values; `request_from_record` gives an equal one back."""
    record = dict(_requests().dump_python(request, mode="json", exclude={"job", "resolution"}))
    resolution = request.resolution
    item = _resolutions(type(resolution)).dump_python(resolution, mode="json") if resolution is not None else {}
    return record | {_JOB: request.job.to_json(), _RESOLUTION: item}


def request_from_record(record: dict[str, Any], provider: Provider) -> LaunchRequest:
    """The request that `record` was made of, for the provider that it was made for. Raises ValueError for a record
    that cannot be read."""
    values = {name: value for name, value in record.items() if name not in (_JOB, _RESOLUTION)}
    try:
        request = _requests().validate_python(values | {"job": job_from_json(record[_JOB])})
    except KeyError as error:
        raise ValueError(f"the record has no {error}") from None
    item = record.get(_RESOLUTION)
    if not item or not isinstance(provider, Resolver):
        return request
    kind = provider.resolution_type(request.offer)
    return replace(request, resolution=_resolutions(kind).validate_python(item))


def targets_text(targets: tuple[Target, ...]) -> str:
    """The targets of a run as the JSON that the journal keeps."""
    return _targets().dump_json(targets).decode()


# A run is read before each of its actions, and its targets hardly ever change.
@lru_cache(maxsize=64)
def targets_from_text(text: str) -> tuple[Target, ...]:
    """The targets in that JSON. Raises ValueError."""
    return _targets().validate_json(text)


def refusal_record(refusal: Refusal) -> dict[str, Any]:
    """A refusal as the JSON object that the journal keeps."""
    return dict(_refusals().dump_python(refusal, mode="json"))


def refusal_from_record(record: dict[str, Any]) -> Refusal:
    """The refusal in that object. Raises ValueError."""
    return _refusals().validate_python(record)


def _resolutions(kind: type[Resolution]) -> TypeAdapter[Resolution]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


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
