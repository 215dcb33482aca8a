"""The home of an older commit's client, and the double with what that client has made (tests/data/journals)."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from planner.home.client import hash_of, own_client
from planner.home.computer import this_computer
from planner.runs.journal.journal import Journal
from planner.runs.run import Phase
from providers.aws.api import Api
from providers.aws.provider import AwsProvider
from providers.aws.request import GROUP_ID, filled
from providers.azure.api import Call, recorded, replayed
from providers.base import RunId, VendorRequest
from providers.cloud.agent_archive import AGENT, agent_bytes
from providers.cloud.launch import PUT
from providers.cloud.trainer_wheel import WHEEL, wheel_bytes
from providers.gcp import store
from providers.gcp.account import Account
from providers.gcp.api import GoogleApi
from providers.gcp.settings import GcpSettings
from providers.stores.store import run_store
from tests.conftest import ROOT
from tests.contract.aws import HOME
from tests.contract.gcp import PROJECT, Client
from tests.faults.aws import AwsCloud
from tests.faults.azure import AzureCloud
from tests.faults.commands import Command, Computer, Killed, installed
from tests.faults.gcp import GcpCloud
from tests.faults.harness import Cloud
from tests.faults.points import Points
from tests.faults.sim import SimCloud

if TYPE_CHECKING:
    from planner.runs.run import Run
    from planner.settings import Settings
    from providers.base import Provider
    from providers.stores.store import ObjectStore
    from tests.faults.harness import Lived

JOURNALS = ROOT / "tests" / "data" / "journals"
LETTERS = {"sim": "a", "gcp": "b", "aws": "c", "azure": "d"}
TRAINS, NOT_SENT, NO_ANSWER = "1", "2", "3"
"""The last digit of a run's id: its machine trains; its create was recorded, and its client died before it was sent, or
before the answer was recorded."""
KINDS = (TRAINS, NOT_SENT, NO_ANSWER)
CREATES = {"sim": "RunInstance", "gcp": "instances.insert", "aws": "RunInstances", "azure": "PUT virtualMachines"}
TAKEN_UP_AFTER = timedelta(minutes=3)
_IN_FIRST_ZONE = {"Filters": [{"Name": "availability-zone", "Values": [f"{HOME}a"]}]}
_SOON = timedelta(seconds=10)
Calls = Sequence[Mapping[str, Any]]


class OlderCloud(Cloud, Protocol):
    """A double that an older client has used. `create_texts` are the parameters of each create that it was sent, in the
    words of the journal; `ids` are those that the double gave, by what stands for them in a kept journal."""

    ids: dict[str, str]

    @property
    def create_texts(self) -> list[str]: ...

    def carry_out(self, run_id: RunId, calls: Calls) -> None:
        """What the older client had sent before it died; make.py compared it with what was recorded."""


@dataclass
class Upgraded:
    """The home of an older commit's client, and the cloud with what that client has made."""

    computer: Computer
    cloud: OlderCloud
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the older commit recorded, by run."""

    def name(self, kind: str) -> str:
        return f"261121-{LETTERS[self.computer.provider]}000000{kind}"

    def run(self, kind: str) -> Run:
        with Journal.open(self.computer.settings.journal) as journal:
            return journal.run(self.name(kind))

    def machines(self, kind: str) -> list[Lived]:
        """Every machine that the run ever had."""
        return [row for row in self.cloud.ledger() if row.machine and row.run == self.name(kind)]

    def remaining(self) -> list[Lived]:
        return [row for row in self.cloud.ledger() if row.remaining]

    def recorded(self, kind: str) -> list[str]:
        """The create as the older commit recorded it, in the words of `creates`."""
        create = CREATES[self.computer.provider]
        return [text_of(call["parameters"]) for call in self.calls(kind) if call["operation"] == create]

    def creates(self, kind: str) -> list[str]:
        """Every create of the run that has reached the cloud, each text once."""
        return list(dict.fromkeys(text for text in self.cloud.create_texts if self.name(kind) in text))

    def calls(self, kind: str) -> list[dict[str, Any]]:
        return list(self.requests[self.name(kind)]["calls"])

    def attach(self, kind: str) -> None:
        """`plan attach`, whose process dies as soon as the run has a machine."""

        def meanwhile() -> None:
            if self.run(kind).phase in (Phase.BOOTING, Phase.RUNNING):
                raise Killed

        self.computer.attach(Command(None, meanwhile), self.name(kind))


class OlderSim(SimCloud):
    """The simulated cloud, which remembers the creates that it was sent."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self._create_texts: list[str] = []
        super().__init__("plain")

    @property
    def create_texts(self) -> list[str]:
        return self._create_texts

    def answer(self, message: tuple[Any, ...]) -> Any:
        if message[:2] == ("call", CREATES["sim"]):
            self._create_texts.append(text_of(message[2]))
        return super().answer(message)

    def carry_out(self, run_id: RunId, calls: Calls) -> None:
        for call in calls:
            self.answer(("call", call["operation"], call["parameters"]))


class OlderGcp(GcpCloud):
    """Compute Engine, whose double remembers its calls."""

    def __init__(self) -> None:
        super().__init__("plain")
        self.ids: dict[str, str] = {}

    @property
    def create_texts(self) -> list[str]:
        calls = [dict(call) for call in self.google.control("calls")["calls"]]
        return [
            text_of({**call["path"], "requestId": call["query"]["requestId"], "body": call["body"]})
            for call in calls
            if call["method"] == f"compute.{CREATES['gcp']}"
        ]

    def carry_out(self, run_id: RunId, calls: Calls) -> None:
        with closing(store.make(Client(self.google, Path()).settings())) as bucket:
            put_files(run_store(bucket, run_id), calls)
        account = Account(GcpSettings(project=PROJECT, endpoint=self.google.url))
        create = calls[-1]["parameters"]
        api = GoogleApi(account)
        operation = api.insert(create["project"], create["zone"], create["body"], create["requestId"])
        api.wait(create["project"], create["zone"], operation["name"])
        account.close()


class OlderAws(AwsCloud):
    """EC2, with the creates that its SDK was given. The double gives other ids in each of its worlds. Its machines boot
    for an hour: one that has booted compares its files, and those of the older commit are not in the journal."""

    def __init__(self) -> None:
        super().__init__("plain", boot=[3600, 3600])
        self._create_texts: list[str] = []
        (subnet,) = self._sdk.call("ec2", HOME, "DescribeSubnets", _IN_FIRST_ZONE)["Subnets"]
        self.ids = {"@SUBNET@": str(subnet["SubnetId"]), "@VPC@": str(subnet["VpcId"])}

    @property
    def create_texts(self) -> list[str]:
        return self._create_texts

    def provider(self, ask: Any, points: Points) -> Provider:
        made = super().provider(ask, points)
        assert isinstance(made, AwsProvider)
        return replace(made, api=NotingApi(made.api, self._create_texts))

    def carry_out(self, run_id: RunId, calls: Calls) -> None:
        provider = self.provider(self.answer, Points())
        assert isinstance(provider, AwsProvider)
        put_files(provider.rented.store(run_id), calls)
        for call in calls:
            if call["operation"] != PUT:
                service, _, region = call["service"].partition(".")
                given = filled(with_ids(call["parameters"], self.ids), {GROUP_ID: self.ids.get("@GROUP@", "")})
                reply = provider.api.call(service, region, call["operation"], given)
                if call["operation"] == "CreateSecurityGroup":
                    self.ids["@GROUP@"] = str(reply["GroupId"])
                elif run_id.endswith(TRAINS):
                    self.ids["@INSTANCE@"] = str(reply["Instances"][0]["InstanceId"])


@dataclass(frozen=True)
class NotingApi:
    """A client of AWS that remembers the parameters of each create."""

    inner: Api
    create_texts: list[str]

    @property
    def home(self) -> str:
        return self.inner.home

    def call(self, service: str, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if operation == CREATES["aws"] and not parameters.get("DryRun"):
            self.create_texts.append(text_of(parameters))
        return self.inner.call(service, region, operation, parameters)


class OlderAzure(AzureCloud):
    """Resource Manager, whose double remembers its calls."""

    def __init__(self) -> None:
        super().__init__("plain")
        self.ids: dict[str, str] = {}

    @property
    def create_texts(self) -> list[str]:
        calls = [
            Call(method=call["method"], path=call["path"], api=query.pop("api-version"), query=query, body=call["body"])
            for call in self.world.calls
            if (query := dict(call["query"])) and call["method"] == "PUT"
        ]
        return [text_of(recorded(call).parameters) for call in calls if call.name == CREATES["azure"]]

    def carry_out(self, run_id: RunId, calls: Calls) -> None:
        provider = self.provider(self.answer, Points())
        put_files(provider.rented.store(run_id), calls)
        for call in calls:
            if call["operation"] != PUT:
                reply = provider.account.arm.send(replayed(VendorRequest(**call)))
                assert reply.status < 400, reply
                self.pass_time(self.now() + _SOON)  # each needs what the call before it made


DOUBLES: Mapping[str, Callable[[], OlderCloud]] = {
    "sim": OlderSim,
    "gcp": OlderGcp,
    "aws": OlderAws,
    "azure": OlderAzure,
}


def put_files(run_files: ObjectStore, calls: Calls) -> None:
    """The older commit's own agent and trainer are not in the journal; no machine of a double runs them."""
    for call in calls:
        if call["operation"] == PUT:
            data = base64.b64decode(call["parameters"].get("Body", ""))
            run_files.put(call["parameters"]["Path"], data)


def text_of(parameters: object) -> str:
    return json.dumps(parameters, sort_keys=True)


@contextmanager
def upgraded(home: Path, version: str, provider: str, *, same_files: bool = False) -> Iterator[Upgraded]:
    """`same_files`: the agent and the trainer are as if the older commit had had those of now."""
    cloud = DOUBLES[provider]()
    computer = Computer(home, cloud, provider)
    home.mkdir()
    keys = JOURNALS / version / f"{provider}-run-keys.json"
    if keys.exists():
        shutil.copy(keys, home / "run-keys.json")
    text = journal_text(computer.settings, version, provider)
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(text)
        requests = requests_of(db)
    for kind in (TRAINS, NO_ANSWER):
        run_id = f"261121-{LETTERS[provider]}000000{kind}"
        cloud.carry_out(RunId(run_id), sent_calls(provider, kind, requests[run_id]["calls"]))
    with closing(sqlite3.connect(computer.settings.journal)) as db:
        db.executescript(with_ids(text, cloud.ids))
        if same_files:
            with db:
                take_files_of_now(db)
        made = Upgraded(computer, cloud, requests_of(db))
    cloud.pass_time(cloud.now() + TAKEN_UP_AFTER)
    with installed(home, provider):
        yield made
    cloud.let_go()


def sent_calls(provider: str, kind: str, calls: Calls) -> Calls:
    """Those that the older client had sent: what comes after a create that was cut off had not been."""
    names = [call["operation"] for call in calls]
    return calls if kind == TRAINS else calls[: names.index(CREATES[provider]) + 1]


def journal_text(settings: Settings, version: str, provider: str) -> str:
    """The journal, as if its client had had this folder. Commit b318286 labelled with a hash of it."""
    has_client_file = version != "b318286"
    computer = this_computer(settings.computer)
    label = own_client(settings).id if has_client_file else hash_of(settings.home, computer.host_name)
    text = (JOURNALS / version / f"{provider}.sql").read_text(encoding="utf-8")
    return text.replace("@HOME@", str(settings.home)).replace("@CLIENT@", label)


def requests_of(db: sqlite3.Connection) -> dict[str, dict[str, Any]]:
    """What was recorded, by run."""
    return {name: json.loads(text) for name, text in db.execute("SELECT run_id, request_json FROM attempts")}


def with_ids(value: Any, ids: Mapping[str, str]) -> Any:
    """A text, or what JSON can hold, with the double's ids in their places."""
    if not isinstance(value, str):
        return json.loads(with_ids(json.dumps(value), ids))
    for place, name in ids.items():
        value = value.replace(place, name)
    return value


def take_files_of_now(db: sqlite3.Connection) -> None:
    """The recorded calls that put the agent and the trainer name those of now; the create stays as it was recorded."""
    now = {AGENT: agent_bytes(), WHEEL: wheel_bytes()}
    for run_id, text in db.execute("SELECT run_id, request_json FROM attempts").fetchall():
        request = json.loads(text)
        for call in request["calls"]:
            data = now.get(str(call["parameters"].get("Path", "")).rpartition("/")[2])
            if data is not None:
                call["parameters"] |= {"SHA256": hashlib.sha256(data).hexdigest(), "Bytes": len(data)}
        db.execute("UPDATE attempts SET request_json = ? WHERE run_id = ?", (json.dumps(request), run_id))
