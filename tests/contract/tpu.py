"""The world of Google's TPUs: the double of Google Cloud, with the Cloud TPU API and Cloud Tasks in front."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.gcp import PROJECT, Client, GcpHarness, TimedGcp, _put, documented
from tests.doubles.google.scenario import FaultRule, Scenario
from trainplan.providers.base import RunId, VendorRequest
from trainplan.providers.gcp.api import Api, GoogleApi
from trainplan.providers.gcp.compute import Machines
from trainplan.providers.gcp.settings import MACHINE_ACCOUNT
from trainplan.providers.gcp.tpu.api import Calls, TasksCalls, TpuCalls
from trainplan.providers.gcp.tpu.data_disk import DataDisks
from trainplan.providers.gcp.tpu.deadline import REGION, queue_name
from trainplan.providers.gcp.tpu.provider import TpuMachines

if TYPE_CHECKING:
    from tests.doubles.google.process import Google
    from trainplan.providers.cloud.launch import Rented
    from trainplan.providers.cloud.listing import ListedResources
    from trainplan.providers.gcp.account import GcpAccount
    from trainplan.providers.gcp.part import GcpPart
    from trainplan.providers.stores.store import ObjectStore

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
        api = self.api(GoogleApi(account))
        return TimedGcp(
            account,
            self.parts(account, self.rented(stores), api),
            stores,
            self.google.now,
            google=self.google,
            only=only,
            slept=self.slept,
        )

    def parts(self, account: GcpAccount, rented: Rented, api: Api) -> tuple[GcpPart, ...]:
        """TPUs alone: no run has a data disk."""
        return (
            TpuMachines(
                account,
                rented,
                self.tpu(TpuCalls(account)),
                self.tasks(TasksCalls(account)),
                DataDisks(api),
                self.google.now,
                in_order,
                self.google.sleep,
            ),
        )


class DiskClient(TpuClient):
    """Of runs whose data needs a disk of its own; nobody looks how large the data really is, so that the job's word
    counts."""

    def rented(self, stores: Callable[[RunId], ObjectStore]) -> Rented:
        return replace(super().rented(stores), files=lambda data, ours: ())

    def parts(self, account: GcpAccount, rented: Rented, api: Api) -> tuple[GcpPart, ...]:
        """With the part that lists and deletes disks, as the product has it."""
        return (Machines(api, account, rented, self.google.sleep), *super().parts(account, rented, api))


class TpuHarness(GcpHarness):
    """Everything of it goes by itself but the timers' tasks, which somebody deletes or their time brings to an end."""

    keeps_ended = False
    silent = True

    def __init__(self, home: Path, google: Google) -> None:
        self.google = google
        self.client: TpuClient = TpuClient(google, home)
        google.reset(Scenario(trainer="named"))
        make_ready(self.client)
        google.control("permit", {"permissions": documented("client", "client-own")})

    def request(self, call: Sequence[Any]) -> VendorRequest | None:
        return _request(call)

    def break_launch(self) -> None:
        self.google.script(FaultRule(operation=CREATE, status=429, message=NO_CAPACITY, times=None))

    def break_listing(self) -> None:
        self.google.script(FaultRule(operation=LIST, effect="warning", placement="us-central1-a", times=None))

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


def in_order(look: Callable[[str], ListedResources], zones: Sequence[str]) -> Iterable[ListedResources]:
    """One zone after the other: the same calls in the same order each time."""
    return [look(zone) for zone in zones]


def _request(call: Sequence[Any]) -> VendorRequest | None:
    """What was sent, as the seam writes it down; None for what makes nothing."""
    told: dict[str, Any] = dict(call)
    if told["method"] == CREATE:
        parameters: dict[str, object] = {
            "parent": _home(told["path"]),
            "queuedResourceId": told["query"]["queuedResourceId"],
            "requestId": told["query"]["requestId"],
            "queuedResource": told["body"],
        }
        return VendorRequest(service="tpu", operation="CreateQueuedResource", parameters=parameters)
    if told["method"] == "compute.disks.insert":
        disk = {**told["path"], "requestId": told["query"]["requestId"], "body": told["body"]}
        return VendorRequest(service="compute", operation="disks.insert", parameters=disk)
    if told["method"] == "cloudtasks.projects.locations.queues.tasks.create":
        parent = f"{_home(told['path'])}/queues/{told['path']['queuesId']}"
        given = {"parent": parent, **told["body"]}
        return VendorRequest(service="cloudtasks", operation="CreateTask", parameters=given)
    if told["method"] == "storage.objects.insert" and "data" in told["path"]:
        return _put(told["path"])
    return None


def _home(path: dict[str, str]) -> str:
    return f"projects/{path['projectsId']}/locations/{path['locationsId']}"
