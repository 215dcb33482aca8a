"""The world of Google's TPUs: the double of Google Cloud, with the Cloud TPU API and Cloud Tasks in front."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from providers.base import VendorRequest
from providers.gcp.settings import MACHINE_ACCOUNT
from providers.gcp.tpu.api import Calls, TasksCalls, TpuCalls
from providers.gcp.tpu.provider import Found, TpuMachines
from providers.gcp.tpu.reaper import REGION, queue_name
from tests.contract.gcp import PROJECT, Client, GcpHarness, TimedGcp, _put
from tests.doubles.google.scenario import FaultRule, Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from tests.doubles.google.process import Google

OFFER = "tpu-v3-8"
CREATE = "tpu.projects.locations.queuedResources.create"
LIST = "tpu.projects.locations.queuedResources.list"
NO_CAPACITY = 'There is no more capacity in the zone "europe-west4-a"; you can try in another zone'


@dataclass(frozen=True)
class TpuClient(Client):
    """`tpu` and `tasks` let a test put itself in front of the two services."""

    tpu: Callable[[Calls], Calls] = lambda calls: calls
    tasks: Callable[[Calls], Calls] = lambda calls: calls

    def provider(self, only: str = OFFER) -> TimedGcp:
        account, stores = self.account(), self.stores()
        part = TpuMachines(
            account,
            self.rented(stores),
            self.tpu(TpuCalls(account)),
            self.tasks(TasksCalls(account)),
            self.google.now,
            in_order,
            self.google.sleep,
        )
        return TimedGcp(account, (part,), stores, self.google.now, google=self.google, only=only, slept=self.slept)


class TpuHarness(GcpHarness):
    """Everything of it goes by itself but the timers' tasks, which somebody deletes or their time brings to an end."""

    keeps_ended = False
    silent = True

    def __init__(self, home: Path, google: Google) -> None:
        self.google = google
        self.client: TpuClient = TpuClient(google, home)
        google.reset(Scenario(trainer="named"))
        make_ready(self.client)

    def sent(self) -> Sequence[VendorRequest]:
        """A call that repeats another one makes nothing new: its name says so."""
        told = self.google.control("calls")
        assert told["violations"] == []
        made = [request for call in told["calls"] if (request := _request(call)) is not None]
        return [request for number, request in enumerate(made) if request not in made[:number]]

    def break_launch(self) -> None:
        self.google.script(FaultRule(operation=CREATE, status=429, message=NO_CAPACITY, times=None))

    def break_listing(self) -> None:
        self.google.script(FaultRule(operation=LIST, effect="warning", place="us-central1-a", times=None))

    def lose_reply(self) -> None:
        self.google.script(FaultRule(operation=CREATE, effect="lost_reply"))


def make_ready(client: Client) -> None:
    """What `plan setup gcp` makes and a TPU needs: the queue of the timers, and the machines' service account."""
    account = client.account()
    try:
        queues = f"/v2/projects/{PROJECT}/locations/{REGION}/queues"
        account.ask("POST", "cloudtasks", queues, None, {"name": queue_name(PROJECT)})
        account.ask("POST", "iam", f"/v1/projects/{PROJECT}/serviceAccounts", None, {"accountId": MACHINE_ACCOUNT})
    finally:
        account.close()


def in_order(look: Callable[[str], Found], zones: Sequence[str]) -> Iterable[Found]:
    """One zone after the other: the same calls in the same order each time."""
    return [look(zone) for zone in zones]


def _request(call: Sequence[Any]) -> VendorRequest | None:
    """What was sent, as the seam writes it down; None for what makes nothing."""
    told: dict[str, Any] = dict(call)  # type: ignore[arg-type]
    if told["method"] == CREATE:
        parameters: dict[str, object] = {
            "parent": _home(told["path"]),
            "queuedResourceId": told["query"]["queuedResourceId"],
            "requestId": told["query"]["requestId"],
            "queuedResource": told["body"],
        }
        return VendorRequest(service="tpu", operation="CreateQueuedResource", parameters=parameters)
    if told["method"] == "cloudtasks.projects.locations.queues.tasks.create":
        parent = f"{_home(told['path'])}/queues/{told['path']['queuesId']}"
        given = {"parent": parent, **told["body"]}
        return VendorRequest(service="cloudtasks", operation="CreateTask", parameters=given)
    if told["method"] == "storage.objects.insert" and "data" in told["path"]:
        return _put(told["path"])
    return None


def _home(path: dict[str, str]) -> str:
    return f"projects/{path['projectsId']}/locations/{path['locationsId']}"
