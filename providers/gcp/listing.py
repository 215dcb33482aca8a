"""What is anywhere in a project: the zones that have a machine type, and everything of ours, by label alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainplan.providers.base import LABEL_RUN, OwnedResource, RunId
from trainplan.providers.cloud.listing import ListedResources, whole
from trainplan.providers.errors import CredentialsError, MachineError, ProviderError, TransientError
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.api import Api
from trainplan.providers.gcp.errors import OFF
from trainplan.providers.gcp.kinds import kind_of
from trainplan.providers.gcp.prices import usd_per_hour_of
from trainplan.providers.gcp.reply import owned_of
from trainplan.providers.gcp.request import LABEL_OURS, OURS, label_text

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer


LISTS = "of Google's lists"
_BILLED = ("instances", "disks", "addresses")
_EMPTY = "NO_RESULTS_ON_PAGE"
"""The one warning of a list that takes nothing away: any other says that something may be missing."""


@dataclass(frozen=True)
class Lists:
    """Aggregated lists, every page; what never changes is asked for once."""

    api: Api
    account: GcpAccount

    def zones(self, offer: Offer) -> tuple[str, ...]:
        """The zones of the offer's region with its machine type and accelerator, sorted. Raises ProviderError."""
        kind = kind_of(offer)
        locations = self._having("machineTypes", kind.machine_type)
        if kind.accelerator is not None:
            locations &= self._having("acceleratorTypes", kind.accelerator)
        return tuple(sorted(zone for zone in locations if zone.startswith(f"{offer.region}-")))

    def owned(self, run_id: RunId | None) -> Sequence[OwnedResource]:
        """Everything with our label. Raises IncompleteListingError where a placement has not answered."""
        label, value = (LABEL_OURS, OURS) if run_id is None else (LABEL_RUN, label_text(run_id))
        project = self.account.project  # without one there is nothing to list
        lists: list[ListedResources] = []
        for kind in _BILLED:
            listing = self._labelled_resources(kind, project, label, value)
            if listing is None:  # what the project has never used has nothing
                return []
            lists.append(listing)
        return whole(lists, LISTS)

    def _labelled_resources(self, kind: str, project: str, label: str, value: str) -> ListedResources | None:
        """What of one kind has the label; None where the project does not use the API."""
        resources: list[OwnedResource] = []
        unanswered: list[str] = []
        try:
            for location, replies, warned in self._everything(kind, project, f'labels.{label}="{value}"'):
                unanswered += warned
                resources += [
                    owned_of(kind, location, row, usd_per_hour_of(kind, location, row, self.account.settings.home))
                    for row in replies
                    if (row.get("labels") or {}).get(label) == value
                ]
        except (CredentialsError, MachineError):
            raise
        except ProviderError as error:
            if error.code in OFF:
                return None
            unanswered.append(f"{kind}: {error.message}")
        return ListedResources(tuple(resources), tuple(unanswered))

    def _having(self, kind: str, name: str) -> frozenset[str]:
        def look() -> frozenset[str]:
            rows = self._everything(kind, self.account.project, f'name="{name}"')
            return frozenset(
                location for location, replies, _ in rows if any(row.get("name") == name for row in replies)
            )

        return frozenset(self.account.once(f"{kind}/{name}", look))

    def _everything(
        self, kind: str, project: str, matching: str
    ) -> Iterator[tuple[str, list[Mapping[str, Any]], list[str]]]:
        """(zone or region, what is there, what may be missing), page by page."""
        page = ""
        while True:
            reply = self.api.everywhere(kind, project, matching, page)
            missing_names = [f"{kind} in {location}" for location in reply.get("unreachables", ())]
            missing_names += _warned(reply, f"{kind} everywhere")
            for scope, rows in (reply.get("items") or {}).items():
                location = scope.rpartition("/")[2]
                yield location, list(rows.get(kind) or ()), _warned(rows, f"{kind} in {location}")
            if missing_names:
                yield "", [], missing_names
            following = str(reply.get("nextPageToken") or "")
            if not following:
                return
            if following == page:
                raise TransientError(f"compute/{kind}.aggregatedList: the same page comes again", hint="look again")
            page = following


def _warned(reply: Mapping[str, Any], what: str) -> list[str]:
    warning = reply.get("warning") or {}
    code = str(warning.get("code") or "")
    return [] if code in ("", _EMPTY) else [f"{what}: {code}: {warning.get('message', '')}"]
