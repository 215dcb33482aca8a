"""Looking into many zones at a time, what of ours each of them told, and what a create leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from providers.base import Instance, InstanceState, OwnedResource
from providers.gcp.tpu.translate import Place, ref_of

if TYPE_CHECKING:
    from providers.base import LaunchRequest, VendorRequest

Each = Callable[[Callable[[str], "Found"], Sequence[str]], Iterable["Found"]]
"""How zones are looked at: all of them, in their order."""
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Found:
    """What of ours is in one zone, and what did not answer, in words."""

    resources: tuple[OwnedResource, ...] = ()
    unanswered: tuple[str, ...] = ()


def threads(look: Callable[[str], Found], zones: Sequence[str]) -> Iterable[Found]:
    """Many zones at a time: one after the other takes half a minute."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return list(pool.map(look, zones))


def made_by(create: VendorRequest) -> Place:
    """Where what a create asks for is found again."""
    parent = str(create.parameters["parent"])
    return Place(parent.rpartition("/")[2], str(create.parameters["queuedResourceId"]))


def asked_for(request: LaunchRequest, place: Place) -> Instance:
    """What was accepted, and is not shown yet."""
    ref, pending = ref_of(place), InstanceState.PENDING
    return Instance(ref=ref, state=pending, run_id=request.run_id, attempt=request.attempt, bills=False)


def dead(request: LaunchRequest, place: Place, reason: str) -> Instance:
    """What was made by this attempt before, and is gone."""
    ended = InstanceState.ENDED
    return Instance(ref=ref_of(place), state=ended, run_id=request.run_id, attempt=request.attempt, reason=reason)
