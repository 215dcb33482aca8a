"""What each of Google's two ways to a machine (Compute Engine, the Cloud TPU API) does for the provider `gcp`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer
    from trainplan.providers.base import (
        Instance,
        InstanceRef,
        LaunchRequest,
        OwnedResource,
        RunId,
        Timers,
        VendorRequest,
    )
    from trainplan.providers.cloud.checks import Look
    from trainplan.providers.gcp.request import GoogleResolution


class GcpPart(Protocol):
    """The seam (trainplan.providers.base.Provider) but for offers and store, with the same promises.

    Ids begin with a word of the part's own and a slash (`gce/ZONE/NAME`), so that what is found again by its id goes
    to the part that made it; no two parts share a word.
    """

    @property
    def listing_lag(self) -> timedelta:
        """How long after a create `list_owned` and `get` may not show it yet."""
        ...

    @property
    def token_memory(self) -> timedelta:
        """How long Google recognises a repeated request by its id."""
        ...

    def takes(self, offer: Offer) -> bool:
        """Whether the offer is launched by this part; exactly one of the parts takes each offer."""
        ...

    def owns(self, identity: str) -> bool:
        """Whether the id of an instance or of another resource is this part's."""
        ...

    def zones(self, offer: Offer) -> Sequence[str]:
        """The zones of the offer's region where it can be had; none where it is not to be had there."""
        ...

    def looks(self, offer: Offer) -> Mapping[str, Look]:
        """The part's lines of a preflight by their names; those of the account come before
        (trainplan.providers.gcp.preflight)."""
        ...

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """For each offer the quota that is too small for it, "" for none known
        (trainplan.providers.abilities.QuotaTeller)."""
        ...

    def resolve(self, request: LaunchRequest) -> LaunchRequest: ...

    def resolution_type(self) -> type[GoogleResolution]:
        """The class of what `resolve` puts into a request."""
        ...

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        """The requests of the launch, in order, without sending them."""
        ...

    def timers(self, request: LaunchRequest) -> Timers:
        """What ends the machine at its deadline if nobody else does."""
        ...

    def launch(self, request: LaunchRequest) -> Instance:
        """Create the machine of an attempt, once for each token. Raises ProviderError."""
        ...

    def get(self, ref: InstanceRef) -> Instance:
        """The machine as Google shows it now. Raises InstanceNotFoundError and other ProviderErrors."""
        ...

    def ended_at(self, ref: InstanceRef) -> datetime | None:
        """When a machine that is not there any more stopped being charged for; None: there is no record. Raises
        ProviderError."""
        ...

    def deleted_at(self, ref: InstanceRef) -> datetime | None:
        """When the deletion of such a machine began, where its end is not recorded. Raises ProviderError."""
        ...

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        """Every resource with our labels, of one run or of all. Raises ProviderError."""
        ...

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        """Begin to delete it; one that does not exist is no error. Raises ProviderError."""

    def stop(self, ref: InstanceRef) -> None:
        """Ask the machine to save a checkpoint and end. Raises ProviderError."""

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        """Lines of its console, the oldest first. Raises ProviderError."""
        ...


def word_of(identity: str) -> str:
    """The first word of an id, "" where it has none."""
    word, slash, _ = identity.partition("/")
    return word if slash else ""
