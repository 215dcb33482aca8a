"""How lists that did not come whole are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from providers.errors import IncompleteListingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from providers.base import OwnedResource


def incomplete(found: Sequence[OwnedResource], unanswered: Sequence[str]) -> IncompleteListingError:
    """With what did come, and what did not."""
    return IncompleteListingError(
        f"{len(unanswered)} of Google's lists did not come whole: {unanswered[0]}",
        found=tuple(found),
        unanswered=tuple(unanswered),
        hint="look again when they answer",
    )
