"""Everything of ours in every region of the account, found by label alone, in parallel."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from providers.aws.account import Account, all_pages
from providers.aws.errors import NO_SUCH_THING
from providers.aws.prices import usd_per_hour_of
from providers.aws.settings import SCHEDULE_GROUP
from providers.aws.translate import owned, owned_schedule
from providers.base import LABEL_RUN
from providers.errors import CredentialsError, IncompleteListingError, ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from providers.base import OwnedResource, RunId

_PAGE = 500


@dataclass(frozen=True, slots=True)
class _List:
    """A list of EC2's: what it is called, its rows, their id and when they were made; `states` are those that count."""

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
    """`threads` regions and lists are asked at once."""

    account: Account
    threads: int

    def owned(self, run_id: RunId | None) -> Sequence[OwnedResource]:
        """All of it, or of one run. Raises IncompleteListingError where a place did not answer, CredentialsError."""
        found: list[OwnedResource] = []
        unanswered: list[str] = []
        for place, answer in self._answers(run_id):
            if isinstance(answer, CredentialsError):
                raise answer
            if isinstance(answer, ProviderError):
                unanswered.append(f"{place}: {answer.message}")
            else:
                found += answer
        if unanswered:
            raise IncompleteListingError(
                f"{len(unanswered)} lists of AWS did not come whole: {unanswered[0]}",
                found=tuple(found),
                unanswered=tuple(unanswered),
                hint="look again when they answer",
            )
        return found

    def _answers(self, run_id: RunId | None) -> list[tuple[str, Sequence[OwnedResource] | ProviderError]]:
        """What each list of each region answered, in their order."""
        asked: list[tuple[str, str, Callable[[], Sequence[OwnedResource]]]] = []
        try:
            regions = self.account.regions()
        except ProviderError as error:
            return [("the list of regions", error)]
        for region in regions:
            for known in _LISTS:
                asked.append((region, f"{region} {known.kind}s", lambda r=region, k=known: self._listed(r, k, run_id)))  # type: ignore[misc]
            asked.append((region, f"{region} schedules", lambda r=region: self._schedules(r, run_id)))  # type: ignore[misc]
        answers = self._all([look for *_, look in asked])
        pairs = zip(asked, answers, strict=True)
        answered = {region for (region, *_), answer in pairs if not self.account.is_denial(region, answer)}
        closed = {region for region in regions if region not in answered and self.account.is_closed(region)}
        told = zip(asked, answers, strict=True)
        return [(place, answer) for (region, place, _), answer in told if region not in closed]

    def _all(
        self, looks: Sequence[Callable[[], Sequence[OwnedResource]]]
    ) -> list[Sequence[OwnedResource] | ProviderError]:
        if self.threads == 1:
            return [_tried(look) for look in looks]
        with ThreadPoolExecutor(self.threads) as pool:
            return list(pool.map(_tried, looks))

    def _listed(self, region: str, known: _List, run_id: RunId | None) -> Sequence[OwnedResource]:
        mine = (
            {"Name": f"tag:{LABEL_RUN}", "Values": [run_id]} if run_id else {"Name": "tag-key", "Values": [LABEL_RUN]}
        )
        filters: list[Mapping[str, object]] = [mine]
        if known.states:
            filters.append({"Name": known.states[0], "Values": list(known.states[1])})
        asked = {"Filters": filters, "MaxResults": _PAGE}
        rows = self.account.pages(region, known.operation, asked, known.rows)
        if known.kind == "instance":
            rows = [row for reservation in rows for row in reservation["Instances"]]
        return [self._priced(known, row, region) for row in rows]

    def _priced(self, known: _List, row: Mapping[str, Any], region: str) -> OwnedResource:
        found = owned(known.kind, row, region, known.key, known.created)
        return replace(found, usd_per_hour=usd_per_hour_of(known.kind, region, row, self.account.settings.home))

    def _schedules(self, region: str, run_id: RunId | None) -> Sequence[OwnedResource]:
        asked: dict[str, object] = {"GroupName": SCHEDULE_GROUP, "MaxResults": 100}
        if run_id:
            asked["NamePrefix"] = f"{run_id}."
        try:
            rows = all_pages(self.account.api, "scheduler", region, "ListSchedules", asked, "Schedules")
        except ProviderError as error:
            if error.code == NO_SUCH_THING:  # no group: nothing was ever scheduled there
                return []
            raise
        made = (owned_schedule(row, region) for row in rows)
        return [row for row in made if row is not None]


def _tried(look: Callable[[], Sequence[OwnedResource]]) -> Sequence[OwnedResource] | ProviderError:
    try:
        return look()
    except ProviderError as error:
        return error
