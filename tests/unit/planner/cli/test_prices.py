"""One's own rates and observed spot prices, from the settings and the refreshed catalog to what is printed."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.unit.planner.cli.command import plan
from trainplan.planner.cli.refreshing import refreshed_beside
from trainplan.planner.clock import SystemClock
from trainplan.planner.errors import ExitCode
from trainplan.pricing.grades import Market
from trainplan.pricing.merge import News
from trainplan.pricing.refresh import refresh
from trainplan.pricing.sources.aws import Advice
from trainplan.pricing.sources.aws_account import HISTORY_ID
from trainplan.pricing.sources.reading import Offered, Parsed, PriceFound, PricePart
from trainplan.pricing.tables import SpotHistory

JOB = ("--model", "vgg16", "--dataset", "cifar10", "--provider", "aws", "--device", "T4", "--region", "us-east-1")
OVERRIDE = '[[prices.override]]\nprovider = "aws"\nfamily = "g4dn"\ndiscount_percent = 60\nnote = "our contract"\n'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    return tmp_path


def test_ones_own_rates_are_planned_with_and_marked(home: Path) -> None:
    on_demand = [row for row in plan("estimate", *JOB, "--json").json["candidates"] if row["market"] == "on_demand"]
    before = on_demand[0]
    (home / "settings.toml").write_text(OVERRIDE, encoding="utf-8")
    rows = plan("estimate", *JOB, "--json").json["candidates"]
    assert (before["usd_per_hour"], before["planning_usd_per_hour"], before["own_rate"]) == (0.526, 0.526, None)
    own = [row for row in rows if row["market"] == "on_demand"]
    assert {row["own_rate"] for row in own} == {"aws g4dn, on demand: 60 % off (our contract)"}
    assert (own[0]["usd_per_hour"], own[0]["planning_usd_per_hour"]) == (0.526, 0.2104)
    assert own[0]["cost_usd"] < before["cost_usd"] * 0.6
    assert {row["own_rate"] for row in rows if row["market"] == "spot"} == {None}
    table = plan("estimate", *JOB).out
    assert re.search(r"0\.210  own rate$", table, re.MULTILINE), "the day of the list is none of the own rate"
    assert "own rate: your own, of prices.override in settings.toml" in table
    assert "your own rate: aws g4dn, on demand: 60 % off (our contract)" in plan("estimate", *JOB, "--explain", "1").out
    shown = plan("prices", "show", "--json").json
    assert shown["own_rates"] == ["aws g4dn, on demand: 60 % off (our contract)"]
    assert "aws g4dn, on demand: 60 % off" in plan("prices", "show").out


def test_a_rate_that_has_ended_is_not_planned_with_and_a_line_says_so(home: Path) -> None:
    before = plan("estimate", *JOB, "--json").json["candidates"]
    (home / "settings.toml").write_text(OVERRIDE + "until = 2026-11-01\n", encoding="utf-8")
    line = "own rate no longer used: aws g4dn, on demand: 60 % off, until 2026-11-01 (our contract): it ended on"
    assert line in plan("estimate", *JOB).out
    now = plan("estimate", *JOB, "--json").json
    assert now["candidates"] == before
    assert now["own_prices"][0].startswith(line)
    assert line in plan("prices", "show").out


def test_a_rate_with_fewer_hours_than_the_run_takes_costs_more_for_the_rest(home: Path) -> None:
    limits = f"hours_left = 0.1\nas_of = {SystemClock().now().date()}\n"
    (home / "settings.toml").write_text(OVERRIDE, encoding="utf-8")
    whole = next(row for row in plan("estimate", *JOB, "--json").json["candidates"] if row["own_rate"])
    (home / "settings.toml").write_text(OVERRIDE + limits, encoding="utf-8")
    mixed = next(row for row in plan("estimate", *JOB, "--json").json["candidates"] if row["own_rate"])
    assert whole["planning_usd_per_hour"] < mixed["planning_usd_per_hour"] < mixed["usd_per_hour"]
    assert whole["cost_usd"] < mixed["cost_usd"]
    table = plan("estimate", *JOB, "--market", "on_demand").out
    assert "0.1 h are left of the own rate; the rest of the run is planned at the price without it" in table
    explained = plan("estimate", *JOB, "--market", "on_demand", "--explain", "1").out
    assert "is the mean of $0.210/h and of the price without it" in explained
    (row,) = [line for line in table.splitlines() if line.startswith("1 ")]
    assert f"  {mixed['planning_usd_per_hour']:.3f}  own rate" in row


def test_a_rate_of_another_account_is_not_planned_with(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "settings.toml").write_text(OVERRIDE + "account = 'research'\n", encoding="utf-8")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_PROFILE", raising=False)
    assert {row["own_rate"] for row in plan("estimate", *JOB, "--json").json["candidates"]} == {None}
    assert "it is for account research, and default is in use" in plan("prices", "show").out
    monkeypatch.setenv("AWS_PROFILE", "research")
    assert len({row["own_rate"] for row in plan("estimate", *JOB, "--json").json["candidates"]}) == 2


def test_a_rate_that_cannot_be_names_the_file_and_the_entry(home: Path) -> None:
    (home / "settings.toml").write_text("[[prices.override]]\nprovider = 'aws'\n", encoding="utf-8")
    said = plan("estimate", *JOB)
    assert (said.code, "settings.toml: prices.override 1" in said.error) == (2, True)


def test_observed_spot_is_told_apart_and_costs_what_the_week_cost(home: Path) -> None:
    now = SystemClock().now()
    week = SpotHistory(Decimal("0.25"), Decimal("0.15"), Decimal("0.4"))
    zone = PriceFound(
        "us-east-1", "g4dn.xlarge", Market.SPOT, Decimal("0.2"), HISTORY_ID, ("us-east-1b",), week,
        as_of=now.date(),
    )  # fmt: skip
    part = PricePart(
        name="spot", markets=frozenset({Market.SPOT}), regions=frozenset({"us-east-1"}), parsed=Parsed(prices=[zone])
    )
    placements: dict[tuple[str, str], tuple[str, ...]] = {
        ("us-east-1", name): ("us-east-1b",) for name in ("g4dn.xlarge", "g4dn.2xlarge")
    }
    news = News(
        parts=[part],
        advice=Advice({("us-east-1", "g4dn.xlarge"): (0, 60)}, 0, now.date()),
        offered=Offered(frozenset({"us-east-1"}), placements, now.date()),
        on=now.date(),
    )
    refresh("aws", news, home, accept=True)
    found = plan("estimate", *JOB, "--market", "spot", "--json").json
    (row,) = [row for row in found["candidates"] if row["instance_type"] == "g4dn.xlarge"]
    assert (row["price_grade"], row["usd_per_hour"], row["planning_usd_per_hour"]) == ("observed", 0.2, 0.25)
    assert (row["zone"], row["price_as_of"], row["price_old"]) == ("us-east-1b", now.date().isoformat(), False)
    assert row["availability"] == "offerings"
    refused = {(rejection["instance_type"], rejection["reason"]) for rejection in found["rejections"]}
    assert ("g4dn.12xlarge", "not_offered") in refused
    assert ("g4dn.2xlarge", "not_offered") not in refused
    table = plan("estimate", *JOB, "--market", "spot").out
    assert f"0.250  observed {now.date()}" in table
    assert "the mean of the week before" in table
    assert f"availability: aws by its offerings of {now.date()}" in table
    told = plan("estimate", *JOB, "--market", "spot", "--explain", "1").out
    assert "in the week before it was $0.150/h to $0.400/h, mean over time $0.250/h" in told
    assert "bucket 0 of 0-4 in us-east-1: AWS Spot Advisor, as last read" in told
    assert f"among what the vendor offers there, asked on {now.date()}" in told


def test_a_month_later_the_prices_are_marked(home: Path) -> None:
    now = SystemClock().now().date()
    price = PriceFound("us-east-1", "g4dn.xlarge", Market.ON_DEMAND, Decimal("0.5"), "aws-on-demand-page")
    for days, old in ((32, True), (31, False)):
        one = price._replace(as_of=now - timedelta(days=days))
        part = PricePart(
            name="us-east-1",
            markets=frozenset({Market.ON_DEMAND}),
            regions=frozenset({"us-east-1"}),
            parsed=Parsed(prices=[one]),
        )
        refresh("aws", News(parts=[part], on=now - timedelta(days=days)), home, accept=True)
        rows = plan("estimate", *JOB, "--market", "on_demand", "--json").json["candidates"]
        assert [row["price_old"] for row in rows if row["instance_type"] == "g4dn.xlarge"] == [old]


@pytest.mark.parametrize("command", [("refresh", "aws"), ("accept", "aws/us-east-1"), ("forget",)])
def test_a_home_that_cannot_be_written_gets_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    home = tmp_path / "file" / "home"
    monkeypatch.setenv("PLAN_HOME", str(home))
    result = plan("prices", *command)
    assert result.code == ExitCode.THIS_MACHINE
    assert f"prices cannot be kept in {home}: Not a directory" in result.error
    assert not refreshed_beside(home), "an estimate goes on with the known prices"


@pytest.mark.parametrize(("region", "near"), [("westeuropa", "westeurope"), ("eastuss", "eastus")])
def test_a_region_that_is_none_is_refused_before_anything_is_read(home: Path, region: str, near: str) -> None:
    result = plan("prices", "refresh", "azure", "--region", region)
    assert (result.code, result.hint) == (ExitCode.BAD_INPUT, f"did you mean {near}?")
    assert f"there is no {region!r}" in result.error
