"""Which offers can do the job: every reason for which one cannot, and an order without doubt."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.builders import (
    TODAY,
    CatalogText,
    a_device,
    a_job,
    a_rental,
    a_throughput,
    a_world,
    rented,
    small_catalog,
)
from tests.rows import each_row
from trainplan.planner.forecast.choose import LONGEST, Filters, choose, fits
from trainplan.planner.forecast.estimate import Workload
from trainplan.planner.forecast.memory import step_bytes
from trainplan.planner.forecast.plan import REASON_TEXTS, Candidate, Choice, Reason
from trainplan.planner.throughput.values import Throughput
from trainplan.pricing.catalog import Catalog, RentalPlacements
from trainplan.pricing.devices import USABLE_SHARE, Architecture
from trainplan.pricing.offers import Availability, Lifecycle, LifecycleState, Market, OfferQuery, Rental
from trainplan.providers.cloud.images import table
from trainplan.workloads.job import Objective, TrainingJob
from trainplan.workloads.memory import GIB


def choose_offer(
    *rows: RentalPlacements, job: TrainingJob | None = None, every_placement: bool = True, **filters: Any
) -> Choice:
    return choose(job or a_job(), rows, a_world(), Filters(**filters), every_placement=every_placement)


def reasons(choice: Choice) -> dict[Reason, int]:
    counts: dict[Reason, int] = {}
    for key, count in choice.rejections.items():
        counts[key.reason] = counts.get(key.reason, 0) + count
    return counts


def where(candidate: Candidate) -> tuple[str, str]:
    return candidate.estimate.rental.instance_type, candidate.placement.region


# --- reasons -----------------------------------------------------------------------------------------------------

TWO_PLACEMENTS = (("us-east-1", "1"), ("eu-west-1", "2"))
RETIRED = Lifecycle(state=LifecycleState.RETIRED)
HALF = Fraction(1, 2)
LARGE = {"path": "images", "images": 1000, "size_bytes": 80_000_000_000}
HUGE = {**LARGE, "size_bytes": 34 * 10**12}
"""Twice as much and what a file system takes are more than 64 TiB."""
NET = {"preset": "vgg16", "image_size": 64, "classes": 10}
COLAB = {"provider": "colab", "instance_type": "T4", "device": "T4"}
REFUSED: list[tuple[Reason, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    # reason, of the rental, of the filters, of the job
    (Reason.RETIRED, {"lifecycle": RETIRED}, {}, {}),
    (Reason.NOT_OFFERED, {"availability": Availability(False, date(2026, 11, 21))}, {}, {}),
    (Reason.PROVIDER, {}, {"providers": frozenset({"gcp"})}, {}),
    (Reason.REGION, {}, {"regions": frozenset({"mars"})}, {}),
    (Reason.DEVICE, {}, {"devices": frozenset({"V100"})}, {}),
    (Reason.COUNT, {}, {"counts": frozenset({3})}, {}),
    (Reason.MARKET, {}, {"markets": frozenset({"spot"})}, {}),
    (Reason.CANNOT_RUN, {"cpu_architecture": "arm64"}, {}, {}),
    (Reason.CANNOT_RUN, {"device": "B200"}, {}, {}),
    (Reason.CANNOT_RUN, {"family": "g6f", "device_fraction": Fraction(1, 8), "device_memory_gib": 2.8}, {}, {}),
    (Reason.CANNOT_RUN, {"device": "cpu", "cpu_architecture": "arm64"}, {}, {}),
    (Reason.MULTI_HOST, {"device": "TPU v2", "device_count": 16, "hosts": 4}, {"by_trainer": True}, {}),
    (Reason.NO_BF16, {"device": "T4"}, {}, {"precision": "amp_bf16"}),
    (Reason.NO_BF16, {"device": "V100"}, {}, {"precision": "amp_bf16", "framework": "jax"}),
    (Reason.NO_DEVICE_DATA, {"device": "blank"}, {}, {}),
    (Reason.NO_DEVICE_DATA, {"device": "never heard of"}, {}, {}),
    (Reason.BATCH_NOT_DIVISIBLE, {"device_count": 3}, {}, {}),
    (Reason.BATCH_NOT_DIVISIBLE, {"device_count": 256}, {}, {}),
    # Four chips of TPU v2 are eight cores.
    (Reason.BATCH_NOT_DIVISIBLE, {"device": "TPU v2", "device_count": 4}, {}, {"global_batch_size": 4}),
    (Reason.CANNOT_ACCUMULATE, {"device": "K80"}, {}, {"accumulate": 2}),
    (Reason.ONE_DEVICE, {"device_count": 2}, {"by_trainer": True}, {"framework": "torch"}),
    (Reason.OUT_OF_MEMORY, {"device_memory_gib": 0.5}, {}, {}),
    (Reason.BATCH_NOT_DIVISIBLE, {"device_count": 4}, {}, {"accumulate": 64}),
    (Reason.CANNOT_RUN, {"device": "TPU v2"}, {}, {"framework": "tensorflow"}),
    (Reason.OUT_OF_MEMORY, {"device": "cpu", "device_memory_gib": None, "memory_gib": 1.0}, {}, {}),
    (Reason.FRACTION_TOO_SMALL, {"device_memory_gib": 0.5, "device_fraction": HALF}, {}, {}),
    (Reason.DISK_TOO_SMALL, {"device": "TPU v2"}, {}, {"data": HUGE, "model": NET}),
    (Reason.STORAGE_TOO_SMALL, COLAB, {}, {"data": LARGE, "model": NET}),
    (Reason.TOO_SLOW, {}, {}, {"epochs": 100_000}),
    (Reason.OVER_DEADLINE, {}, {"deadline": timedelta(minutes=10)}, {}),
    (Reason.OVER_BUDGET, {}, {"budget_usd": Decimal("0.01")}, {}),
]


@each_row(("reason", "rental", "filters", "job"), REFUSED)
def test_an_offer_is_refused_for_its_reason_in_every_placement(
    reason: Reason, rental: dict[str, Any], filters: dict[str, Any], job: dict[str, Any]
) -> None:
    choice = choose_offer(rented(a_rental(**rental), *TWO_PLACEMENTS), job=a_job(**job), **filters)
    assert choice.candidates == ()
    assert reasons(choice) == {reason: 2}
    assert choice.filtered_last is reason


def test_a_batch_that_does_not_fit_fits_in_parts() -> None:
    """VGG16 at 32 px: 2,048 images at once take 3.2 GiB and more, 256 at once a good deal less."""
    row = rented(a_rental(device_memory_gib=4.0))
    assert reasons(choose_offer(row, job=a_job(global_batch_size=4096))) == {Reason.OUT_OF_MEMORY: 1}
    (candidate,) = choose_offer(row, job=a_job(global_batch_size=4096, accumulate=16)).candidates
    assert candidate.estimate.software is not None
    assert candidate.estimate.software.framework == "tensorflow"


@pytest.mark.parametrize(
    ("device", "gigabytes", "disk_gb"),
    [("TPU v2", 74, 100), ("TPU v2", 75, 100 + 147), ("TPU v2", 80, 100 + 157), ("T4", 400, 900.6)],
)
def test_data_that_has_no_room_on_a_fixed_disk_gets_one_whose_price_is_in_the_row(
    device: str, gigabytes: int, disk_gb: float
) -> None:
    """100 GiB less 30 for system and container are 75.2 GB, of which two checkpoints of VGG16 take 0.6. The disk is 2.1
    times as large as the data, in whole GiB, and is billed from the request to the end."""
    job = a_job(data={**LARGE, "size_bytes": gigabytes * 10**9}, model=NET)
    (candidate,) = choose_offer(rented(a_rental(device=device)), job=job).candidates
    assert float(candidate.estimate.side.steady.disk_gb) == pytest.approx(disk_gb, abs=0.1)
    hours = candidate.estimate.time.total.total_seconds() / 3600
    assert float(candidate.estimate.fixed(candidate.placement.region).disk) == pytest.approx(
        disk_gb * 0.0001 * hours, rel=0.01
    )


def test_a_tpu_trains_on_jax_where_the_job_names_no_framework() -> None:
    (candidate,) = choose_offer(rented(a_rental(device="TPU v2"))).candidates
    assert candidate.estimate.software is not None
    assert candidate.estimate.software.framework == "jax"


def test_a_chip_of_two_cores_has_half_its_memory_for_each() -> None:
    """What a device holds beside its images is there twice."""
    work = Workload(a_job(global_batch_size=512))
    chips = {name: a_device(name, Architecture.TPU) for name in ("TPU v3", "TPU v5e")}
    world, usable = a_world()._replace(devices=chips), USABLE_SHARE * GIB
    four = {"device_count": 4, "device_memory_gib": 1.001 * work.device_bytes(128, "tpu").least / usable}
    assert fits(work, a_rental(device="TPU v5e", **four), world, None)
    assert not fits(work, a_rental(device="TPU v3", **four), world, None)
    cores = {"device_count": 4, "device_memory_gib": 2.001 * work.device_bytes(64, "tpu").least / usable}
    assert fits(work, a_rental(device="TPU v3", **cores), world, None)


def test_every_reason_is_tried_here_and_has_its_words() -> None:
    of_a_script = {Reason.NO_CHECKPOINTS, Reason.SCRIPT_ON_ONE_DEVICE}
    asked_elsewhere = {Reason.NO_THROUGHPUT, Reason.NO_PRICE, Reason.SESSION_TOO_SHORT} | of_a_script
    assert {row[0] for row in REFUSED} == set(Reason) - asked_elsewhere
    assert set(REASON_TEXTS) == set(Reason)
    assert len(set(REASON_TEXTS.values())) == len(Reason)


@pytest.mark.parametrize(
    "rental",
    [
        {},
        {"lifecycle": Lifecycle(state=LifecycleState.LEGACY)},
        {"lifecycle": Lifecycle(state=LifecycleState.DEPRECATED)},
        {"device": "K80"},
        {"device": "TPU v2", "device_count": 4},
        {"device_count": 128},
        {"device_memory_gib": None},
        {"device_fraction": HALF, "device_memory_gib": 8.0},
        {"device": "cpu", "device_memory_gib": None, "memory_gib": 16.0},
        {"device": "cpu", "device_memory_gib": None, "memory_gib": None},
        {"market": Market.SPOT},
    ],
)
def test_what_can_do_it_is_a_candidate(rental: dict[str, Any]) -> None:
    choice = choose_offer(rented(a_rental(**rental), *TWO_PLACEMENTS))
    assert [candidate.placement.region for candidate in choice.candidates] == ["us-east-1", "eu-west-1"]
    assert (choice.rejections, choice.filtered_last) == ({}, None)


@pytest.mark.parametrize(
    ("reason", "rental", "framework"),
    [
        (Reason.ONE_DEVICE, {"device_count": 2}, "torch"),
        (Reason.MULTI_HOST, {"device": "TPU v2", "device_count": 16, "hosts": 4}, "jax"),
    ],
)
def test_what_a_launch_leaves_idle_is_estimated_behind_what_it_rents(
    reason: Reason, rental: dict[str, Any], framework: str
) -> None:
    """Though it costs less: row 1 is what a launch rents."""
    dear = rented(a_rental(instance_type="dear", device=rental.get("device", "T4")), ("us-east-1", "100"))
    rows = dear, rented(a_rental(**rental), *TWO_PLACEMENTS)
    choice = choose_offer(*rows, job=a_job(framework=framework))
    assert [candidate.estimate.only_estimated for candidate in choice.candidates] == [None, reason, reason]
    assert choice.candidates[0].cost_micro_usd > choice.candidates[1].cost_micro_usd
    launched = choose_offer(*rows, job=a_job(framework=framework), by_trainer=True)
    assert [candidate.estimate.rental.instance_type for candidate in launched.candidates] == ["dear"]
    assert reasons(launched) == {reason: 2}


def test_every_host_of_a_slice_has_a_disk_and_fetches_the_data() -> None:
    job = a_job(framework="jax", data={"url": "s3://b/images", "images": 1000, "size_bytes": 8_000_000_000}, model=NET)
    alone, slice_ = (
        choose_offer(rented(a_rental(device="TPU v2", device_count=4, hosts=hosts)), job=job).candidates[0].estimate
        for hosts in (1, 4)
    )
    assert slice_.side.steady.disk_gb == 4 * alone.side.steady.disk_gb
    assert slice_.side.steady.addresses == 4
    assert slice_.side.steady.fetched_gb == 4 * alone.side.steady.fetched_gb > 0
    assert slice_.side.steady.stored_gb == alone.side.steady.stored_gb


def test_each_process_of_several_decodes_under_a_lock_of_its_own() -> None:
    """PyTorch has one on each GPU, a TPU slice one on each host; elsewhere one serves all devices of the machine."""
    many: dict[str, Any] = {"vcpus": 4_000, "memory_gib": 100.0}
    rentals = {
        "torch": a_rental(device_count=8, **many),
        "tensorflow": a_rental(device_count=8, **many),
        "jax": a_rental(device="TPU v2", device_count=16, hosts=4, **many),
    }
    job: dict[str, Any] = {"data": {"name": "imagenet"}, "model": {"preset": "vgg16"}}
    works = {name: Workload(a_job(framework=name, **job)) for name in rentals}
    feeds = {name: works[name].feed(rental) for name, rental in rentals.items()}
    rates = {name: feed.images_per_second for name, feed in feeds.items() if feed is not None}
    assert rates["torch"] == pytest.approx(8 * rates["tensorflow"])
    assert rates["jax"] == pytest.approx(4 * rates["tensorflow"])


def test_torch_on_several_devices_keeps_its_gradients_twice() -> None:
    torch, others = (Workload(a_job(framework=framework)) for framework in ("torch", "tensorflow"))
    gradients = 4 * torch.graph.trained_parameters
    for work, more in ((torch, gradients), (others, 0)):
        of_two = step_bytes(work, a_rental(device_count=2), 64)
        assert of_two.least - step_bytes(work, a_rental(), 64).least == more


def test_a_rental_that_no_throughput_is_known_of_is_refused_for_that() -> None:
    world = a_world(lambda _: Reason.NO_THROUGHPUT)
    choice = choose(a_job(), [rented(a_rental(), *TWO_PLACEMENTS)], world, Filters(), every_placement=True)
    assert (reasons(choice), choice.filtered_last) == ({Reason.NO_THROUGHPUT: 2}, Reason.NO_THROUGHPUT)


def test_what_is_refused_is_never_asked_for_its_speed() -> None:
    def speed(rental: Rental) -> Throughput:
        raise AssertionError(rental)

    rows = [rented(a_rental(**rental)) for _, rental, filters, job in REFUSED if rental and not filters and not job]
    choice = choose(a_job(), rows, a_world(speed), Filters(), every_placement=True)
    assert choice.candidates == ()


def test_placements_without_a_price_to_plan_with_are_counted_apart() -> None:
    choice = choose_offer(rented(a_rental(), ("us-east-1", "1"), unrankable=3))
    assert (len(choice.candidates), reasons(choice)) == (1, {Reason.NO_PRICE: 3})
    none = choose_offer(rented(a_rental(), unrankable=3))
    assert (none.candidates, none.filtered_last, reasons(none)) == ((), Reason.NO_PRICE, {Reason.NO_PRICE: 3})


def test_placements_without_a_price_share_the_reason_of_their_machine() -> None:
    choice = choose_offer(rented(a_rental(cpu_architecture="arm64"), ("us-east-1", "1"), unrankable=3))
    assert reasons(choice) == {Reason.CANNOT_RUN: 4}
    elsewhere = choose_offer(rented(a_rental(), ("us-east-1", "1"), unrankable=3), regions=frozenset({"mars"}))
    assert (reasons(elsewhere), elsewhere.filtered_last) == ({Reason.REGION: 1, Reason.NO_PRICE: 3}, Reason.REGION)


def test_what_the_person_asked_for_is_looked_at_before_what_can_run() -> None:
    choice = choose_offer(rented(a_rental(cpu_architecture="arm64")), regions=frozenset({"mars"}))
    assert (reasons(choice), choice.filtered_last) == ({Reason.REGION: 1}, Reason.REGION)


def test_a_candidate_costs_what_its_estimate_says_at_its_placement() -> None:
    for candidate in choose_offer(rented(a_rental(), *TWO_PLACEMENTS)).candidates:
        assert candidate.cost_micro_usd == candidate.estimate.cost_micro_usd(*candidate.placement[:2])


def test_the_filter_that_removed_the_last_offer_is_the_one_that_let_most_through_before() -> None:
    rows = [
        rented(a_rental(lifecycle=RETIRED)),
        rented(a_rental(instance_type="b", device_count=3)),
        rented(a_rental(instance_type="c", device="V100")),
    ]
    choice = choose_offer(*rows, devices=frozenset({"T4"}))
    assert choice.filtered_last is Reason.BATCH_NOT_DIVISIBLE
    assert reasons(choice) == {Reason.RETIRED: 1, Reason.DEVICE: 1, Reason.BATCH_NOT_DIVISIBLE: 1}


def test_nothing_at_all_was_removed_by_nothing() -> None:
    assert choose_offer() == Choice(candidates=(), rejections={}, filtered_last=None)


def test_retired_offers_are_shown_to_those_who_ask() -> None:
    row = rented(a_rental(lifecycle=RETIRED))
    assert choose_offer(row, include_retired=True).candidates
    assert not choose_offer(row).candidates


def test_a_region_leaves_its_own_placements() -> None:
    choice = choose_offer(rented(a_rental(), *TWO_PLACEMENTS, unrankable=1), regions=frozenset({"eu-west-1"}))
    assert [candidate.placement.region for candidate in choice.candidates] == ["eu-west-1"]
    assert reasons(choice) == {Reason.REGION: 1, Reason.NO_PRICE: 1}


def test_the_settings_of_a_provider_leave_its_own_regions_and_those_of_others() -> None:
    rows = [rented(a_rental(), *TWO_PLACEMENTS), rented(a_rental(provider="gcp"), ("us-central1", "1"))]
    allowed = {"aws": frozenset({"eu-west-1", "us-west-2"})}
    choice = choose_offer(*rows, allowed=allowed)
    assert sorted(candidate.placement.region for candidate in choice.candidates) == ["eu-west-1", "us-central1"]
    assert reasons(choice) == {Reason.REGION: 1}
    assert not choose_offer(rows[0], allowed=allowed, regions=frozenset({"us-east-1"})).candidates


def test_each_refusal_says_whose_it_is() -> None:
    (key,) = choose_offer(rented(a_rental(device_count=3, market=Market.SPOT))).rejections
    assert key == ("aws", "g4dn.xlarge", "spot", Reason.BATCH_NOT_DIVISIBLE)


# --- limits on the whole job -------------------------------------------------------------------------------------


def test_the_deadline_holds_for_the_whole_run_and_not_for_training_alone() -> None:
    """633.2 s, of which 103.2 are training and the test between its epochs."""
    row = rented(a_rental())
    assert choose_offer(row, deadline=timedelta(seconds=634)).candidates
    assert not choose_offer(row, deadline=timedelta(seconds=633)).candidates


def test_the_budget_holds_for_the_whole_cost_and_not_for_compute_alone() -> None:
    """634 s: 0.176111 of compute and 0.017038 of disk, address and transfer."""
    row = rented(a_rental())
    assert choose_offer(row, budget_usd=Decimal("0.193149")).candidates
    assert not choose_offer(row, budget_usd=Decimal("0.193148")).candidates


def test_a_budget_leaves_the_placements_that_meet_it() -> None:
    choice = choose_offer(rented(a_rental(), *TWO_PLACEMENTS), budget_usd=Decimal("0.2"))
    assert [candidate.placement.region for candidate in choice.candidates] == ["us-east-1"]
    assert reasons(choice) == {Reason.OVER_BUDGET: 1}


def test_more_than_a_month_needs_a_deadline() -> None:
    month = a_job(epochs=50_500)
    row = rented(a_rental())
    assert reasons(choose_offer(row, job=month)) == {Reason.TOO_SLOW: 1}
    (candidate,) = choose_offer(row, job=month, deadline=timedelta(days=31)).candidates
    assert candidate.estimate.time.total > LONGEST


@pytest.mark.parametrize("memory_gib", [0.5, 2.0, 4.0, 16.0])
def test_fitting_is_the_memory_arithmetic_of_ones_share(memory_gib: float) -> None:
    work = Workload(a_job())
    for count in (1, 2, 4, 128):
        rental = a_rental(device_count=count, device_memory_gib=memory_gib)
        usable_gib = a_world().devices[rental.device].usable_memory(memory_gib).high_gib
        assert fits(work, rental, a_world(), None) == (work.device_bytes(128 // count).least <= usable_gib * GIB)


# --- order -------------------------------------------------------------------------------------------------------


def _speeds(rental: Rental) -> Throughput:
    """`fast` trains at ten times the rate of the others."""
    return a_throughput(10_000.0 if rental.instance_type == "fast" else 1000.0)


@pytest.mark.parametrize(
    ("objective", "order"),
    [
        # With epochs enough that setup matters little: fast takes 1,537 s at 3 $/h, slow 10,522 s at 0.2, mid at 0.5.
        (Objective.COST, ["slow", "fast", "mid"]),
        (Objective.TIME, ["fast", "slow", "mid"]),
        (Objective.BALANCED, ["fast", "slow", "mid"]),
    ],
)
def test_the_objective_decides(objective: Objective, order: list[str]) -> None:
    job = a_job(epochs=200, objective=objective)
    rows = [
        rented(a_rental(instance_type="mid"), ("r", "0.5")),
        rented(a_rental(instance_type="fast"), ("r", "3")),
        rented(a_rental(instance_type="slow"), ("r", "0.2")),
    ]
    choice = choose(job, rows, a_world(_speeds), Filters(), every_placement=True)
    assert [candidate.estimate.rental.instance_type for candidate in choice.candidates] == order
    costs = [candidate.cost_micro_usd for candidate in choice.candidates]
    times = [candidate.estimate.time.total.total_seconds() for candidate in choice.candidates]
    products = [cost * time for cost, time in zip(costs, times, strict=True)]
    measures: dict[Objective, Sequence[float]] = {
        Objective.COST: costs,
        Objective.TIME: times,
        Objective.BALANCED: products,
    }
    assert list(measures[objective]) == sorted(measures[objective])


def test_ties_fall_by_time_provider_region_and_type() -> None:
    """All at one price: what tells them apart comes in the order that was promised; interruptions cost, so spot comes
    after what it ties with."""
    fast = a_rental(provider="gcp", instance_type="fast")
    rows = [
        rented(replace(fast, market=Market.SPOT), ("a", "1")),
        rented(a_rental(instance_type="x", market=Market.SPOT), ("a", "1")),
        rented(a_rental(instance_type="x"), ("a", "1"), ("b", "1")),
        rented(a_rental(instance_type="w"), ("a", "1")),
        rented(a_rental(provider="gcp"), ("a", "1")),
    ]
    expected = [("w", "a"), ("x", "a"), ("x", "b"), ("g4dn.xlarge", "a"), ("fast", "a"), ("x", "a")]
    choice = choose(a_job(), rows, a_world(), Filters(), every_placement=True)
    assert [where(candidate) for candidate in choice.candidates] == expected
    assert [candidate.estimate.rental.market for candidate in choice.candidates[3:5]] == ["on_demand", "spot"]
    by_time = choose(a_job(objective="time"), rows, a_world(_speeds), Filters(), every_placement=True)
    assert [where(candidate) for candidate in by_time.candidates] == [("fast", "a"), *expected[:4], *expected[5:]]


@pytest.mark.parametrize("objective", Objective)
def test_a_machine_whose_host_is_not_known_goes_last(objective: Objective) -> None:
    """Nobody knows whether its host feeds its devices: without that it looks faster than it may be."""
    rows = [
        rented(a_rental(instance_type="unknown", vcpus=None), ("r", "0.01")),
        rented(a_rental(instance_type="known"), ("r", "5")),
    ]
    choice = choose(a_job(objective=objective), rows, a_world(), Filters(), every_placement=True)
    assert [where(candidate)[0] for candidate in choice.candidates] == ["known", "unknown"]


def test_the_same_offers_in_any_order_have_the_same_ranks(tmp_path: Path) -> None:
    with Catalog.open(small_catalog(tmp_path)) as catalog:
        rows = catalog.rentals(OfferQuery(include_retired=True), TODAY)
        world = a_world(_speeds)._replace(devices=catalog.devices)
        expected = choose(a_job(), rows, world, Filters(), every_placement=True)
        assert len(expected.candidates) > 5
        mixed = list(rows)
        for seed in range(10):
            random.Random(seed).shuffle(mixed)
            found = choose(a_job(), mixed, world, Filters(), every_placement=True)
            assert [where(one) for one in found.candidates] == [where(one) for one in expected.candidates]
            assert found.rejections == expected.rejections


@pytest.mark.parametrize("objective", list(Objective))
def test_the_short_list_is_the_best_of_each_of_the_long_one(tmp_path: Path, objective: Objective) -> None:
    job = a_job(objective=objective)
    with Catalog.open(small_catalog(tmp_path)) as catalog:
        rows = catalog.rentals(OfferQuery(include_retired=True), TODAY)
        world = a_world(_speeds)._replace(devices=catalog.devices)
        every = choose(job, rows, world, Filters(include_retired=True), every_placement=True).candidates
        short = choose(job, rows, world, Filters(include_retired=True), every_placement=False).candidates
    best: dict[tuple[object, ...], Candidate] = {}
    for candidate in every:
        rental = candidate.estimate.rental
        best.setdefault((rental.provider, rental.device, rental.device_count, rental.market), candidate)
    assert [where(one) for one in short] == [where(one) for one in best.values()]
    assert len(short) < len(every)


def test_every_offer_is_ranked_or_refused_once(tmp_path: Path) -> None:
    job = a_job(global_batch_size=60)
    filters = Filters(regions=frozenset({"us-east-1", "us-central1"}), budget_usd=Decimal("0.2"))
    with Catalog.open(small_catalog(tmp_path)) as catalog:
        rows = catalog.rentals(OfferQuery(include_retired=True), TODAY)
        choice = choose(job, rows, a_world()._replace(devices=catalog.devices), filters, every_placement=True)
    offers = sum(len(row.placements) + row.placements.unrankable for row in rows)
    assert len(choice.candidates) + sum(choice.rejections.values()) == offers
    assert choice.candidates
    assert len(reasons(choice)) >= 5


# --- prices that are not to be believed --------------------------------------------------------------------------


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Catalog]:
    """A spot price of a cent that was read two years ago, beside honest ones."""
    text = CatalogText(tmp_path / "text")
    text.add_type("g4dn.xlarge")
    text.add_offer("us-east-1", "g4dn.xlarge", usd="0.526", spot="0.01", spot_as_of="2024-11-01")
    text.add_type("g5.xlarge", device="A10G", device_memory_gib="24")
    text.add_offer("us-east-1", "g5.xlarge", usd="1.006", spot="0.402")
    with Catalog.open(text.compile()) as catalog:
        yield catalog


def test_a_falsely_cheap_old_price_counts_as_such_machines_do(planted: Catalog) -> None:
    """As the share of on demand that the other one costs, 0.402 of 1.006, and a year's drift."""
    rows = planted.rentals(OfferQuery(markets=frozenset({"spot"})), TODAY)
    world = a_world()._replace(devices=planted.devices)
    ranked = choose(a_job(), rows, world, Filters(), every_placement=True).candidates
    offers = {one.instance_type: one for one in planted.offers([row.placement.row_id for row in ranked], TODAY)}
    old = offers["g4dn.xlarge"]
    assert (old.usd_per_hour, old.price_grade) == (Decimal("0.01"), "stale")
    assert old.planning_usd_per_hour is not None
    assert Decimal("0.526") * Decimal("0.3996") <= old.planning_usd_per_hour < Decimal("0.25")


def test_nor_does_it_meet_a_budget_that_it_only_seems_to(planted: Catalog) -> None:
    """A cent an hour would be 0.0018 of compute; at its planning price it is about 0.04 with the rest."""
    rows = planted.rentals(OfferQuery(), TODAY)
    world = a_world()._replace(devices=planted.devices)
    filters = Filters(budget_usd=Decimal("0.02"))
    assert choose(a_job(), rows, world, filters, every_placement=True).candidates == ()


# --- what nobody is known to have run ----------------------------------------------------------------------------


def volta_and_turing(volta: str, turing: str, objective: Objective = Objective.COST) -> list[tuple[str, bool]]:
    """The order of a V100 at Google, whose image has a driver that nobody was seen to run on it, and a T4."""
    rows = (
        rented(a_rental(provider="gcp", instance_type="v100", device="V100"), ("us-central1", volta)),
        rented(a_rental(provider="gcp", instance_type="t4", device="T4"), ("us-central1", turing)),
    )
    found = choose_offer(*rows, job=a_job(objective=objective)).candidates
    return [(each.estimate.rental.instance_type, bool(each.estimate.unproven)) for each in found]


def test_an_unproven_combination_is_ranked_at_a_fifth_above_its_cost() -> None:
    assert table().unproven_cost_factor == 1.2
    assert volta_and_turing("1.00", "1.15") == [("t4", False), ("v100", True)]
    assert volta_and_turing("1.00", "1.30") == [("v100", True), ("t4", False)]


def test_what_it_costs_is_told_as_it_is() -> None:
    row = rented(a_rental(provider="gcp", device="V100"), ("us-central1", "1.00"))
    (candidate,) = choose_offer(row).candidates
    assert candidate.cost_micro_usd == candidate.estimate.cost_micro_usd(*candidate.placement[:2])
    assert candidate.ranked_micro_usd == candidate.cost_micro_usd * table().unproven_cost_factor


def test_time_is_ranked_as_it_is() -> None:
    rows = [
        rented(a_rental(provider="gcp", instance_type=name, device=name), ("us-central1", "1.00"))
        for name in ("V100", "T4")
    ]
    found = choose_offer(*rows, job=a_job(objective=Objective.TIME)).candidates
    times = [each.estimate.time.total for each in found]
    assert times == sorted(times)
