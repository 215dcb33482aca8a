"""The seam over Google Cloud: one provider, two ways to a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pricing.current import offers_of
from providers.base import Instance, Preflight, RunId, RunStore
from providers.errors import BadRequestError, IncompleteListingError, InstanceNotFoundError
from providers.gcp.account import Account
from providers.gcp.doctor import examine
from providers.gcp.part import PROVIDER, Part
from providers.gcp.refusals import incomplete
from providers.gcp.settings import GcpSettings
from providers.gcp.setup import GcpSetUp
from providers.gcp.standing import Standing
from providers.server_time import ServerClock

if TYPE_CHECKING:
    from pricing.offers import Offer, OfferQuery
    from providers.base import (
        Check,
        InstanceRef,
        LaunchRequest,
        OwnedResource,
        ProviderSettings,
        SetupStep,
        Timers,
        VendorRequest,
    )


def make(settings: ProviderSettings) -> GcpProvider:
    """Google Cloud with these settings (docs/clouds/gcp.md); nobody is asked anything before the first call.

    Raises BadRequestError for an option that is wrong.
    """
    from providers.gcp.parts import made

    return made(settings, Account(GcpSettings.of(settings), ServerClock(settings.now)))


@dataclass(frozen=True)
class GcpProvider:
    """`parts` are asked in order which of them an offer or an id belongs to; `account` is whose they all are."""

    account: Account
    parts: Sequence[Part]
    stores: Callable[[RunId], RunStore]
    now: Callable[[], datetime]
    standing: Standing | None = None
    """What set-up makes and the doctor looks at; without it there are neither."""

    @property
    def name(self) -> str:
        return PROVIDER

    @property
    def listing_lag(self) -> timedelta:
        return max(part.listing_lag for part in self.parts)

    @property
    def token_memory(self) -> timedelta:
        return min(part.token_memory for part in self.parts)

    def server_time_offset(self) -> timedelta | None:
        """By the `Date` of the newest answer (providers.server_time.ServerTime)."""
        return self.account.clock.offset if self.account.clock else None

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        return offers_of(PROVIDER, query, self.account.settings.home, self.now().date())

    def preflight(self, offer: Offer) -> Preflight:
        return Preflight(checks=(*self.account.checks(), *self._for(offer).checks(offer)))

    def shortfalls(self, offers: Sequence[Offer]) -> Sequence[str]:
        """By the quotas of project and regions (providers.base.QuotaTeller)."""
        told: dict[Offer, str] = {}
        for part in self.parts:
            mine = [offer for offer in offers if part.takes(offer)]
            told |= dict(zip(mine, part.shortfalls(mine), strict=True))
        return [told.get(offer, "") for offer in offers]

    def resolve(self, request: LaunchRequest) -> LaunchRequest:
        """Looks up zone, image and network (providers.base.Resolver)."""
        return self._for(request.offer).resolve(request)

    def refine(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        """Each with the zones that have it (providers.base.Refiner); prices stay those of the catalog."""
        asked = [(offer, tuple(self._for(offer).zones(offer))) for offer in offers]
        return [replace(offer, zones=zones) for offer, zones in asked if zones]

    def requests(self, request: LaunchRequest) -> Sequence[VendorRequest]:
        return self._for(request.offer).requests(request)

    def timers(self, request: LaunchRequest) -> Timers:
        return self._for(request.offer).timers(request)

    def launch(self, request: LaunchRequest) -> Instance:
        return self._for(request.offer).launch(request)

    def get(self, ref: InstanceRef) -> Instance:
        part = self._of(ref.id)
        if part is None:
            raise InstanceNotFoundError(f"{ref.id!r} is nothing that Google Cloud gave")
        return part.get(ref)

    def list_owned(self, run_id: RunId | None = None) -> Sequence[OwnedResource]:
        found: list[OwnedResource] = []
        unanswered: list[str] = []
        for part in self.parts:
            try:
                found += part.list_owned(run_id)
            except IncompleteListingError as error:
                found += error.found
                unanswered += error.unanswered
        if unanswered:
            raise incomplete(found, unanswered)
        return found

    def delete(self, ref: InstanceRef | OwnedResource) -> None:
        part = self._of(ref.id)
        if part is not None:
            part.delete(ref)

    def stop(self, ref: InstanceRef) -> None:
        part = self._of(ref.id)
        if part is not None:
            part.stop(ref)

    def logs(self, ref: InstanceRef) -> Iterator[str]:
        part = self._of(ref.id)
        return iter(()) if part is None else part.logs(ref)

    def store(self, run_id: RunId) -> RunStore:
        return self.stores(run_id)

    def doctor(self) -> Sequence[Check]:
        """The project's lines (providers.base.Doctor)."""
        return examine(self._stands())

    def lacking(self) -> Sequence[SetupStep]:
        return self._set_up().lacking()

    def removable(self) -> Sequence[SetupStep]:
        return self._set_up().removable()

    def carry_out(self, step: SetupStep, report: Callable[[str], None]) -> None:
        self._set_up().carry_out(step, report)

    def _set_up(self) -> GcpSetUp:
        return GcpSetUp(self._stands(), self.list_owned)

    def _stands(self) -> Standing:
        if self.standing is None:
            raise BadRequestError("this provider was made for launches alone", hint="this is a mistake of the program")
        return self.standing

    def _for(self, offer: Offer) -> Part:
        for part in self.parts:
            if part.takes(offer):
                return part
        raise BadRequestError(
            f"{offer.instance_type}: nothing here launches it", hint="choose another offer; plan estimate shows some"
        )

    def _of(self, identity: str) -> Part | None:
        return next((part for part in self.parts if part.owns(identity)), None)
