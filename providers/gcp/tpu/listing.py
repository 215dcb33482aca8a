"""What of ours is in the zones of the Cloud TPU API and in the queue of the timers. Data disks are Compute Engine's to
list (trainplan.providers.gcp.listing)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainplan.providers.cloud.listing import ListedResources, look_at_all
from trainplan.providers.errors import CapacityError, CredentialsError, MachineError, ProviderError
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.tpu import deadline
from trainplan.providers.gcp.tpu.api import PAGE, TASKS, Ask, Calls, Refused, pages
from trainplan.providers.gcp.tpu.errors import error_of, is_off
from trainplan.providers.gcp.tpu.reply import owned_node, owned_resource, owned_task

if TYPE_CHECKING:
    from trainplan.providers.base import OwnedResource, RunId


Each = Callable[[Callable[[str], ListedResources], Sequence[str]], Iterable[ListedResources]]
"""How zones are looked at: all of them, in their order."""
_AT_ONCE = 16


@dataclass
class TpuLists:
    """`ask` asks the Cloud TPU API, `tasks` is Cloud Tasks, `each` looks at zones."""

    account: GcpAccount
    ask: Ask
    tasks: Calls
    each: Each
    _known_zones: tuple[str, ...] | None = field(default=None, init=False)

    def look(self, run_id: RunId | None) -> Iterable[ListedResources]:
        """One part for each zone, and one for the queue. Of the zones, what belongs to other runs too. Raises
        CredentialsError, MachineError."""
        return (*self._in_zones(), self._in_queue(run_id))

    def tasks_of(self, run_id: RunId | None) -> list[deadline.Task]:
        """Every task of ours. Raises ProviderError."""
        try:
            return list(deadline.tasks(self.tasks, self.account.project, run_id))
        except Refused as error:
            raise error_of(error, f"{TASKS} ListTasks", TASKS) from error

    def _in_zones(self) -> Iterable[ListedResources]:
        try:
            zones = self._zones()
        except (CredentialsError, MachineError):
            raise
        except ProviderError as error:
            return [] if is_off(error) else [ListedResources(unanswered=(f"the zones of TPUs: {error.message}",))]
        return self.each(self._in_zone, zones)

    def _in_zone(self, zone: str) -> ListedResources:
        resources: list[OwnedResource] = []
        unanswered: list[str] = []
        request = {"parent": f"projects/{self.account.project}/locations/{zone}", "pageSize": PAGE}
        for operation, rows, owned in _LISTS:
            try:
                for page in pages(self.ask, operation, request):
                    resources += [resource for resource in map(owned, page.get(rows, ())) if resource is not None]
                    unanswered += [f"{location}: unreachable" for location in page.get("unreachable", ())]
            except (CredentialsError, MachineError):
                raise
            except CapacityError:
                break  # a zone that is not open to the project has nothing of it
            except ProviderError as error:
                unanswered.append(f"{zone}: {error.message}")
        return ListedResources(tuple(resources), tuple(unanswered))

    def _in_queue(self, run_id: RunId | None) -> ListedResources:
        try:
            return ListedResources(tuple(owned_task(task) for task in self.tasks_of(run_id)))
        except (CredentialsError, MachineError):
            raise
        except ProviderError as error:
            return (
                ListedResources()
                if is_off(error)
                else ListedResources(unanswered=(f"the queue {deadline.QUEUE}: {error.message}",))
            )

    def _zones(self) -> tuple[str, ...]:
        """Every zone of the API. Raises ProviderError."""
        if self._known_zones is None:
            request = {"name": f"projects/{self.account.project}", "pageSize": PAGE}
            documents = pages(self.ask, "ListLocations", request)
            self._known_zones = tuple(str(row["locationId"]) for page in documents for row in page.get("locations", ()))
        return self._known_zones


_LISTS: Sequence[tuple[str, str, Callable[[Mapping[str, Any]], OwnedResource | None]]] = (
    ("ListQueuedResources", "queuedResources", owned_resource),
    ("ListNodes", "nodes", owned_node),
)


def threads(look: Callable[[str], ListedResources], zones: Sequence[str]) -> Iterable[ListedResources]:
    """Many zones at a time: one after the other takes half a minute."""
    return look_at_all(look, zones, _AT_ONCE)
