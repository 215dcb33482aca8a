"""The steps of a drill that try the vendor's alarm and its bill, and the comparison with the bill, days later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.desk import signed_out
from tests.drill.worlds import Table, a_cloud
from tests.json_output import complaint
from tests.unit.planner.cli.command import plan
from trainplan.extensions.drill import vendor_money
from trainplan.extensions.drill.drill import clean
from trainplan.extensions.drill.result import DrillResult, StepResult, Verdict
from trainplan.extensions.drill.steps import VENDOR_MONEY, Step
from trainplan.planner.errors import ExitCode
from trainplan.planner.runs.journal.journal import Journal
from trainplan.providers import registry
from trainplan.providers.abilities import SetupStep
from trainplan.providers.base import Provider, ProviderSettings
from trainplan.providers.cloud.alarm import Alarm
from trainplan.providers.cloud.invoice import Invoice
from trainplan.providers.errors import BadRequestError, PermissionDeniedError, ProviderError, TransientError

ME = "me@example.com"
OTHERS = Alarm(amount=Decimal(20), emails=("other@example.com",))


class Vendor:
    """The account of somebody at a cloud that has alarms. `errors` are raised by calls, `deaf` ones have no effect."""

    def __init__(self, standing: Alarm | None = None, errors: Mapping[str, ProviderError] | None = None) -> None:
        self.standing = standing
        self.errors = errors or {}
        self.deaf: set[str] = set()
        self.calls: list[str] = []

    def reach(self, name: str) -> None:
        self.calls.append(name)
        if name in self.errors:
            raise self.errors[name]

    def provider(self, table: Table) -> Provider:
        """The simulated cloud with this account's alarms."""
        made, vendor = table.provider(), self
        kind: Any = type(made)

        def alarm(_: Any) -> Alarm | None:
            vendor.reach("look")
            return vendor.standing

        def alarm_steps(_: Any, wanted: Alarm | None) -> list[SetupStep]:
            if wanted is None and vendor.standing is None:
                return []
            name = "remove" if wanted is None else f"make {wanted.amount} {wanted.emails[0]}"
            return [SetupStep(name=name, detail="", calls=())]

        def carry_out(_: Any, step: SetupStep, report: object) -> None:
            what, *rest = step.name.split()
            vendor.reach(what)
            if what not in vendor.deaf:
                vendor.standing = Alarm(amount=Decimal(rest[0]), emails=(rest[1],)) if rest else None

        def invoice(self: Any, begin: date, end: date) -> Invoice:
            vendor.reach("bill")
            told: Invoice = kind.invoice(self, begin, end)
            return told

        methods = {
            "alarm": alarm, "alarm_steps": alarm_steps, "carry_out": carry_out, "invoice": invoice,
            "lacking": lambda _: [], "removable": lambda _: [],
        }  # fmt: skip
        paying: Any = object.__new__(type("Paying", (kind,), methods))
        paying.__dict__.update(made.__dict__)
        return paying


def tried(home: Path, vendor: Vendor, email: str = ME) -> dict[Step, StepResult]:
    """The two steps alone: the rest of a drill is other tests'."""
    table = Table(home, a_cloud("sim"))
    with Journal.open(table.settings.journal) as journal:
        tools = replace(table.tools(journal, vendor.provider(table)), email=email)
        vendor_money.try_vendor_money(tools)
        return {row.step: row for row in tools.sheet.results if row.step in VENDOR_MONEY}


def test_an_alarm_is_made_seen_and_removed_and_the_bill_is_read(tmp_path: Path) -> None:
    vendor = Vendor()
    rows = tried(tmp_path, vendor)
    assert [row.verdict for row in rows.values()] == [Verdict.PROVEN, Verdict.PROVEN]
    assert vendor.calls == ["look", "make", "look", "remove", "look", "bill"]
    assert vendor.standing is None
    assert list((tmp_path / "drills").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "verdict", "words"),
    [
        ("azure", Verdict.PROVEN, "an alarm at 1,000,000 was made, seen and removed"),
        # Whoever launches has no right to it.
        ("aws", Verdict.NOT_TRIED, "not authorized to perform: budgets:ModifyBudget"),
    ],
)
def test_a_vendors_own_alarm(name: str, verdict: Verdict, words: str, tmp_path: Path) -> None:
    table = Table(tmp_path, a_cloud(name))
    with Journal.open(table.settings.journal) as journal:
        tools = replace(table.tools(journal), email=ME)
        vendor_money.try_vendor_money(tools)
        row = next(row for row in tools.sheet.results if row.step is Step.ALARM)
        table.cloud.let_go()
    assert (row.verdict, words in row.detail) == (verdict, True), row.detail


def test_nothing_is_asked_for_that_was_not_agreed_to(tmp_path: Path) -> None:
    vendor = Vendor()
    rows = tried(tmp_path, vendor, email="")
    assert {row.detail for row in rows.values()} == {"--email ADDRESS tries it"}
    assert vendor.calls == []


def test_an_alarm_that_stands_is_left_alone(tmp_path: Path) -> None:
    vendor = Vendor(OTHERS)
    row = tried(tmp_path, vendor)[Step.ALARM]
    assert (row.verdict, row.detail) == (Verdict.NOT_TRIED, "an alarm stands already, and is left alone")
    assert vendor.standing is OTHERS


@pytest.mark.parametrize(
    "error", [PermissionDeniedError("not yours", code="AccessDenied"), BadRequestError("no table")]
)
@pytest.mark.parametrize("call", ["look", "make"])
def test_what_the_sign_in_may_not_do_is_not_tried(tmp_path: Path, error: ProviderError, call: str) -> None:
    vendor = Vendor(errors={call: error, "bill": error})
    rows = tried(tmp_path, vendor)
    assert {row.verdict for row in rows.values()} == {Verdict.NOT_TRIED}
    assert all(error.message in row.detail for row in rows.values())
    assert vendor.standing is None


@pytest.mark.parametrize("deaf", ["make", "remove"])
def test_what_has_no_effect_fails_the_step(tmp_path: Path, deaf: str) -> None:
    vendor = Vendor()
    vendor.deaf = {deaf}
    row = tried(tmp_path, vendor)[Step.ALARM]
    assert row.verdict is Verdict.FAILED
    assert ("is not shown" if deaf == "make" else "is still shown") in row.detail


def test_a_bill_that_does_not_come_fails_its_step_alone(tmp_path: Path) -> None:
    rows = tried(tmp_path, Vendor(errors={"bill": TransientError("no answer")}))
    assert [row.verdict for row in rows.values()] == [Verdict.PROVEN, Verdict.FAILED]


@pytest.mark.parametrize("at", ["make", "look again", "remove"])
def test_a_drill_that_is_killed_leaves_an_alarm_that_clean_removes(tmp_path: Path, at: str) -> None:
    class Killed(BaseException):
        pass

    vendor = Vendor()
    seen = iter(["look", "make", "look", "remove"])
    wanted = {"make": 2, "look again": 3, "remove": 4}[at]

    def reach(name: str) -> None:
        vendor.calls.append(name)
        if len(vendor.calls) >= wanted:  # dead from then on: nothing of this process has an effect
            raise Killed
        assert name == next(seen)

    vendor.reach = reach  # type: ignore[method-assign]
    with pytest.raises(Killed):
        tried(tmp_path, vendor)
    assert (vendor.standing is not None) == (at != "make")
    survivor = Vendor(vendor.standing)
    table = Table(tmp_path, a_cloud("sim"))
    with Journal.open(table.settings.journal) as journal:
        tools = table.tools(journal, survivor.provider(table))
        clean(tools)
        assert survivor.standing is None
        asked = len(survivor.calls)
        clean(tools)
        assert len(survivor.calls) == asked, "it is looked for once"


def test_clean_leaves_an_alarm_alone_that_a_person_has_made_since(tmp_path: Path) -> None:
    (tmp_path / "drills").mkdir()
    (tmp_path / "drills" / "alarm-sim").write_text("", encoding="utf-8")
    vendor = Vendor(OTHERS)
    table = Table(tmp_path, a_cloud("sim"))
    with Journal.open(table.settings.journal) as journal:
        clean(table.tools(journal, vendor.provider(table)))
    assert vendor.standing is OTHERS


# --- as it is typed ------------------------------------------------------------------------------------------------

TABLES: list[tuple[Table, Vendor]] = []


def paying(settings: ProviderSettings) -> Provider:
    """What the registry calls."""
    table, vendor = TABLES[-1]
    return vendor.provider(table)


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    signed_out(monkeypatch)
    given = {"HOME": str(tmp_path), "PLAN_HOME": str(tmp_path / "plan"), "TZ": "UTC", "NO_COLOR": "1"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    table = Table(tmp_path / "plan", a_cloud("sim"))
    monkeypatch.setattr(f"{__name__}.TABLES", [(table, Vendor())])
    monkeypatch.setitem(registry.FACTORIES, "sim", f"{__name__}:paying")
    return table


def test_a_drill_and_its_bill_days_later(table: Table, tmp_path: Path) -> None:
    assert plan("drill", "sim", "--bill").err.startswith("error: no drill of this home has run at sim")
    drilled = plan("drill", "sim", "--yes", "--email", ME, "--json")
    assert drilled.code == 0, drilled.err
    result = DrillResult.model_validate_json(drilled.out)
    assert {row.step for row in result.proven} >= set(VENDOR_MONEY)
    assert ME not in drilled.out
    table.cloud.pass_time(table.cloud.now() + timedelta(days=2))
    compared = plan("drill", "sim", "--bill", "--json")
    assert compared.code == 0, compared.err
    assert complaint(["bill", "--json"], compared.out) == ""
    told = json.loads(compared.out)
    assert len(told["runs"]) == 2
    for run in told["runs"]:
        assert sum(run["billed"].values()) == pytest.approx(sum(run["receipt_usd"].values()), rel=0.03)
    said = plan("drill", "sim", "--bill")
    assert said.code == 0, said.err
    assert said.out.count("trainplan-drill") == 2
    assert "$" in plan("history").out.splitlines()[1].split()[-1]


def test_a_bill_that_differs_from_the_receipts_is_told_by_part(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan("drill", "sim", "--yes").code == 0
    dearer = Vendor.provider

    def provider(self: Vendor, table: Table) -> Provider:
        made: Any = dearer(self, table)
        told = made.invoice

        def invoice(begin: date, end: date) -> Invoice:
            bill = told(begin, end)
            return replace(bill, lines=tuple(replace(line, amount=line.amount * 2) for line in bill.lines))

        made.__dict__["invoice"] = invoice
        return made

    monkeypatch.setattr(Vendor, "provider", provider)
    said = plan("drill", "sim", "--bill")
    assert said.code == ExitCode.TRAINING_FAILED
    assert "compute" in said.out


def test_an_address_that_is_none_is_told_before_anything_is_made(table: Table) -> None:
    said = plan("drill", "sim", "--yes", "--email", "nobody")
    assert said.code != 0
    assert "no mail address" in said.err
    assert table.rows() == []
