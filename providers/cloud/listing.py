"""What of ours there is: a vendor's lists, looked at several at a time; one that does not answer is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from trainplan.providers.base import OwnedResource
from trainplan.providers.errors import IncompleteListingError

Part = TypeVar("Part")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ListedResources:
    """What of ours a list told, and what of it did not answer, in words."""

    resources: tuple[OwnedResource, ...] = ()
    unanswered: tuple[str, ...] = ()


def look_at_all(look: Callable[[Part], Answer], parts: Sequence[Part], threads: int) -> list[Answer]:
    """What each part told, in their order, so many at a time; one after the other with one thread. Raises what the
    first of them raised."""
    if threads == 1 or len(parts) < 2:
        return [look(part) for part in parts]
    with ThreadPoolExecutor(min(threads, len(parts))) as pool:
        return list(pool.map(look, parts))


def whole(lists: Iterable[ListedResources], what: str) -> list[OwnedResource]:
    """Everything that the lists told. Raises IncompleteListingError, which has it too, where one did not answer.

    `what` are the lists: `lists of AWS`.
    """
    resources: list[OwnedResource] = []
    unanswered: list[str] = []
    for listing in lists:
        resources += listing.resources
        unanswered += listing.unanswered
    if unanswered:
        raise IncompleteListingError(
            f"{len(unanswered)} {what} did not come whole: {unanswered[0]}",
            resources=tuple(resources),
            unanswered=tuple(unanswered),
            hint="look again when they answer",
        )
    return resources
