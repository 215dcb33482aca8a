"""A plan out of the tables: filters by name, what was asked for against what the job says, and nothing left."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.builders import CatalogText, a_job, a_throughput, small_catalog
from tests.doubles.clock import NOON
from trainplan.planner.errors import BadInputError, ExitCode, ThisMachineError
from trainplan.planner.forecast.plan import Plan, Reason
from trainplan.planner.planning.build_plan import PlanQuery, make_plan, nothing_left, share_of
from trainplan.planner.settings import Settings
from trainplan.planner.throughput.values import Basis
from trainplan.workloads.job import TrainingJob


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_catalog(tmp_path_factory.mktemp("gather"))


@pytest.fixture
def make(catalog: Path, tmp_path: Path) -> Callable[..., Plan]:
    """A plan of a job (by default the small one) with what is wanted."""

    def made(job: TrainingJob | None = None, **filters: Any) -> Plan:
        asked = PlanQuery(**{"catalog": catalog} | filters)
        return make_plan(job or a_job(), asked, Settings(home=tmp_path), NOON)

    return made


def kinds(plan: Plan) -> set[tuple[str, str]]:
    return {(row.offer.instance_type, row.offer.market.value) for row in plan.candidates}


def reasons(plan: Plan) -> dict[Reason, int]:
    counts: dict[Reason, int] = {}
    for key, count in plan.rejections.items():
        counts[key.reason] = counts.get(key.reason, 0) + count
    return counts


def test_a_plan_has_everything_a_table_needs(make: Callable[..., Plan]) -> None:
    plan = make()
    assert (plan.made_at, plan.offers_seen) == (NOON, 12)
    assert [row.rank for row in plan.candidates] == list(range(1, len(plan.candidates) + 1))
    assert [row.candidate for row in plan.candidates] == list(plan.ranking)
    assert plan.this_machine is not None
    assert plan.prices == {}
    for row in plan.candidates:
        assert row.offer.rental == row.candidate.estimate.rental
        assert row.offer.region == row.candidate.placement.region
        assert row.offer.planning_usd_per_hour == Decimal(row.candidate.placement[0]) / 1_000_000


def test_a_limit_looks_up_so_many_and_still_ranks_all(make: Callable[..., Plan]) -> None:
    plan = make(limit=2)
    assert len(plan.candidates) == 2
    assert len(plan.ranking) == len(make().ranking) > 2
    assert make(limit=0).candidates == ()


def test_every_placement_and_its_price_for_those_who_ask(make: Callable[..., Plan]) -> None:
    plan = make(every_placement=True, prices=True)
    assert len(plan.ranking) > len(make().ranking)
    assert {candidate.placement.row_id for candidate in plan.ranking} <= set(plan.prices)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"providers": ("gcp",)}, {("n1-standard-4+1xT4", "on_demand")}),
        ({"devices": ("T4",), "providers": ("aws",), "markets": ("spot",)}, {("g4dn.xlarge", "spot")}),
        ({"devices": ("t4",), "markets": ("spot",)}, {("g4dn.xlarge", "spot")}),
        ({"devices": ("CPU",)}, {("c5.2xlarge", "on_demand")}),
        ({"devices": ("V100",)}, {("p3dn.24xlarge", "on_demand")}),
        ({"regions": ("eu-west-1",)}, {("g4dn.xlarge", "on_demand"), ("g4dn.xlarge", "spot")}),
        ({"regions": ("eu-west-1", "us-central1"), "markets": ("spot",)}, {("g4dn.xlarge", "spot")}),
    ],
)
def test_filters(make: Callable[..., Plan], filters: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    assert kinds(make(**filters)) == expected
    # The same in the job file is the same.
    assert kinds(make(a_job(constraints={key: list(value) for key, value in filters.items()}))) == expected


def test_what_is_asked_for_now_wins_over_the_job(make: Callable[..., Plan]) -> None:
    job = a_job(constraints={"providers": ["gcp"], "markets": ["on_demand"]})
    assert kinds(make(job, providers=("aws",), markets=("spot",))) == {("g4dn.xlarge", "spot")}
    # What is not asked for stays.
    assert {market for _, market in kinds(make(job, providers=("aws",)))} == {"on_demand"}


def test_retired_machines_are_shown_to_those_who_ask(make: Callable[..., Plan]) -> None:
    assert ("p2.xlarge", "on_demand") not in kinds(make())
    assert ("p2.xlarge", "on_demand") in kinds(make(include_retired=True))


def test_what_no_software_runs_on_is_refused_for_that(make: Callable[..., Plan]) -> None:
    refused = {key.instance_type for key in make().rejections if key.reason is Reason.CANNOT_RUN}
    assert refused == {"g5g.xlarge", "p6-b200.48xlarge"}


@pytest.mark.parametrize(
    ("filters", "message", "hint"),
    [
        ({"providers": ("asw",)}, "there is no provider 'asw'", "did you mean aws?"),
        ({"providers": ("oracle",)}, "there is no provider 'oracle'", "known: aws, azure, gcp, local"),
        ({"regions": ("us-esat-1",)}, "there is no region 'us-esat-1'", "did you mean us-east-1?"),
        ({"regions": ("mars",)}, "there is no region 'mars'", "known: eu-west-1, us-central1, us-east-1"),
        ({"devices": ("V10",)}, "no device is called 'V10'", "did you mean V100"),
        (
            {"devices": ("T4", "GPU")},
            "no device is called 'GPU': name one, for example T4 or A100; without a name any is taken",
            "",
        ),
        ({"providers": ("aws", "")}, "there is no provider ''", ""),
    ],
)
@pytest.mark.parametrize("in_the_job", [False, True])
def test_a_name_that_is_none_is_bad_input_with_the_nearest(
    make: Callable[..., Plan], filters: dict[str, Any], message: str, hint: str, *, in_the_job: bool
) -> None:
    job = a_job(constraints={key: list(value) for key, value in filters.items()} if in_the_job else {})
    with pytest.raises(BadInputError) as caught:
        make(job, **({} if in_the_job else filters))
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)


def test_a_job_that_does_not_say_how_many_images_is_bad_input(make: Callable[..., Plan]) -> None:
    model = {"preset": "vgg16", "image_size": 64, "classes": 3}
    with pytest.raises(BadInputError, match=r"tiny: the number of images .* set data\.images"):
        make(a_job(data={"path": "images"}, model=model))


@pytest.mark.parametrize(
    ("job", "filters", "last"),
    [
        ({"constraints": {"budget_usd": "0.0001"}}, {}, Reason.OVER_BUDGET),
        ({"constraints": {"deadline": "1s"}}, {}, Reason.OVER_DEADLINE),
        ({"epochs": 1_000_000}, {}, Reason.TOO_SLOW),
        ({"global_batch_size": 1_048_576}, {}, Reason.FRACTION_TOO_SMALL),
        ({"global_batch_size": 1_048_576}, {"devices": ("T4",)}, Reason.OUT_OF_MEMORY),
        ({"global_batch_size": 7}, {"devices": ("V100",)}, Reason.BATCH_NOT_DIVISIBLE),
        ({}, {"devices": ("B200",)}, Reason.CANNOT_RUN),
        ({}, {"devices": ("K80",)}, Reason.RETIRED),
        ({}, {"providers": ("azure",)}, Reason.PROVIDER),
        ({}, {"providers": ("gcp",), "markets": ("spot",)}, Reason.MARKET),
        ({}, {"devices": ("cpu",), "regions": ("eu-west-1",)}, Reason.REGION),
        ({}, {"providers": ("aws",), "regions": ("us-central1",)}, Reason.REGION),
    ],
)
def test_nothing_left_names_the_filter_that_removed_the_last(
    make: Callable[..., Plan], job: dict[str, Any], filters: dict[str, Any], last: Reason
) -> None:
    plan = make(a_job(**job), **filters)
    assert (plan.ranking, plan.filtered_last) == ((), last)
    error = nothing_left(plan)
    assert error.exit_code is ExitCode.NOTHING_LEFT == 3
    assert error.message == f"no offer fits: {last.text}"
    for reason, count in reasons(plan).items():
        assert f"{count} {reason}" in error.hint


def test_a_market_without_a_known_price_names_the_refresh_that_reads_it(make: Callable[..., Plan]) -> None:
    plan = make(a_job(), providers=("gcp",), markets=("spot",))
    assert "no spot price of gcp is known; plan prices refresh gcp reads it (no account needed)" in plan.advice


@pytest.mark.parametrize(
    ("filters", "text"),
    [
        ({"devices": ("K80",)}, "aws retired p2.xlarge (K80) on 2025-03-30, take g4dn.xlarge"),
        ({"devices": ("K80",), "providers": ("gcp",)}, ""),
        ({"devices": ("K80",), "regions": ("us-central1",)}, ""),
        ({"providers": ("azure",)}, ""),
    ],
)
def test_what_was_asked_for_and_is_retired_is_told_with_its_date_and_successor(
    make: Callable[..., Plan], filters: dict[str, Any], text: str
) -> None:
    hint = nothing_left(make(**filters)).hint
    assert (text in hint, "--allow-retired" in hint) == (True, bool(text))


def test_this_machine_is_told_of_although_nothing_is_left(make: Callable[..., Plan]) -> None:
    plan = make(providers=("local",))
    assert plan.ranking == ()
    assert plan.this_machine is not None


def test_a_catalog_without_offers_says_so(make: Callable[..., Plan], tmp_path: Path) -> None:
    empty = CatalogText(tmp_path / "text", offers={"aws": []}).compile()
    plan = make(catalog=empty)
    assert (plan.ranking, plan.rejections, plan.offers_seen) == ((), {}, 0)
    assert nothing_left(plan).message == "there are no offers: the catalog is empty"


@pytest.mark.parametrize("content", [None, b"", b"no database"])
def test_a_catalog_that_cannot_be_read_is_this_machines_error(
    make: Callable[..., Plan], tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "catalog.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ThisMachineError, match=r"catalog\.sqlite") as caught:
        make(catalog=path)
    assert caught.value.hint


def test_prices_are_as_old_as_the_day_the_plan_is_made(catalog: Path, tmp_path: Path) -> None:
    """Half a year later the spot price of November counts with what such prices change by in that time."""
    later = NOON.replace(year=2027, month=5)
    wanted = PlanQuery(catalog=catalog, devices=("T4",), markets=("spot",))
    now, then = (make_plan(a_job(), wanted, Settings(home=tmp_path), day).candidates[0] for day in (NOON, later))
    assert (now.offer.price_grade, now.offer.planning_usd_per_hour) == ("observed", Decimal("0.2104"))
    assert (then.offer.price_grade, then.offer.planning_usd_per_hour) == ("stale", Decimal("0.291175"))
    assert then.cost_usd > now.cost_usd


def test_a_part_of_a_device_trains_at_its_share_of_the_whole_ones_rate() -> None:
    whole = a_throughput(800.0)
    part = share_of(whole, 0.125)
    assert (part.images_per_second, part.low, part.high) == (100.0, 50.0, 200.0)
    assert part.basis == "modelled"
    assert "share" in part.note


def test_a_network_that_is_no_list_of_layers_is_ranked_like_any_other(make: Callable[..., Plan]) -> None:
    plan = make(a_job(model={"preset": "resnet50", "image_size": 224}))
    bases = {candidate.estimate.rental.device: candidate.estimate.throughput.basis for candidate in plan.ranking}
    # ResNet-50 was measured on a T4.
    assert bases["T4"] is Basis.SCALED
    slower = make(a_job(model={"preset": "resnet152", "image_size": 224}))
    rates = [
        {one.placement.row_id: one.estimate.throughput.images_per_second for one in of.ranking} for of in (plan, slower)
    ]
    both = rates[0].keys() & rates[1].keys()
    assert both
    assert all(rates[1][row] < rates[0][row] for row in both)
