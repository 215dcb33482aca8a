"""Everything of ours in every region of the account, found by label alone, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from trainplan.providers.aws.account import AwsAccount, all_pages
from trainplan.providers.aws.errors import NO_SUCH_THING
from trainplan.providers.aws.prices import usd_per_hour_of
from trainplan.providers.aws.reply import owned, owned_schedule
from trainplan.providers.aws.settings import SCHEDULE_GROUP
from trainplan.providers.base import LABEL_RUN, OwnedResource, RunId
from trainplan.providers.cloud.listing import ListedResources, look_at_all, whole
from trainplan.providers.errors import CredentialsError, ProviderError

_PAGE = 500


@dataclass(frozen=True, slots=True)
class _List:
    """One list call of EC2: keys of its rows, of their ids and create times; `states` filters what still exists."""

    kind: str
    operation: str
    rows: str
    key: str
    created: str
    states: tuple[str, tuple[str, ...]] | None = None


_LISTS = (
    _List(
        "instance",
        "DescribeInstances",
        "Reservations",
        "InstanceId",
        "LaunchTime",
        ("instance-state-name", ("pending", "running", "shutting-down", "stopping", "stopped")),
    ),
    _List("volume", "DescribeVolumes", "Volumes", "VolumeId", "CreateTime"),
    _List("network interface", "DescribeNetworkInterfaces", "NetworkInterfaces", "NetworkInterfaceId", ""),
    _List(
        "spot request",
        "DescribeSpotInstanceRequests",
        "SpotInstanceRequests",
        "SpotInstanceRequestId",
        "CreateTime",
        ("state", ("open", "active")),
    ),
)


@dataclass(frozen=True)
class Listing:
    """Lists owned resources in every region; `threads` lists are read at once."""

    account: AwsAccount
    threads: int

    def owned(self, run_id: RunId | None) -> Sequence[OwnedResource]:
        """All resources of ours, or those of one run. Raises CredentialsError, and IncompleteListingError where a
        placement did not answer.
        """
        return whole((_resources_or_unanswered(what, answer) for what, answer in self._answers(run_id)), "lists of AWS")

    def _answers(self, run_id: RunId | None) -> list[tuple[str, Sequence[OwnedResource] | ProviderError]]:
        """The answer of each list of each region, in the order of the lists."""
        questions: list[tuple[str, str, Callable[[], Sequence[OwnedResource]]]] = []
        try:
            regions = self.account.regions()
        except ProviderError as error:
            return [("the list of regions", error)]
        for region in regions:
            for listing in _LISTS:
                look = partial(self._resources_of, region, listing, run_id)
                questions.append((region, f"{region} {listing.kind}s", look))
            questions.append((region, f"{region} schedules", partial(self._schedules, region, run_id)))
        answers = look_at_all(_try_look, [look for *_, look in questions], self.threads)
        pairs = zip(questions, answers, strict=True)
        answered = {region for (region, *_), answer in pairs if not self.account.is_denial(region, answer)}
        # A region counts as closed only if each of its lists was denied. One list that answers shows that the region
        # may hold resources, and a denied list then counts as unanswered.
        closed = {region for region in regions if region not in answered and self.account.is_closed(region)}
        question_answers = zip(questions, answers, strict=True)
        return [(what, answer) for (region, what, _), answer in question_answers if region not in closed]

    def _resources_of(self, region: str, listing: _List, run_id: RunId | None) -> Sequence[OwnedResource]:
        mine = (
            {"Name": f"tag:{LABEL_RUN}", "Values": [run_id]} if run_id else {"Name": "tag-key", "Values": [LABEL_RUN]}
        )
        filters: list[Mapping[str, object]] = [mine]
        if listing.states:
            filters.append({"Name": listing.states[0], "Values": list(listing.states[1])})
        request = {"Filters": filters, "MaxResults": _PAGE}
        rows = self.account.pages(region, listing.operation, request, listing.rows)
        if listing.kind == "instance":
            rows = [row for reservation in rows for row in reservation["Instances"]]
        return [self._priced(listing, row, region) for row in rows]

    def _priced(self, listing: _List, row: Mapping[str, Any], region: str) -> OwnedResource:
        resource = owned(listing.kind, row, region, listing.key, listing.created)
        return replace(resource, usd_per_hour=usd_per_hour_of(listing.kind, region, row, self.account.settings.home))

    def _schedules(self, region: str, run_id: RunId | None) -> Sequence[OwnedResource]:
        request: dict[str, object] = {"GroupName": SCHEDULE_GROUP, "MaxResults": 100}
        if run_id:
            request["NamePrefix"] = f"{run_id}."
        try:
            rows = all_pages(self.account.api, "scheduler", region, "ListSchedules", request, "Schedules")
        except ProviderError as error:
            if error.code == NO_SUCH_THING:  # no group: nothing was ever scheduled there
                return []
            raise
        resource = (owned_schedule(row, region) for row in rows)
        return [row for row in resource if row is not None]


def _try_look(look: Callable[[], Sequence[OwnedResource]]) -> Sequence[OwnedResource] | ProviderError:
    try:
        return look()
    except ProviderError as error:
        return error


def _resources_or_unanswered(what: str, answer: Sequence[OwnedResource] | ProviderError) -> ListedResources:
    """Raises CredentialsError."""
    if isinstance(answer, CredentialsError):
        raise answer
    if isinstance(answer, ProviderError):
        return ListedResources(unanswered=(f"{what}: {answer.message}",))
    return ListedResources(tuple(answer))
