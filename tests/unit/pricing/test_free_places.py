"""Places that cost nothing: their limits, and that nothing else is taken to cost nothing."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from tests.doubles.clock import NOON
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.compile import TEXT_DIR
from trainplan.pricing.free_places import FREE_PLACES, free_place, free_providers, parse_free_place
from trainplan.pricing.offers import OfferQuery
from trainplan.pricing.table_text import TableError
from trainplan.pricing.tables import read_tables

ROW = {
    **{"provider": "kaggle", "instance_type": "NvidiaTeslaT4", "session_hours": "12", "planned_hours": "9"},
    **{"weekly_hours": "30", "idle_minutes": "20", "storage_gb": "20", "data_gb": "200"},
    **{"assumed": "planned_hours", "as_of": "2026-09-22", "source": "a page"},
}


def test_every_machine_that_costs_nothing_has_its_limits() -> None:
    with Catalog.open() as catalog:
        offers = catalog.offers(OfferQuery(include_retired=True), NOON.date())
    free = [offer for offer in offers if offer.usd_per_hour == 0]
    assert {offer.provider for offer in free} == set(free_providers())
    for offer in free:
        place = free_place(offer.provider, offer.instance_type)
        assert place is not None
        assert place.source


def test_a_machine_that_costs_money_has_none() -> None:
    assert free_place("aws", "g4dn.xlarge") is None


def test_a_row() -> None:
    place = parse_free_place(ROW)
    assert (place.session, place.week) == (timedelta(hours=9), timedelta(hours=30))
    assert place.assumed == {"planned_hours"}


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"session_hours": "0"}, "session_hours 0.0 is not above 0"),
        ({"weekly_hours": "nan"}, "weekly_hours nan is not above 0"),
        ({"planned_hours": "13"}, "planned_hours is more than session_hours"),
        ({"weekly_hours": "8"}, "or than weekly_hours"),
        ({"assumed": "everything"}, "assumed 'everything'"),
        ({"source": ""}, "who says so"),
        ({"as_of": "soon"}, "soon"),
    ],
)
def test_a_row_that_cannot_be_true_is_refused(wrong: dict[str, str], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        parse_free_place(ROW | wrong)


def test_a_price_of_nothing_is_refused_where_no_row_says_so(tmp_path: Path) -> None:
    text = tmp_path / "data"
    shutil.copytree(TEXT_DIR, text, ignore=shutil.ignore_patterns("*.sqlite"))
    table = (text / FREE_PLACES).read_text("utf-8")
    (text / FREE_PLACES).write_text("\n".join(row for row in table.splitlines() if "v5e1" not in row) + "\n", "utf-8")
    with pytest.raises(TableError, match=r"colab\.csv:3: .*a price is above 0, not 0"):
        read_tables(text)
