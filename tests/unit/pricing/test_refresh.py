"""A refresh on top of the shipped prices: what is used afterwards, and what is held back."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.fresh_process import alone
from tests.unit.pricing.conftest import TextDir, on_demand
from trainplan.pricing.adopt import adopt
from trainplan.pricing.catalog import REFRESHED, SHIPPED_CATALOG, Catalog
from trainplan.pricing.compile import TEXT_DIR, compile_catalog
from trainplan.pricing.current import current_catalog
from trainplan.pricing.grades import Market, PriceGrade
from trainplan.pricing.merge import News
from trainplan.pricing.offers import Offer, OfferQuery
from trainplan.pricing.planning import PlannedAs
from trainplan.pricing.refresh import Outcome, accept, forget, held_of, known_of, parts_of, read_overlays, refresh
from trainplan.pricing.sources import azure
from trainplan.pricing.sources.aws import LIST_ID, SPOT_ID, Advice
from trainplan.pricing.sources.aws_account import HISTORY_ID
from trainplan.pricing.sources.reading import Offered, Parsed, PriceFound, PricePart, TypeSeen
from trainplan.pricing.tables import SpotHistory

TODAY = date(2026, 11, 21)
REGION = "us-east-1"
OD, SPOT = Market.ON_DEMAND, Market.SPOT


@pytest.fixture(autouse=True)
def _compiled() -> None:
    assert SHIPPED_CATALOG.is_file(), "run `python -m trainplan.pricing.compile`"


def list_prices(home: Path, factor: str = "1", drop: Sequence[str] = ()) -> list[PriceFound]:
    """The region's on-demand prices as they were, times a factor."""
    return [
        PriceFound(REGION, row.type.name, OD, row.on_demand.usd_per_hour * Decimal(factor), LIST_ID, as_of=TODAY)
        for row in known_of("aws", home).offers
        if row.region == REGION and row.on_demand is not None and row.type.name not in drop
    ]


def part(prices: list[PriceFound], market: Market = OD, error: str = "", types: Sequence[TypeSeen] = ()) -> PricePart:
    parsed = Parsed(prices=prices, types=list(types))
    return PricePart(name=REGION, markets=frozenset({market}), regions=frozenset({REGION}), parsed=parsed, error=error)


def news(*parts: PricePart, **more: Any) -> News:
    return News(parts=parts, on=more.pop("on", TODAY), **more)


def offers(home: Path, name: str, market: Market = OD, today: date = TODAY) -> list[Offer]:
    query = OfferQuery(
        regions=frozenset({REGION}), instance_types=frozenset({name}), markets=frozenset({market}), include_retired=True
    )
    with Catalog.open(current_catalog(home)) as catalog:
        return catalog.offers(query, today)


def test_without_a_refresh_the_shipped_catalog_is_used(tmp_path: Path) -> None:
    assert current_catalog(tmp_path) == SHIPPED_CATALOG
    assert not forget(tmp_path)


def test_what_was_read_is_used_from_then_on(tmp_path: Path) -> None:
    outcome = refresh("aws", news(part(list_prices(tmp_path, "0.9"))), tmp_path)
    assert (outcome.read, outcome.failed, outcome.hold_reasons) == ((REGION,), (), ())
    assert outcome.changes.cheaper == len(list_prices(tmp_path))
    assert current_catalog(tmp_path) == tmp_path / REFRESHED
    (one,) = offers(tmp_path, "p5.48xlarge")
    assert (one.usd_per_hour, one.price_as_of, one.price_grade) == (Decimal("49.536"), TODAY, PriceGrade.LISTED)
    with Catalog.open(tmp_path / REFRESHED) as catalog:
        by_name = {summary.provider: summary for summary in catalog.summary(TODAY)}
        assert by_name["aws"].newest_price == TODAY
        assert by_name["gcp"].newest_price == date(2026, 10, 13)  # as shipped
    assert forget(tmp_path)
    assert current_catalog(tmp_path) == SHIPPED_CATALOG


def test_a_second_refresh_goes_on_from_the_first(tmp_path: Path) -> None:
    size = TypeSeen("g5.xyzlarge", 12, 48.0, 3)
    new = PriceFound(REGION, size.name, OD, Decimal(3), LIST_ID, as_of=TODAY)
    refresh("aws", news(part([*list_prices(tmp_path), new], types=[size])), tmp_path)
    outcome = refresh("aws", news(part(list_prices(tmp_path, "0.9")), on=date(2026, 12, 1)), tmp_path)
    assert (outcome.changes.added, outcome.changes.removed_offers) == (0, ())
    (one,) = offers(tmp_path, size.name)
    assert (one.device, one.device_count, one.usd_per_hour) == ("A10G", 3, Decimal("2.7"))


def test_a_failed_part_keeps_the_last_good_one_and_says_so(tmp_path: Path) -> None:
    refresh("aws", news(part(list_prices(tmp_path, "0.9"))), tmp_path)
    spot = PriceFound(REGION, "g5.xlarge", SPOT, Decimal("0.5"), HISTORY_ID, (f"{REGION}a",), as_of=TODAY)
    later = date(2026, 12, 1)
    ok = PricePart(name="spot", markets=frozenset({SPOT}), regions=frozenset({REGION}), parsed=Parsed(prices=[spot]))
    outcome = refresh("aws", news(part([], error="answers 503"), ok, on=later), tmp_path, accept=True)
    assert (outcome.read, outcome.failed) == (("spot",), ((REGION, "answers 503"),))
    assert offers(tmp_path, "p5.48xlarge")[0].price_as_of == TODAY
    parts = parts_of(read_overlays(tmp_path / REFRESHED)["aws"])
    assert parts[REGION]["on"] == TODAY.isoformat()
    assert parts[REGION]["failed"] == "answers 503"
    assert parts["spot"] == {"on": later.isoformat(), "prices": 1}


def test_where_nothing_was_read_nothing_is_written(tmp_path: Path) -> None:
    outcome = refresh("aws", news(part([], error="no way")), tmp_path)
    assert outcome.read == ()
    assert not (tmp_path / REFRESHED).exists()


def test_what_cannot_be_believed_is_held_back_until_it_is_accepted(tmp_path: Path) -> None:
    everywhere = PricePart(
        name="all", markets=frozenset({OD}), regions=None, parsed=Parsed(prices=list_prices(tmp_path))
    )
    outcome = refresh("aws", news(everywhere), tmp_path)
    assert "would be gone" in outcome.hold_reasons[0]
    assert not (tmp_path / REFRESHED).exists()
    assert refresh("aws", news(everywhere), tmp_path, accept=True).hold_reasons == ()
    assert (tmp_path / REFRESHED).exists()


def test_zones_weeks_and_interruptions_reach_the_offers(tmp_path: Path) -> None:
    week = SpotHistory(Decimal("0.42"), Decimal("0.3"), Decimal("0.6"))
    zones = [
        PriceFound(REGION, "g5.xlarge", SPOT, Decimal(usd), HISTORY_ID, (f"{REGION}{zone}",), history, as_of=TODAY)
        for zone, usd, history in (("a", "0.4", week), ("b", "0.5", None))
    ]
    advice = Advice({(REGION, "g5.xlarge"): (1, 60)}, 0, TODAY)
    refresh("aws", news(part(list_prices(tmp_path)), part(zones, SPOT), advice=advice), tmp_path, accept=True)
    cheap, dear = offers(tmp_path, "g5.xlarge", SPOT)
    assert (cheap.zones, cheap.usd_per_hour, cheap.planning_usd_per_hour) == (
        (f"{REGION}a",), Decimal("0.4"), Decimal("0.42"),
    )  # fmt: skip
    assert (cheap.spot_low_usd_per_hour, cheap.spot_high_usd_per_hour) == (Decimal("0.3"), Decimal("0.6"))
    assert (dear.zones, dear.planning_usd_per_hour) == ((f"{REGION}b",), Decimal("0.5"))
    assert {one.interruption_bucket for one in (cheap, dear)} == {1}
    assert {one.price_grade for one in (cheap, dear)} == {PriceGrade.OBSERVED}
    assert cheap.on_demand_usd_per_hour == Decimal("1.006")
    # Half a year later the listed price has drifted as spot prices of such machines have, upwards on the whole.
    stale, _ = offers(tmp_path, "g5.xlarge", SPOT, date(2027, 6, 1))
    assert (stale.price_grade, stale.planned_as) == (PriceGrade.STALE, PlannedAs.DRIFTED)
    assert stale.usd_per_hour < stale.planning_usd_per_hour < Decimal("1.006")  # type: ignore[operator]


def test_what_is_not_offered_is_left_out_and_marked(tmp_path: Path) -> None:
    offered = Offered(frozenset({REGION}), {(REGION, "g5.xlarge"): (f"{REGION}a",)}, TODAY)
    refresh("aws", news(part(list_prices(tmp_path)), offered=offered), tmp_path)
    there, gone = offers(tmp_path, "g5.xlarge"), offers(tmp_path, "p5.48xlarge")
    assert [(one.availability, one.zones) for one in there] == [((True, TODAY), (f"{REGION}a",))]
    assert [one.availability for one in gone] == [(False, TODAY)]
    with Catalog.open(tmp_path / REFRESHED) as catalog:
        wanted = OfferQuery(regions=frozenset({REGION}), providers=frozenset({"aws"}))
        names = {rental.instance_type for rental, placements in catalog.rentals(wanted, TODAY) if len(placements)}
        assert names == {"g5.xlarge"}
        (summary,) = [one for one in catalog.summary(TODAY) if one.provider == "aws"]
        assert summary.offerings_as_of == TODAY
        assert summary.not_offered > 50
        assert summary.by_lifecycle > 1000


@pytest.mark.parametrize(("is_asked", "is_ranked"), [(True, True), (False, False)])
def test_a_restricted_region_is_ranked_for_a_subscription_that_has_it(
    tmp_path: Path, is_asked: bool, is_ranked: bool
) -> None:
    """The vendor's offerings, asked with the person's own account, count for more than the list of such regions."""
    size, region = "Standard_NC24ads_A100_v4", "jioindiawest"
    there = PriceFound(region, size, OD, Decimal("5.14"), azure.LIST_ID, as_of=TODAY)
    read = PricePart(name=region, markets=frozenset({OD}), regions=frozenset(), parsed=Parsed(prices=[there]))
    offered = Offered(frozenset({region}), {(region, size): ()}, TODAY) if is_asked else None
    refresh("azure", news(read, offered=offered), tmp_path, accept=True)
    with Catalog.open(tmp_path / REFRESHED) as catalog:
        query = OfferQuery(regions=frozenset({region}), providers=frozenset({"azure"}))
        names = {one.instance_type for one in catalog.offers(query, TODAY)}
    assert (size in names) is is_ranked


def test_over_another_text_it_is_compiled_anew(tmp_path: Path) -> None:
    refresh("aws", news(part(list_prices(tmp_path, "0.9"))), tmp_path)
    (overlay,) = read_overlays(tmp_path / REFRESHED).values()
    other = tmp_path / "text"
    other.mkdir()
    for path in TEXT_DIR.rglob("*"):
        if path.suffix in (".csv", ".toml"):
            target = other / path.relative_to(TEXT_DIR)
            target.parent.mkdir(exist_ok=True)
            target.write_text(path.read_text(encoding="utf-8").replace(",Cannot,", ""), encoding="utf-8")
    (other / "sources.csv").write_text((TEXT_DIR / "sources.csv").read_text() + "more,listed,another list\n")
    compile_catalog(other, tmp_path / REFRESHED, [overlay])
    assert current_catalog(tmp_path) == tmp_path / REFRESHED
    with Catalog.open(tmp_path / REFRESHED) as catalog, Catalog.open() as shipped:
        assert catalog.text_sha256 == shipped.text_sha256
    assert offers(tmp_path, "p5.48xlarge")[0].price_as_of == TODAY


def test_prices_shipped_later_win_over_an_older_refresh(tmp_path: Path) -> None:
    refresh("aws", news(part(list_prices(tmp_path, "0.9")), on=date(2026, 7, 1)), tmp_path)
    (overlay,) = read_overlays(tmp_path / REFRESHED).values()
    older = replace(overlay, offers=overlay.offers.replace(TODAY.isoformat(), "2026-07-01"))
    compile_catalog(TEXT_DIR, tmp_path / REFRESHED, [older])
    _set_version(tmp_path / REFRESHED, 2)
    assert current_catalog(tmp_path) == tmp_path / REFRESHED
    assert offers(tmp_path, "p5.48xlarge")[0].price_as_of == date(2026, 7, 20)


def _set_version(path: Path, version: int) -> None:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


def test_a_refresh_becomes_text_that_can_be_reviewed(tmp_path: Path) -> None:
    """The same offers then come out of the shipped text alone."""
    size = TypeSeen("g5.xyzlarge", 12, 48.0, 3)
    new = PriceFound(REGION, size.name, OD, Decimal(3), LIST_ID, as_of=TODAY)
    refresh("aws", news(part([*list_prices(tmp_path, "1.1"), new], types=[size])), tmp_path)
    text = tmp_path / "text"
    shutil.copytree(TEXT_DIR, text)
    written = adopt(list(read_overlays(tmp_path / REFRESHED).values()), text)
    assert [path.name for path in written] == ["aws.csv", "instance_types.csv", "sources.csv"]
    assert (
        len((text / "sources.csv").read_text().splitlines())
        == len((TEXT_DIR / "sources.csv").read_text().splitlines()) + 1
    )
    compile_catalog(text, tmp_path / "adopted.sqlite")
    with Catalog.open(tmp_path / "adopted.sqlite") as adopted, Catalog.open(tmp_path / REFRESHED) as refreshed:
        everything = OfferQuery(include_retired=True)
        assert adopted.offers(everything, TODAY) == refreshed.offers(everything, TODAY)


def _no_database(path: Path) -> None:
    path.write_bytes(b"no database at all, and long enough to look at" * 10)


def _cut_in_the_middle(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _overwritten_pages(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [_no_database, _cut_in_the_middle, _overwritten_pages])
def test_a_damaged_refresh_falls_back_to_the_shipped_prices_and_is_healed(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    refresh("aws", news(part(list_prices(tmp_path, "0.9"))), tmp_path)
    damage(tmp_path / REFRESHED)
    said: list[str] = []
    assert current_catalog(tmp_path, said.append) == SHIPPED_CATALOG
    (line,) = said
    assert line.endswith(": the shipped prices are used; plan prices refresh reads them anew")
    refresh("aws", news(part(list_prices(tmp_path, "0.9"))), tmp_path)
    assert current_catalog(tmp_path) == tmp_path / REFRESHED


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@forks
@pytest.mark.slow
def test_a_catalog_killed_at_any_moment_is_the_old_one_or_the_new_one(text_dir: TextDir) -> None:
    """Evenly over all calls that touch a file, and at each of the last: a refresh writes nothing else."""
    text_dir.add_type("g4dn.xlarge")
    text_dir.add_offer(REGION, "g4dn.xlarge", **on_demand("1"))
    alone(_compile_killed, text_dir)


def _compile_killed(text_dir: TextDir) -> None:
    target = text_dir.compile()
    old = target.read_bytes()
    offer = text_dir.offers["aws"][0]
    offer["on_demand_usd_per_hour"] = "2"
    text_dir.compile()
    new = target.read_bytes()
    calls = _calls_of(lambda: compile_catalog(text_dir.path, target))
    seen = []
    for kill_at in [*range(1, calls - 30, calls // 40), *range(calls - 30, calls + 1)]:
        target.write_bytes(old)
        _killed(lambda: compile_catalog(text_dir.path, target), kill_at)
        seen.append(target.read_bytes())
    assert set(seen) == {old, new}
    assert seen == sorted(seen, key=[old, new].index), "once the new one is there it stays"
    assert len(seen) > 60


@forks
@pytest.mark.slow
def test_a_refresh_killed_on_its_way_leaves_what_was_there(tmp_path: Path) -> None:
    alone(_refresh_killed, tmp_path)


def _refresh_killed(tmp_path: Path) -> None:
    refresh("aws", news(part(list_prices(tmp_path))), tmp_path)
    old = (tmp_path / REFRESHED).read_bytes()
    later = news(part(list_prices(tmp_path, "0.9")), on=date(2026, 11, 22))
    calls = _calls_of(lambda: refresh("aws", later, tmp_path))
    new = (tmp_path / REFRESHED).read_bytes()
    seen = set()
    for kill_at in (calls // 2, calls - 5, calls):
        (tmp_path / REFRESHED).write_bytes(old)
        _killed(lambda: refresh("aws", later, tmp_path), kill_at)
        seen.add((tmp_path / REFRESHED).read_bytes())
        assert offers(tmp_path, "p5.48xlarge")
    assert seen == {old, new}
    assert refresh("aws", later, tmp_path).read == (REGION,)  # what a killed one left is in nobody's way
    assert (tmp_path / REFRESHED).read_bytes() == new


_WRITING = ("sqlite3", "posix", "_io")


def _calls_of(action: Any) -> int:
    """How many calls of what touches files an action makes."""
    count = 0

    def notice(frame: object, event: str, argument: Any) -> None:
        nonlocal count
        count += _touches(event, argument)

    sys.setprofile(notice)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def _killed(action: Any, kill_at: int) -> None:
    """Do it in a process that is killed at its n-th such call."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    count = 0

    def notice(frame: object, event: str, argument: Any) -> None:
        nonlocal count
        count += _touches(event, argument)
        if count >= kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.setprofile(notice)
        action()
    finally:
        os._exit(0)


def _touches(event: str, argument: Any) -> bool:
    if event not in ("c_call", "c_return"):
        return False
    owner = getattr(argument, "__self__", None)
    module = getattr(argument, "__module__", None) or type(owner).__module__
    return module in _WRITING or type(owner).__module__ in _WRITING


# --- prices that are held back --------------------------------------------------------------------------------------


def absurd(usd: str = "0.0001") -> PriceFound:
    return PriceFound(REGION, "p5.48xlarge", OD, Decimal(usd), LIST_ID, as_of=TODAY)


def held_names(home: Path) -> list[str]:
    return [one.name for overlay in read_overlays(home / REFRESHED).values() for one in held_of(overlay)]


def test_an_absurd_price_is_held_and_the_rest_is_taken_over(tmp_path: Path) -> None:
    prices = [one for one in list_prices(tmp_path, "0.9") if one.instance_type != "p5.48xlarge"]
    outcome = refresh("aws", news(part([*prices, absurd()])), tmp_path)
    assert (outcome.hold_reasons, [one.why for one in outcome.merged.held_prices]) == (
        (),
        ["550,400.0 times below the last known price"],
    )
    assert offers(tmp_path, "p5.48xlarge")[0].usd_per_hour == Decimal("55.04")
    assert offers(tmp_path, "p5.4xlarge")[0].usd_per_hour == Decimal("6.192")
    assert held_names(tmp_path) == ["aws/us-east-1/p5.48xlarge/on_demand"]


def test_a_price_of_windows_in_a_vendors_list_is_held_until_a_person_accepts_it(tmp_path: Path) -> None:
    prices = [one for one in list_prices(tmp_path) if one.instance_type != "c7i.2xlarge"]
    windows = PriceFound(REGION, "c7i.2xlarge", OD, Decimal("0.725"), LIST_ID, as_of=TODAY)
    outcome = refresh("aws", news(part([*prices, windows])), tmp_path)
    assert [(one.name, one.why) for one in outcome.merged.held_prices] == [
        (
            "aws/us-east-1/c7i.2xlarge/on_demand",
            "$0.725/h is $0.357 and 8 x 0.046 for Windows (other sizes of the family there say so)",
        )
    ]
    assert offers(tmp_path, "c7i.2xlarge")[0].usd_per_hour == Decimal("0.357")
    accept("aws", ["aws/us-east-1/c7i.2xlarge"], tmp_path)
    assert offers(tmp_path, "c7i.2xlarge")[0].usd_per_hour == Decimal("0.725")
    again = refresh("aws", news(part([*prices, windows])), tmp_path)
    assert again.merged.held_prices == ()  # a price that a person let in is not doubted again


@pytest.mark.parametrize("name", ["aws/us-east-1/p5.48xlarge/on_demand", "aws/us-east-1", "aws"])
def test_a_held_price_is_let_through_by_name(tmp_path: Path, name: str) -> None:
    refresh("aws", news(part([*list_prices(tmp_path, drop=["p5.48xlarge"]), absurd()])), tmp_path)
    assert [one.usd_per_hour for one in accept("aws", [name], tmp_path)] == [Decimal("0.0001")]
    (offer,) = offers(tmp_path, "p5.48xlarge")
    assert offer.usd_per_hour == Decimal("0.0001")
    assert offer.note.startswith("let through by name although 550,400.0 times below")
    assert held_names(tmp_path) == []


@pytest.mark.parametrize("name", ["aws/us-east-1/p5", "gcp", "aws/eu-west-1"])
def test_another_name_lets_nothing_through(tmp_path: Path, name: str) -> None:
    refresh("aws", news(part([*list_prices(tmp_path, drop=["p5.48xlarge"]), absurd()])), tmp_path)
    assert accept("aws", [name], tmp_path) == ()
    assert held_names(tmp_path) == ["aws/us-east-1/p5.48xlarge/on_demand"]


def test_a_held_price_is_forgotten_when_its_region_is_read_again(tmp_path: Path) -> None:
    refresh("aws", news(part([*list_prices(tmp_path, drop=["p5.48xlarge"]), absurd()])), tmp_path)
    refresh("aws", news(part([], market=SPOT)), tmp_path)
    assert held_names(tmp_path) != [], "spot was read, the held price is on demand"
    refresh("aws", news(part(list_prices(tmp_path))), tmp_path)
    assert held_names(tmp_path) == []


def test_a_list_of_the_hour_that_stays_the_same_for_two_days_is_not_used(tmp_path: Path) -> None:
    """The list behind the page of spot prices has no date; its forerunner stood still for two years, unseen."""

    def read(usd: str, digest: str, day: int) -> Outcome:
        one = PriceFound(REGION, "g5.xlarge", SPOT, Decimal(usd), SPOT_ID, as_of=date(2026, 11, day))
        spot = replace(part([one], SPOT), name="spot by region", keeps_missing=True, digest=digest)
        return refresh("aws", news(spot, part(list_prices(tmp_path)), on=date(2026, 11, day)), tmp_path, accept=True)

    assert [read("0.5", digest, day).failed for digest, day in (("a", 20), ("a", 21), ("b", 22), ("b", 23))] == [()] * 4
    outcome = read("0.5", "b", 24)
    assert outcome.failed == (
        ("spot by region", "the list has been the same since 2026-11-22: it is no list of today"),
    )
    assert {offer.price_as_of for offer in offers(tmp_path, "g5.xlarge", SPOT)} == {date(2026, 11, 23)}
    assert read("0.6", "c", 25).failed == ()
