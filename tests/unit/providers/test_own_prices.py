"""Whoever has read prices anew is offered what was read, whichever provider is asked."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.doubles.clock import NOON
from trainplan.planner.datasets.storage_costs import rates_of
from trainplan.pricing.catalog import REFRESHED, SHIPPED_CATALOG
from trainplan.pricing.current import offers_of
from trainplan.pricing.offers import Market, OfferQuery
from trainplan.providers import registry
from trainplan.providers.base import ProviderSettings
from trainplan.providers.gcp.prices import usd_per_hour_of
from trainplan.providers.registry import CLOUDS

ON_DEMAND = OfferQuery(markets=frozenset({Market.ON_DEMAND}))
DISK = {"sizeGb": "100"}


@pytest.fixture
def dear(tmp_path: Path) -> Path:
    """A state folder with a catalog in which everything costs seven dollars more, and storage seven dollars."""
    shutil.copy(SHIPPED_CATALOG, tmp_path / REFRESHED)
    (tmp_path / REFRESHED).chmod(0o600)
    with closing(sqlite3.connect(tmp_path / REFRESHED)) as db, db:
        db.execute("UPDATE price SET usd_micro = usd_micro + 7000000")
        db.execute("UPDATE side_rate SET usd = '7' WHERE per = 'gb_month'")
    return tmp_path


@pytest.mark.parametrize("name", CLOUDS)
def test_offers_are_those_of_the_refreshed_catalog(name: str, dear: Path) -> None:
    provider = registry.provider(name, ProviderSettings(home=dear, options={}, environment={}, now=lambda: NOON))
    found = provider.offers(ON_DEMAND)
    assert {offer.provider for offer in found} == {name}
    assert list(found) == offers_of(name, ON_DEMAND, dear, NOON.date())
    assert all(offer.usd_per_hour > 7 for offer in found)


@pytest.mark.parametrize("name", CLOUDS)
def test_without_one_they_are_the_shipped_ones(name: str, tmp_path: Path) -> None:
    provider = registry.provider(name, ProviderSettings(home=tmp_path, options={}, environment={}, now=lambda: NOON))
    assert list(provider.offers(ON_DEMAND)) == offers_of(name, ON_DEMAND, None, NOON.date())


@pytest.mark.parametrize("name", CLOUDS)
def test_a_query_for_others_finds_nothing(name: str, tmp_path: Path) -> None:
    provider = registry.provider(name, ProviderSettings(home=tmp_path, options={}, environment={}, now=lambda: NOON))
    assert list(provider.offers(OfferQuery(providers=frozenset({"elsewhere"})))) == []


def test_what_stays_and_what_is_left_is_priced_by_it_too(dear: Path) -> None:
    rates = rates_of("gcp", dear)
    assert rates is not None
    assert rates.storage().usd == 7
    cheap, own = (usd_per_hour_of("disks", "us-central1-a", DISK, home) for home in (None, dear))
    assert cheap is not None
    assert own is not None
    assert own > cheap
