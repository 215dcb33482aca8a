"""What would fit if the batch were trained in parts, and how that is said."""

from __future__ import annotations

from tests.builders import a_job, a_rental, a_world, rented
from trainplan.planner.forecast.accumulation import brought_back, parts_needed, parts_text
from trainplan.planner.forecast.choose import Filters, choose, software_of
from trainplan.planner.forecast.estimate import Workload
from trainplan.planner.forecast.plan import Reason, RejectionKey
from trainplan.planner.planning.this_machine import shape_of
from trainplan.pricing.devices import CPU_DEVICE
from trainplan.workloads.memory import GIB

BIG = a_job(global_batch_size=8192)


def test_the_parts_that_a_device_needs_fit_it_and_half_as_many_do_not() -> None:
    work = Workload(BIG)
    parts = parts_needed(work, 4.0)
    assert parts is not None
    assert Workload(a_job(global_batch_size=8192, accumulate=parts)).device_bytes(8192 // parts).least <= 4.0 * GIB
    assert Workload(a_job(global_batch_size=8192, accumulate=parts // 2)).device_bytes(16384 // parts).least > 4.0 * GIB
    assert parts_needed(work, 1000.0) is None
    assert parts_needed(work, 0.1) is None


def test_offers_come_back_by_the_parts_they_need() -> None:
    """A T4 of 16 GiB, one of 4 in two placements, two T4s at once (each with half of each part), and a host."""
    rows = [
        rented(a_rental(instance_type="large")),
        rented(a_rental(instance_type="small", device_memory_gib=4.0), ("us-east-1", "1"), ("eu-west-1", "2")),
        rented(a_rental(instance_type="pair", device_memory_gib=4.0, device_count=2)),
        rented(a_rental(instance_type="host", device=CPU_DEVICE, device_memory_gib=None, memory_gib=4.0)),
    ]
    world, work = a_world(), Workload(BIG)
    rejected = choose(BIG, rows, world, Filters(), every_placement=True).rejections
    counts = brought_back(work, rows, rejected, world.devices, lambda rental: software_of(BIG, rental, world))
    parts = parts_needed(work, 0.92 * 4.0)
    assert parts is not None
    assert parts == parts_needed(work, 3.5), "the host's 4 GiB are less what the framework takes"
    refused = {key.instance_type: count for key, count in rejected.items()}
    assert refused == {"small": 2, "pair": 1, "host": 1}
    half = parts_needed(work, 0.92 * 4.0, device_count=2)
    assert half is not None
    assert half < parts
    assert counts == {half: 1, parts: 4}
    assert parts_text(counts, rejected, normed=True) == (
        "4 offers have too little memory for this batch; gradient accumulation makes it fit (same optimizer steps): "
        f"accumulate: {half} on 1 of them, {parts} on 4 (batch norm is computed on each part)"
    )


def test_three_numbers_of_parts_are_named_at_most() -> None:
    rejected = {RejectionKey("aws", "x", "spot", Reason.OUT_OF_MEMORY): 100}
    text = parts_text({2: 10, 4: 20, 8: 30, 16: 40, 32: 50}, rejected, normed=False)
    assert text is not None
    assert "accumulate: 2 on 10 of them, 8 on 30, 32 on 50" in text
    assert parts_text({}, rejected, normed=False) is None


def test_a_run_in_parts_is_measured_for_itself() -> None:
    assert shape_of(a_job(accumulate=2)) != shape_of(a_job())
