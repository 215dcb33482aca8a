"""Grants and free tiers: the table, its page, and which help beside a provider."""

from __future__ import annotations

import csv

import pytest

from tests.conftest import ROOT
from trainplan.pricing.grants import GRANT_COLUMNS, TABLE, _grant, grants, grants_beside
from trainplan.providers.registry import CLOUDS

PAGE = (ROOT / "docs" / "free-places.md").read_text("utf-8")


def test_the_table_has_its_columns_and_every_row_its_source() -> None:
    with TABLE.open(newline="", encoding="utf-8") as file:
        assert tuple(csv.DictReader(file).fieldnames or ()) == GRANT_COLUMNS
    assert all(one.source and one.limit for one in grants())
    assert {one.provider for one in grants()} <= {"", *CLOUDS}


@pytest.mark.parametrize("grant", grants(), ids=lambda one: one.name)
def test_the_page_has_each(grant: object) -> None:
    (row,) = [one for one in grants() if one is grant]
    card = "yes" if row.wants_card else "no"
    cells = (row.name, row.provider or "there", row.what, row.limit, card, row.as_of.isoformat(), row.source)
    assert f"| {' | '.join(cells)} |" in PAGE


@pytest.mark.parametrize("provider", CLOUDS)
def test_places_of_their_own_come_before_what_is_spent_at_the_provider(provider: str) -> None:
    beside = grants_beside(provider)
    assert {one.provider for one in beside} == {"", provider}
    assert [one.provider for one in beside] == sorted(one.provider for one in beside)


@pytest.mark.parametrize("wrong", [{"card": "perhaps"}, {"source": ""}, {"as_of": "lately"}])
def test_a_row_that_cannot_be_true_is_refused(wrong: dict[str, str]) -> None:
    row = {"name": "n", "provider": "", "what": "w", "limit": "l", "card": "no", "as_of": "2026-11-26", "source": "s"}
    with pytest.raises(ValueError, match=r"card is yes or no|lately"):
        _grant(row | wrong)
