"""The world of AWS: its double in a process of its own, whose time only sleepers move."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.doubles.aws.remote import Double
from trainplan.providers.aws import store
from trainplan.providers.aws.account import AwsAccount
from trainplan.providers.aws.api import CONNECTIONS, Api, SdkApi
from trainplan.providers.aws.provider import AwsProvider, make
from trainplan.providers.aws.request import GROUP_ID, INSTANCE_ID
from trainplan.providers.aws.settings import AwsSettings
from trainplan.providers.base import ProviderSettings, RunId, VendorRequest
from trainplan.providers.cloud.launch import Rented
from trainplan.providers.stores.bucket import Bucket
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.store import run_store

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer, OfferQuery

DIGEST = f"sha256:{'5' * 64}"
HOME = "us-east-1"
OFFER = "g4dn.xlarge"
PLACEMENTS = {r"sg-[0-9a-f]{17}": GROUP_ID, r"\bi-[0-9a-f]{17}": INSTANCE_ID}
CREATES = ("CreateSecurityGroup", "RunInstances", "CreateScheduleGroup", "CreateSchedule")


@dataclass(frozen=True)
class TimedAws(AwsProvider):
    """In the time of the double (trainplan.providers.abilities.Timekeeper). `only` are the offers that tests ask
    for."""

    double: Double = field(kw_only=True)
    only: str = field(kw_only=True, default=OFFER)

    def now(self) -> Any:
        return self.double.now()

    def sleep(self, seconds: float) -> None:
        self.double.sleep(seconds)

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        wanted = query._replace(instance_types=frozenset({self.only}))
        return [offer for offer in super().offers(wanted) if query.regions or offer.region == HOME]


@dataclass(frozen=True)
class Client:
    """What a newly started command makes of one double. `api` and `bucket` let a test put itself in front of them."""

    double: Double
    home: Path
    api: Callable[[Api], Api] = lambda api: api
    bucket: Callable[[Callable[[], Bucket]], Bucket] = lambda make: make()
    threads: int = CONNECTIONS

    def settings(self) -> ProviderSettings:
        options = {"region": HOME, "endpoint": self.double.url}
        return ProviderSettings(home=self.home, options=options, environment={}, now=self.double.now)

    def provider(self, only: str = OFFER) -> TimedAws:
        made = make(self.settings())
        api = self.api(sdk(self.double.url))
        opened = cache(lambda: self.bucket(lambda: store.make(self.settings())))
        patience = Patience(sleep=self.double.sleep)
        rented = replace(
            made.rented,
            store=cache(lambda run_id: run_store(opened(), run_id, patience=patience)),
            digest=lambda _: DIGEST,
        )
        account = AwsAccount(api, AwsSettings.of(self.settings()), self.double.now)
        given = {
            **{known.name: getattr(made, known.name) for known in fields(AwsProvider)},
            "api": api,
            "account": account,
            "standing_resources": replace(made.standing_resources, account=account),
            "rented": rented,
            "threads": self.threads,
            "patience": replace(made.patience, sleep=self.double.sleep),
            "let_go": lambda: opened().close() if opened.cache_info().currsize else None,
        }
        return TimedAws(**given, double=self.double, only=only)


@cache
def sdk(url: str) -> SdkApi:
    """One for all clients of a double: it remembers nothing, and takes a second to make."""
    return SdkApi(HOME, url)


@dataclass(frozen=True)
class Recorder:
    """Every call that creates something, as it is sent."""

    inner: Api
    sent: list[VendorRequest]

    @property
    def home(self) -> str:
        return self.inner.home

    def call(self, service: str, region: str, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        if operation in CREATES and "DryRun" not in parameters:
            self.sent.append(VendorRequest(service=f"{service}.{region}", operation=operation, parameters=parameters))
        return self.inner.call(service, region, operation, parameters)


@dataclass(frozen=True)
class RecordingRented(Rented):
    """Every object that a launch puts, as it was recorded."""

    sent: list[VendorRequest] = field(default_factory=list)

    def put(self, run_id: RunId, call: VendorRequest) -> None:
        super().put(run_id, call)
        self.sent.append(call)


class AwsHarness:
    provider_name = "aws"
    keeps_ended = False
    tells_training = False

    def __init__(self, home: Path, double: Double, setup: str = "reaper") -> None:
        self.double = double
        self._sent: list[VendorRequest] = []
        self._client = Client(double, home, api=lambda api: Recorder(api, self._sent))
        self._providers: list[TimedAws] = []
        double.reset(setup=setup, bucket=True, policies=["client"])

    def provider(self) -> TimedAws:
        made = self._client.provider()
        rented = RecordingRented(
            **{name: getattr(made.rented, name) for name in Rented.__dataclass_fields__}, sent=self._sent
        )
        self._providers.append(replace(made, rented=rented))
        return self._providers[-1]

    def sent(self) -> Sequence[VendorRequest]:
        """A call that repeats another one makes nothing new: its token or its name says so. Ids that a call gets from
        the one before are shown as the placements that they were put into."""
        made = [replace(request, parameters=self._with_placements(request.parameters)) for request in self._sent]
        return [request for number, request in enumerate(made) if request not in made[:number]]

    def break_launch(self) -> None:
        self.double.script(operation="RunInstances", code="InsufficientInstanceCapacity", times=None)

    def break_listing(self) -> None:
        self.double.script(
            operation="DescribeInstances", region="us-west-2", status=503, code="Unavailable", times=None
        )

    def lose_reply(self) -> None:
        self.double.script(operation="RunInstances", effect="lost_reply")

    def clean(self) -> None:
        for made in self._providers:
            made.close()
        assert self.double.ask("unpermitted") == [], "docs/permissions/aws/client.json lacks what the adapter calls"

    def _with_placements(self, parameters: Mapping[str, object]) -> dict[str, Any]:
        text = json.dumps(parameters)
        for pattern, placement in PLACEMENTS.items():
            text = re.sub(pattern, placement, text)
        return dict(json.loads(text))
