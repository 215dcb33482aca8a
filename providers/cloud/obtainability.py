"""What a provider can do besides whose vendor scores how likely a request for a machine is to succeed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pricing.obtainability import MachinePlacement, Obtainability

if TYPE_CHECKING:
    from pricing.offers import Offer


@runtime_checkable
class ObtainabilityTeller(Protocol):
    """What some providers can do besides: tell how likely offers are obtained, as their vendor scores it for the
    account."""

    def obtainability(self, offers: Sequence[Offer]) -> Mapping[MachinePlacement, Obtainability]:
        """The offers that the vendor scores; others are left out. Creates nothing.

        Raises ProviderError where it answers about none of them.
        """
        ...


def placement_of(offer: Offer) -> MachinePlacement:
    """What a create request for an offer asks for, but for the zone."""
    return MachinePlacement(offer.provider, offer.region, offer.instance_type, offer.market)
