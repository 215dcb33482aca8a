"""What one change would save: which changes are tried, what their rows say, and how a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import terminal_size
from typing import Any

import pytest

from tests.builders import a_job, a_plan, small_catalog
from tests.conftest import Golden
from tests.unit.planner.cli.command import plan
from trainplan.planner.cli.screen import Screen, render
from trainplan.planner.forecast.levers import job_levers
from trainplan.planner.forecast.plan import Plan
from trainplan.planner.report.compare import Side, compare
from trainplan.planner.report.levers import lever_rows, levers_page
from trainplan.pricing.catalog import Catalog
from trainplan.pricing.money import from_micro
from trainplan.workloads.job import TrainingJob


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    with Catalog.open(small_catalog(tmp_path_factory.mktemp("levers"))) as made:
        yield made


def rows_of(catalog: Catalog, job: TrainingJob) -> list[dict[str, Any]]:
    def plan_of(changed: TrainingJob, nodes: Sequence[int]) -> Plan:
        return a_plan(catalog, changed, every_placement=True)

    return lever_rows(plan_of(job, ()), plan_of)


def test_the_changes_of_a_job_are_those_that_it_can_take() -> None:
    job = a_job(model={"preset": "vgg16"}, data={"name": "imagenet"}, epochs=90, precision="fp32", accumulate=2)
    tried = {(one.name, one.before, one.after, one.is_same_work) for one in job_levers(job)}
    assert tried == {
        ("parts of a batch", "2", "1", True), ("parts of a batch", "2", "4", True),
        ("precision", "fp32", "tf32", True), ("precision", "fp32", "amp_fp16", True),
        ("precision", "fp32", "amp_bf16", True), ("XLA", "off", "on", True),
        ("epochs", "90", "45", False), ("image size", "224 px", "160 px", False),
        ("net", "vgg16", "vgg13", False), ("net", "vgg16", "vgg19", False),
    }  # fmt: skip


def test_a_change_that_would_be_no_job_is_left_out() -> None:
    job = a_job(model={"preset": "vgg11"}, data={"name": "cifar10"}, epochs=1, global_batch_size=7)
    names = [(one.name, one.after) for one in job_levers(job)]
    assert not [name for name in names if name[0] in ("parts of a batch", "epochs", "image size")]
    assert [after for name, after in names if name == "net"] == ["vgg13"]


def test_each_row_says_what_the_comparison_of_both_jobs_says(catalog: Catalog) -> None:
    job = a_job()
    rows = {(row["lever"], row["to"]): row for row in rows_of(catalog, job)}
    for lever in job_levers(job):
        row = rows[lever.name, lever.after]
        sides = [Side("", a_plan(catalog, one, every_placement=True)) for one in (job, lever.job)]
        pair = compare(*sides).cheapest
        assert pair.second is not None
        assert row["after"]["cost_usd"] == pair.second.usd.expected
        assert (row["after"]["total_low_seconds"], row["after"]["total_high_seconds"]) == pair.second.seconds[1:]
        for key, delta in row["difference"].items():
            assert tuple(delta.values()) == pair.deltas[key]
        assert row["same_machine"] == pair.is_same_machine
        assert row["within_noise"] == {key: pair.overlaps[key] and not pair.is_same_machine for key in pair.overlaps}


def test_the_other_market_and_another_region_are_those_of_the_ranking(catalog: Catalog) -> None:
    ranking = a_plan(catalog, every_placement=True).ranking
    first = ranking[0]
    rows = {row["lever"]: row for row in rows_of(catalog, a_job())}
    other = next(one for one in ranking if one.estimate.rental.market is not first.estimate.rental.market)
    assert rows["market"]["after"]["cost_usd"] == other.cost_micro_usd / 1e6
    assert rows["market"]["before"]["cost_usd"] == first.cost_micro_usd / 1e6


def test_same_work_comes_first_and_what_saves_most_leads(catalog: Catalog) -> None:
    rows = rows_of(catalog, a_job(epochs=10))
    order = [(not row["same_work"], row["difference"]["cost_usd"]["absolute"]) for row in rows if row["difference"]]
    assert order == sorted(order)
    assert {row["same_work"] for row in rows} == {True, False}


def test_nothing_is_changed_where_nothing_fits(catalog: Catalog) -> None:
    nothing = a_plan(catalog, regions=frozenset({"nowhere"}), every_placement=True)
    assert lever_rows(nothing, lambda *_: nothing) == []
    assert levers_page([], "a job") == ["a job", "no offer fits, so there is nothing to compare a change with"]


def test_a_change_that_nothing_fits_says_why(catalog: Catalog) -> None:
    """A job within a limit that holds for all changes."""
    job = a_job()
    limit = from_micro(a_plan(catalog, job, every_placement=True).ranking[0].cost_micro_usd * 101 // 100)

    def plan_of(changed: TrainingJob, nodes: Sequence[int]) -> Plan:
        return a_plan(catalog, changed, every_placement=True, budget_usd=limit if changed != job else None)

    rows = [row for row in lever_rows(plan_of(job, ()), plan_of) if row["after"] is None]
    assert rows
    assert {row["reason"] for row in rows} == {"over the budget"}
    assert all(row["difference"] is row["within_noise"] is row["same_machine"] is None for row in rows)


@pytest.mark.parametrize("size", [(80, 24), (120, 24)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_the_levers_on_a_screen(catalog: Catalog, golden: Golden, size: tuple[int, int]) -> None:
    rows = rows_of(catalog, a_job())
    text = render(levers_page(rows, "a-job: vgg16 on imagenet"), Screen(size[0], False, terminal_size(size)))
    golden.check(f"screens/levers-{size[0]}x{size[1]}.txt", text + "\n")
    assert len(text.splitlines()) < size[1]
    assert all(len(line) <= size[0] for line in text.splitlines())


def test_the_command_shows_them_and_its_json_has_them() -> None:
    job = ("estimate", "--model", "vgg16", "--dataset", "imagenet", "--device", "T4", "--device", "A10G")
    shown = plan(*job, "--levers")
    assert shown.code == 0, shown.err
    told = plan(*job, "--levers", "--json").json["levers"]
    lines = [line.split("  ")[0].partition(" (")[0] for line in shown.out.splitlines()]
    felt = [row for row in told if any(abs(one["percent"]) >= 0.5 for one in (row["difference"] or {}).values())]
    assert 0 < len(felt) < len(told)
    changes = [f"{row['lever']} {row['from']} -> {row['to']}" for row in told]
    assert [change for change in changes if change in lines] == [
        f"{row['lever']} {row['from']} -> {row['to']}" for row in felt
    ], "those that make a difference, alone"
    assert f"not shown: {len(told) - len(felt)} change" in shown.out
    assert {"image loading", "market", "region", "devices", "machines", "precision"} <= {row["lever"] for row in told}
    assert plan(*job, "--json", "--limit", "1").json["levers"] is None


@pytest.mark.parametrize("option", ["--levers", "--json"])
def test_they_are_no_explanation_of_a_row(option: str) -> None:
    done = plan("estimate", "--model", "vgg16", "--dataset", "cifar10", option, "--explain", "1")
    assert done.code == 2
    assert "--explain and --" in done.err
