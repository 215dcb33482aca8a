"""The month's budget: what counts, what is refused, and that two launches at once cannot both take the last of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.builders import a_run, a_target, an_attempt
from tests.doubles.clock import NOON, FakeClock
from tests.unit.planner.cli.command import plan
from trainplan.planner.api.job_files import read_job_file
from trainplan.planner.errors import BadInputError, RefusedError
from trainplan.planner.runs.journal.journal import Journal
from trainplan.planner.runs.journal.locks import RunLocks
from trainplan.planner.runs.money.spending import MonthlyBudget, Spending, month_began, most_usd
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.settings import load_settings
from trainplan.pricing.offers import Market
from trainplan.providers.base import RunId

T4 = a_target("1", provider="aws")
DEARER = a_target("3", provider="aws", fixed_usd=Decimal("0.5"))


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal.open(tmp_path / "journal.sqlite") as journal:
        yield journal


def spending(journal: Journal, tmp_path: Path, limit_usd: str | None = "20") -> Spending:
    limit = None if limit_usd is None else Decimal(limit_usd)
    of_projects = {"thesis": Decimal(10), "course": Decimal(100)}
    return Spending(journal, limit, FakeClock(), RunLocks(tmp_path / "locks"), of_projects)


def a_cloud_run(number: int, hours: float = 2, **changes: object) -> Run:
    base = a_run(
        run_id=RunId(f"261122-{number:08x}"),
        provider="aws",
        deadline=NOON + timedelta(hours=hours),
        targets=(T4, DEARER),
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # fields of a run


def record_finished_run(
    journal: Journal, number: int, usd: float, ended_at: datetime = NOON, provider: str = "aws", project: str = ""
) -> None:
    run = a_cloud_run(number, provider=provider)
    journal.add_run(run, "{}", {}, NOON)
    journal.save(replace(run, phase=Phase.DONE, outcome=Outcome.SUCCEEDED), NOON)
    journal.save_receipt(run.run_id, {"attempts": 0, "actual_usd": usd, "project": project}, ended_at)


# --- what a run may come to --------------------------------------------------------------------------------------


def test_a_run_may_come_to_every_hour_until_its_deadline_at_its_dearest_placement() -> None:
    assert most_usd(a_cloud_run(1), NOON) == Decimal("6.5")


def test_a_budget_bounds_it() -> None:
    assert most_usd(a_cloud_run(1, budget_usd=Decimal(4)), NOON) == Decimal("4.5")


def test_spot_counts_at_the_price_of_on_demand() -> None:
    spot = a_target("1", provider="aws", market=Market.SPOT, on_demand_usd_per_hour=Decimal(4))
    assert most_usd(a_cloud_run(1, targets=(spot,)), NOON) == 8


def test_what_it_has_cost_counts_beside_what_is_to_come() -> None:
    attempt = an_attempt(1, T4)
    run = a_cloud_run(1, attempts=(attempt,), targets=(T4,))
    assert most_usd(run, NOON + timedelta(hours=1)) == 2


def test_a_run_past_its_deadline_costs_no_more() -> None:
    assert most_usd(a_cloud_run(1, targets=(T4,)), NOON + timedelta(days=3)) == 0


def test_a_month_begins_on_its_first_day() -> None:
    assert month_began(datetime(2026, 11, 22, 13, 5, tzinfo=UTC)) == datetime(2026, 11, 1, tzinfo=UTC)


# --- what stands in the journal -----------------------------------------------------------------------------------


def test_receipts_of_this_month_and_live_runs_on_clouds_count(journal: Journal, tmp_path: Path) -> None:
    record_finished_run(journal, 1, 3.0)
    record_finished_run(journal, 2, 100.0, NOON - timedelta(days=40))
    record_finished_run(journal, 3, 100.0, provider="sim")
    record_finished_run(journal, 4, 100.0, provider="local")
    journal.add_run(a_cloud_run(5), "{}", {}, NOON)
    journal.add_run(a_cloud_run(6, provider="sim"), "{}", {}, NOON)
    budget, *_ = spending(journal, tmp_path).budgets()
    assert budget == MonthlyBudget(limit_usd=Decimal(20), spent_usd=Decimal("3.0"), may_spend_usd=Decimal("6.5"))
    assert budget.text == "this month: $3.00 spent, live runs may come to $6.50, of $20.00 (budget_usd_per_month)"


def test_a_launch_that_could_pass_the_limit_is_refused_with_the_figures(journal: Journal, tmp_path: Path) -> None:
    record_finished_run(journal, 1, 14.0)
    with pytest.raises(RefusedError) as refused, spending(journal, tmp_path).launching(a_cloud_run(2)):
        pytest.fail("the launch was written down")
    assert refused.value.message == (
        "this launch may cost up to $6.50, and with that the month up to $20.50; this month: $14.00 spent, live runs "
        "may come to $0.00, of $20.00 (budget_usd_per_month)"
    )
    assert "--budget" in refused.value.hint


def test_a_launch_with_room_is_written_down_and_counts_for_the_next(journal: Journal, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        with spending(journal, tmp_path).launching(a_cloud_run(number)):
            journal.add_run(a_cloud_run(number), "{}", {}, NOON)
    with pytest.raises(RefusedError), spending(journal, tmp_path).launching(a_cloud_run(4)):
        pytest.fail("the launch was written down")


def test_a_run_that_goes_on_counts_what_it_has_cost_once(journal: Journal, tmp_path: Path) -> None:
    record_finished_run(journal, 1, 14.0)
    again = a_cloud_run(1, hours=3, attempts=(an_attempt(1, a_target("14", provider="aws")),), targets=(T4,))
    ended = replace(again.attempts[0], ended_at=NOON + timedelta(hours=1))
    again = replace(again, attempts=(ended,), budget_usd=Decimal(20))
    with spending(journal, tmp_path).launching(again):
        pass


@pytest.mark.parametrize("provider", ["local", "sim"])
def test_what_sends_no_bill_is_not_held_to_it(journal: Journal, tmp_path: Path, provider: str) -> None:
    with spending(journal, tmp_path, "0").launching(a_cloud_run(1, provider=provider)):
        pass


def test_without_a_limit_nothing_is_held_to_it(journal: Journal, tmp_path: Path) -> None:
    assert [one.project for one in spending(journal, tmp_path, None).budgets()] == ["thesis", "course"]
    assert spending(journal, tmp_path, None).budgets("") == []
    with spending(journal, tmp_path, None).launching(a_cloud_run(1, hours=10_000)):
        pass


def test_a_project_is_held_to_its_own_limit_and_to_that_of_all(journal: Journal, tmp_path: Path) -> None:
    record_finished_run(journal, 1, 3.0, project="thesis")
    record_finished_run(journal, 2, 9.0, project="course")
    journal.add_run(a_cloud_run(3, project="thesis", budget_usd=Decimal(1)), "{}", {}, NOON)
    with (
        pytest.raises(RefusedError) as refused,
        spending(journal, tmp_path).launching(a_cloud_run(4, project="thesis")),
    ):
        pytest.fail("the launch was written down")
    assert "this month, project thesis: $3.00 spent, live runs may come to $1.50, of $10.00" in refused.value.message
    assert "project_budgets_usd_per_month" in refused.value.hint
    for project in ("course", "another", ""):
        with spending(journal, tmp_path).launching(a_cloud_run(5, project=project)):
            pass
    limited = spending(journal, tmp_path, "10")
    with pytest.raises(RefusedError) as refused, limited.launching(a_cloud_run(5, project="course")):
        pytest.fail("the launch was written down")
    assert "of $10.00 (budget_usd_per_month)" in refused.value.message


# --- settings -----------------------------------------------------------------------------------------------------


def limit(tmp_path: Path, own: str = "", machine: str = "", **environment: str) -> Decimal | None:
    home, etc = tmp_path / "home", tmp_path / "etc.toml"
    home.mkdir()
    (home / "settings.toml").write_text(own, encoding="utf-8")
    etc.write_text(machine, encoding="utf-8")
    return load_settings({"PLAN_HOME": str(home), **environment}, etc).budget_usd_per_month


def test_a_limit_for_everybody_on_the_computer_is_not_raised_by_a_home(tmp_path: Path) -> None:
    assert limit(tmp_path, "budget_usd_per_month = 500", "budget_usd_per_month = 200") == 200


def test_a_home_may_lower_it(tmp_path: Path) -> None:
    assert limit(tmp_path, "budget_usd_per_month = 50.5", "budget_usd_per_month = 200") == Decimal("50.5")


def test_projects_have_limits_of_their_own_and_a_default(tmp_path: Path) -> None:
    home, etc = tmp_path / "home", tmp_path / "etc.toml"
    home.mkdir()
    (home / "settings.toml").write_text(
        'project = "thesis"\n[project_budgets_usd_per_month]\nthesis = 50.5\ncourse = 10\n', encoding="utf-8"
    )
    etc.write_text("[project_budgets_usd_per_month]\nthesis = 20\n", encoding="utf-8")
    settings = load_settings({"PLAN_HOME": str(home)}, etc)
    assert settings.project == "thesis"
    assert settings.project_budgets_usd_per_month == {"thesis": 20, "course": 10}
    assert load_settings({"PLAN_HOME": str(home), "PLAN_PROJECT": "course"}, etc).project == "course"


@pytest.mark.parametrize(
    "text",
    [
        'project = "My Thesis"', "project = 7", "project_budgets_usd_per_month = 5",
        "[project_budgets_usd_per_month]\nthesis = -1", "[project_budgets_usd_per_month]\n'My Thesis' = 1",
    ],
)  # fmt: skip
def test_what_is_no_project_is_refused_with_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.toml").write_text(text, encoding="utf-8")
    with pytest.raises(BadInputError, match=r"settings\.toml.*project"):
        load_settings({"PLAN_HOME": str(tmp_path)}, tmp_path / "none")


def test_a_job_that_names_no_project_has_that_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    monkeypatch.setenv("PLAN_PROJECT", "thesis")
    job = "name: one\nmodel: {preset: vgg16}\ndata: {name: cifar10}\nepochs: 1\nglobal_batch_size: 128\n"
    (tmp_path / "job.yaml").write_text(job, encoding="utf-8")
    (tmp_path / "own.yaml").write_text(job + "project: course\n", encoding="utf-8")
    assert read_job_file(tmp_path / "job.yaml").project == "thesis"
    assert read_job_file(tmp_path / "own.yaml").project == "course"


def test_none_is_set(tmp_path: Path) -> None:
    assert limit(tmp_path) is None


@pytest.mark.parametrize("value", ['"much"', "-1", "nan", "inf", "true"])
def test_what_is_no_amount_is_refused_with_its_file(tmp_path: Path, value: str) -> None:
    with pytest.raises(BadInputError, match="budget_usd_per_month"):
        limit(tmp_path, f"budget_usd_per_month = {value}")


def test_status_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAN_HOME", str(tmp_path))
    monkeypatch.setenv("PLAN_BUDGET_USD_PER_MONTH", "200")
    line = "this month: $0.00 spent, live runs may come to $0.00, of $200.00 (budget_usd_per_month)"
    assert line in plan("status").out.splitlines()
    assert plan("status", "--json").out == "[]\n"
