"""A person's credit, from the settings to the ranking and the lines below it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.unit.planner.cli.command import plan
from trainplan.planner.clock import SystemClock

JOB = ("--model", "vgg16", "--dataset", "cifar10", "--device", "T4", "--market", "on_demand", "--region", "us-east-1")
BOTH = (*JOB, "--region", "us-central1", "--include-retired")
"""Google ends its T4 on a day that comes."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    return tmp_path


def candidates(*options: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = plan("estimate", *BOTH, "--json", *options).json["candidates"]
    return rows


def write_credit(home: Path, provider: str, usd: str) -> None:
    lines = [f'provider = "{provider}"', f"usd_left = {usd}", f"as_of = {SystemClock().now().date()}"]
    (home / "settings.toml").write_text("[[prices.credit]]\n" + "\n".join(lines), encoding="utf-8")


def not_first(rows: list[dict[str, Any]]) -> str:
    """A provider that has rows and not the first one."""
    return next(row["provider"] for row in rows if row["provider"] != rows[0]["provider"])


def test_without_a_credit_the_person_pays_the_whole_cost(home: Path) -> None:
    assert home.is_dir()
    assert {row["credit_usd"] for row in candidates()} == {0}
    assert all(row["paid_usd"] == row["cost_usd"] for row in candidates())
    assert "you pay" not in plan("estimate", *BOTH).out


def test_what_a_credit_covers_goes_first_and_costs_nothing(home: Path) -> None:
    provider = not_first(candidates())
    write_credit(home, provider, "300")
    rows = candidates()
    assert [row["provider"] == provider for row in rows] == sorted([row["provider"] == provider for row in rows])[::-1]
    assert rows[0]["provider"] == provider
    covered = [row for row in rows if row["provider"] == provider]
    assert {row["paid_usd"] for row in covered} == {0}
    assert [row["cost_usd"] for row in covered] == sorted(row["cost_usd"] for row in covered), (
        "the credit lasts longest"
    )
    table = plan("estimate", *BOTH).out
    header, first = [line for line in table.splitlines() if line.startswith(("#", "1 "))]
    assert header.endswith("you pay")
    assert first.endswith("$0.00")
    assert f"credit left: $300.00 at {provider}; what it covers up to the high end" in table


def test_a_credit_that_covers_a_part_lowers_what_is_paid_and_not_the_rank(home: Path) -> None:
    before = candidates()
    provider = not_first(before)
    write_credit(home, provider, "0.01")
    rows = candidates()
    assert [row["instance_type"] for row in rows] == [row["instance_type"] for row in before]
    assert [row["cost_usd"] for row in rows] == [row["cost_usd"] for row in before]
    for row in rows:
        credit = Decimal("0.01") if row["provider"] == provider else Decimal(0)
        assert row["credit_usd"] == pytest.approx(float(credit))
        assert row["paid_usd"] == pytest.approx(row["cost_usd"] - float(credit))


def test_explain_says_what_the_credit_pays(home: Path) -> None:
    write_credit(home, not_first(candidates()), "300")
    text = plan("estimate", *BOTH, "--explain", "1").out
    assert "; you pay $0.00: the credit covers it up to the high end of its time" in text


@pytest.mark.parametrize("table", ["override", "credit"])
def test_a_provider_that_nobody_knows_is_an_error(home: Path, table: str) -> None:
    rest = "usd_per_hour = 1" if table == "override" else "usd_left = 1\nas_of = 2026-11-21"
    (home / "settings.toml").write_text(f'[[prices.{table}]]\nprovider = "asw"\n{rest}\n', encoding="utf-8")
    said = plan("estimate", *BOTH)
    assert (said.code, said.error) == (2, "there is no provider (prices in settings.toml) 'asw'")
    assert said.hint == "did you mean aws?"


def test_what_is_left_is_shown_with_the_prices(home: Path) -> None:
    write_credit(home, "gcp", "300")
    assert "credit at gcp: $300.00 left" in plan("prices", "show").out
    (credit,) = plan("prices", "show", "--json").json["credits"]
    assert credit["usd_left"] == 300
    assert credit["as_of"] == str(SystemClock().now().date())


def test_a_credit_that_cannot_be_names_the_file_and_the_entry(home: Path) -> None:
    (home / "settings.toml").write_text("[[prices.credit]]\nprovider = 'aws'\n", encoding="utf-8")
    said = plan("estimate", *BOTH)
    assert (said.code, "settings.toml: prices.credit 1: needs usd_left" in said.error) == (2, True)
