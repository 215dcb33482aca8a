"""`plan bill`: what was billed beside the receipt, kept in the history; and what a person types wrongly."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest

from tests.doubles.fake_machine import done_at_once
from tests.doubles.fake_provider import FakeProvider
from tests.unit.planner.cli.command import plan
from tests.unit.planner.cli.test_launch import launch, provider
from trainplan.providers.cloud.invoice import Invoice, InvoiceLine, Part

__all__ = ["provider"]


@pytest.fixture
def run_id(provider: FakeProvider) -> str:
    """A run that was trained to its end."""
    provider.scripts = [done_at_once]
    launch()
    (row,) = plan("history", "--json").json
    return str(row["run_id"])


def bills(
    provider: FakeProvider, *lines: tuple[str, Part, str], costs: str = "", whole: bool = False
) -> list[tuple[date, date]]:
    """From now on the provider tells this bill; returns the days that it is asked for."""
    asked: list[tuple[date, date]] = []

    def invoice(begin: date, end: date) -> Invoice:
        asked.append((begin, end))
        told = tuple(InvoiceLine(run_id=run, part=part, amount=Decimal(usd)) for run, part, usd in lines)
        return Invoice(begin=begin, end=end, currency="USD", lines=told, whole_until=end if whole else begin)

    provider.invoice = invoice  # type: ignore[attr-defined]
    provider.asking_costs = lambda: costs  # type: ignore[attr-defined]
    return asked


def test_a_run_is_shown_beside_its_receipt_and_kept(provider: FakeProvider, run_id: str) -> None:
    bills(provider, (run_id, Part.COMPUTE, "0.25"), (run_id, Part.TAX, "0.05"), ("", Part.STORAGE, "9"))
    said = plan("bill", run_id)
    assert said.code == 0, said.err
    assert "compute" in said.out
    assert "tax" in said.out
    assert "not yet complete" in said.out
    told = plan("bill", run_id, "--json").json
    assert told["runs"][0]["billed"] == {"compute": 0.25, "tax": 0.05}
    assert told["without_label"] == {"storage": 9.0}
    lines = plan("history", "--wide").out.splitlines()
    assert lines[1].split()[-1] == "$0.30+"
    bills(provider, (run_id, Part.COMPUTE, "0.35"), (run_id, Part.CREDIT, "-0.35"), whole=True)
    plan("bill", run_id)
    assert plan("history", "--wide").out.splitlines()[1].split()[-1] == "$0.35"
    assert plan("bill", run_id, "--json").json["runs"][0]["billed"] == {"compute": 0.35, "credit": -0.35}


def test_a_month_lists_runs_and_what_has_no_label(provider: FakeProvider, run_id: str) -> None:
    asked = bills(provider, (run_id, Part.COMPUTE, "0.25"), ("of-anna", Part.DISK, "0.5"), ("", Part.STORAGE, "9"))
    said = plan("bill", "--provider", "local")
    assert said.code == 0, said.err
    assert "of another computer" in said.out
    assert "without the label of a run: $9.00 (storage $9.00)" in said.out
    (begin, end) = asked[0]
    assert (begin.day, begin < end) == (1, True)


def test_a_month_is_listed_for_whoever_pays(provider: FakeProvider, run_id: str) -> None:
    bills(provider, (run_id, Part.COMPUTE, "0.25"), (run_id, Part.DISK, "0.1"), ("", Part.STORAGE, "9"))
    said = plan("bill", "--provider", "local", "--csv")
    assert said.code == 0, said.err
    header, *rows = [line.split(",") for line in said.out.splitlines()]
    named = [dict(zip(header, row, strict=True)) for row in rows]
    assert [(row["run_id"], row["part"], row["billed"]) for row in named] == [
        (run_id, "compute", "0.25"), (run_id, "disk", "0.1"), ("", "storage", "9"),
    ]  # fmt: skip
    assert {row["currency"] for row in named} == {"USD"}
    assert plan("bill", run_id, "--csv").code == plan("bill", "--csv", "--json").code != 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--month", "2026-13"), "no month"),
        (("--month", "November"), "no month"),
        (("--month", "2999-01"), "has not begun"),
        (("--provider", "ibmm"), "no provider"),
    ],
)
def test_what_is_typed_wrongly_is_told(provider: FakeProvider, words: tuple[str, ...], message: str) -> None:
    bills(provider)
    said = plan("bill", *words)
    assert (said.code, message in said.error) == (2, True), said.err
    assert said.hint


def test_a_run_and_a_month_are_two_questions(provider: FakeProvider, run_id: str) -> None:
    bills(provider)
    said = plan("bill", run_id, "--month", "2026-11")
    assert (said.code, "own days" in said.error) == (2, True)


def test_where_nobody_sends_a_bill_it_is_told(run_id: str) -> None:
    said = plan("bill", run_id)
    assert (said.code, "nobody sends a bill" in said.error) == (2, True)


def test_what_the_question_costs_is_said_before_it_is_asked(provider: FakeProvider, run_id: str) -> None:
    asked = bills(provider, costs="one cent for each page")
    said = plan("bill", run_id)
    assert (said.code, asked) == (2, [])
    assert "--yes" in said.err
    assert plan("bill", run_id, "--yes").code == 0
    assert len(asked) == 1
