"""The world of Google Cloud: its double in a process of its own, whose time only sleepers move."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conftest import ROOT
from tests.doubles.google.process import Google
from tests.doubles.google.scenario import FaultRule, Scenario
from trainplan.providers.base import ProviderSettings, RunId, VendorRequest
from trainplan.providers.cloud.agent_archive import AGENT
from trainplan.providers.cloud.trainer_wheel import WHEEL
from trainplan.providers.gcp import store
from trainplan.providers.gcp.account import GcpAccount
from trainplan.providers.gcp.api import Api, GoogleApi
from trainplan.providers.gcp.compute import Machines
from trainplan.providers.gcp.provider import GcpProvider, rented_of
from trainplan.providers.gcp.settings import GcpSettings
from trainplan.providers.stores.bucket import Bucket
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.store import ObjectStore, run_store

if TYPE_CHECKING:
    from trainplan.pricing.offers import Offer, OfferQuery
    from trainplan.providers.cloud.launch import Rented
    from trainplan.providers.gcp.part import GcpPart
    from trainplan.providers.gcp.setup import GcpSetUp

PROJECT = "a-project"
DIGEST = f"sha256:{'5' * 64}"
OFFER = "n1-standard-4+1xT4"
_OURS = (AGENT, WHEEL)


def _nothing() -> None:
    """Nobody wants to hear."""


@dataclass(frozen=True)
class TimedGcp(GcpProvider):
    """In the time of the double (trainplan.providers.abilities.Timekeeper). `only` are the offers that tests ask for
    ("": all of them), `slept` hears of each wait."""

    google: Google = field(kw_only=True)
    only: str = field(kw_only=True, default=OFFER)
    slept: Callable[[], None] = field(kw_only=True, default=_nothing)
    let_go: Callable[[], None] = field(kw_only=True, default=_nothing)

    def close(self) -> None:
        """What a command does at its end (trainplan.providers.abilities.Closing)."""
        self.let_go()
        self.account.close()

    def sleep(self, seconds: float) -> None:
        self.google.sleep(seconds)
        self.slept()

    def offers(self, query: OfferQuery) -> Sequence[Offer]:
        return [offer for offer in super().offers(query) if self.only in ("", offer.instance_type)]

    def _set_up(self) -> GcpSetUp:
        return replace(super()._set_up(), wait=self.sleep)


@dataclass(frozen=True)
class Client:
    """What a newly started command makes of one server. `api` and `bucket` let a test put itself in front of them."""

    google: Google
    home: Path
    api: Callable[[Api], Api] = lambda api: api
    bucket: Callable[[Bucket], Bucket] = lambda bucket: bucket
    slept: Callable[[], None] = _nothing

    def settings(self) -> ProviderSettings:
        options = {"project": PROJECT, "endpoint": self.google.url}
        return ProviderSettings(home=self.home, options=options, environment={}, now=self.google.now)

    def account(self) -> GcpAccount:
        return GcpAccount(GcpSettings.of(self.settings()))

    def stores(self) -> Callable[[RunId], ObjectStore]:
        opened = cache(lambda: self.bucket(store.make(self.settings())))
        patience = Patience(sleep=self.google.sleep)
        return cache(lambda run_id: run_store(opened(), run_id, patience=patience))

    def rented(self, stores: Callable[[RunId], ObjectStore]) -> Rented:
        return replace(rented_of(self.settings(), stores, {}), digest=lambda _: DIGEST)

    def provider(self, only: str = OFFER) -> TimedGcp:
        account, stores = self.account(), self.stores()
        parts: tuple[GcpPart, ...] = (
            Machines(self.api(GoogleApi(account)), account, self.rented(stores), self.google.sleep),
        )
        return TimedGcp(account, parts, stores, self.google.now, google=self.google, only=only, slept=self.slept)


def documented(*roles: str) -> list[str]:
    """The permissions of these roles of docs/permissions/gcp."""
    texts = [(ROOT / "docs" / "permissions" / "gcp" / f"{name}.json").read_text(encoding="utf-8") for name in roles]
    return [name for text in texts for name in json.loads(text)["includedPermissions"]]


class GcpHarness:
    """Its clients have the documented roles of whoever launches, and nothing else."""

    provider_name = "gcp"
    keeps_ended = False
    tells_training = False

    def __init__(self, home: Path, google: Google) -> None:
        self.google = google
        self.client = Client(google, home)
        google.reset(Scenario(trainer="named"))
        google.control("permit", {"permissions": documented("client", "client-own")})

    def provider(self) -> TimedGcp:
        return self.client.provider()

    def sent(self) -> Sequence[VendorRequest]:
        """A call that repeats another one makes nothing new: its name or its requestId says so."""
        told = self.google.control("calls")
        assert told["violations"] == []
        made = [request for call in told["calls"] if (request := self.request(call)) is not None]
        return [request for number, request in enumerate(made) if request not in made[:number]]

    def request(self, call: Sequence[Any]) -> VendorRequest | None:
        """The create that a call sends; None for another call."""
        return _request(call)

    def break_launch(self) -> None:
        self.google.script(
            FaultRule(operation="compute.instances.insert", status=403, code="quotaExceeded", times=None)
        )

    def break_listing(self) -> None:
        listing = "compute.instances.aggregatedList"
        self.google.script(FaultRule(operation=listing, effect="warning", placement="us-east1-b", times=None))

    def lose_reply(self) -> None:
        self.google.script(FaultRule(operation="compute.instances.insert", effect="lost_reply"))

    def clean(self) -> None:
        assert self.google.control("calls")["violations"] == []


def _request(call: Sequence[Any]) -> VendorRequest | None:
    """What was sent, as the seam writes it down; None for what makes nothing."""
    told: dict[str, Any] = dict(call)
    if told["method"] == "compute.instances.insert":
        parameters = {**told["path"], "requestId": told["query"]["requestId"], "body": told["body"]}
        return VendorRequest(service="compute", operation="instances.insert", parameters=parameters)
    if told["method"] == "storage.objects.insert" and "data" in told["path"]:
        return _put(told["path"])
    return None


def _put(fields: dict[str, str]) -> VendorRequest | None:
    data = base64.b64decode(fields["data"])
    prefix, found, path = fields["object"].partition("/attempts/")
    path = f"attempts/{path}" if found else "job.json"
    prefix = prefix if found else fields["object"].removesuffix("/job.json")
    if not found and not fields["object"].endswith("/job.json"):
        return None
    parameters: dict[str, object] = {
        "RunDirectory": f"gs://{fields['bucket']}/{prefix}",
        "Path": path,
        "SHA256": hashlib.sha256(data).hexdigest(),
        "Bytes": len(data),
    }
    if path.rpartition("/")[2] not in _OURS:
        parameters["Body"] = fields["data"]
    return VendorRequest(service="storage", operation="PutObject", parameters=parameters)
