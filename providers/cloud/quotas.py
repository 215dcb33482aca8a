"""What a provider can do besides that knows the quotas of its account, and the regions that are closed to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pricing.offers import Offer


@runtime_checkable
class QuotaTeller(Protocol):
    """What some providers can do besides: tell which quotas are too small before a create is refused."""

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """Return for each offer, in order, the quota that is too small for one such machine, in words; "" for none
        known.
        """
        ...


@runtime_checkable
class RegionTeller(Protocol):
    """What some providers can do besides: tell which regions are closed to the account."""

    def closed_regions(self, regions: Sequence[str]) -> Mapping[str, str]:
        """Return those of the regions in which the account can create nothing, each with the reason in words."""
        ...
