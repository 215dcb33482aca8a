"""AWS as the command line finds it on a computer whose time is the double's."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.contract.aws import HOME, TimedAws
from tests.desk import a_desk
from tests.doubles.aws import remote
from trainplan.providers import registry
from trainplan.providers.aws import store
from trainplan.providers.aws.provider import AwsProvider, make
from trainplan.providers.stores.patience import Patience
from trainplan.providers.stores.store import run_store

if TYPE_CHECKING:
    import pytest

    from trainplan.providers.base import ProviderSettings

FACTORY = f"{__name__}:make_provider"
DOUBLES: list[remote.Double] = []


def make_provider(settings: ProviderSettings) -> TimedAws:
    """What the registry calls: the adapter as it is, in the double's time."""
    double = DOUBLES[-1]
    given = make(replace(settings, now=double.now))
    given.account.now = double.now  # the answers' Date is this computer's
    opened = cache(lambda: store.make(settings))
    patience = Patience(sleep=double.sleep)
    rented = replace(given.rented, store=cache(lambda run_id: run_store(opened(), run_id, patience=patience)))
    parts = {known.name: getattr(given, known.name) for known in fields(AwsProvider)} | {
        "rented": rented,
        "patience": replace(given.patience, sleep=double.sleep),
        "let_go": lambda: opened().close() if opened.cache_info().currsize else None,
    }
    return TimedAws(**parts, double=double)


def at_a_desk(double: remote.Double, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person's computer that is signed in to the double, with nothing but its documented settings."""
    given = {"PLAN_AWS_REGION": HOME, "PLAN_AWS_ENDPOINT": double.url, "PLAN_AWS_MIRRORS": double.mirror}
    a_desk(home, monkeypatch, **remote.ENVIRONMENT, **given)
    for name in remote.UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(registry.FACTORIES, "aws", FACTORY)
    monkeypatch.setattr(f"{__name__}.DOUBLES", [double])


def machines(double: remote.Double) -> list[dict[str, Any]]:
    return [row for row in double.ask("ledger") if row["kind"] == "instance"]
