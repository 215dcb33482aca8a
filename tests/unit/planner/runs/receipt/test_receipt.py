"""Receipts and what they teach: the arithmetic, and that the next estimate is the run before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.builders import a_job, a_machine_estimate, a_run, a_target, an_attempt, flat_provider_rates
from tests.conftest import Golden
from tests.doubles.clock import NOON, ctrl_c
from tests.doubles.desk import Desk
from tests.doubles.fake_machine import MODEL, PENDING, SIGHTING_OF_END, FakeMachine, Sighting, ends, until_asked
from trainplan.planner.datasets.storage_costs import Stays, stored_cost
from trainplan.planner.forecast.plan import MachineEstimate
from trainplan.planner.planning.own_measurements import OwnMeasurement, load_measurements
from trainplan.planner.planning.this_machine import quote_this_machine
from trainplan.planner.runs.directory.progress import Story
from trainplan.planner.runs.events import Message
from trainplan.planner.runs.receipt.legs import with_passed_over
from trainplan.planner.runs.receipt.receipt import (
    Ending,
    Receipt,
    estimate_record,
    measurement_of,
    receipt_from,
    receipt_record,
    write_receipt,
)
from trainplan.planner.runs.receipt.receipt_text import receipt_text
from trainplan.planner.runs.run import Outcome, Phase, Run
from trainplan.planner.throughput.values import Basis
from trainplan.pricing.devices import DeviceTable
from trainplan.pricing.side_rates import BUCKET
from trainplan.providers.base import EndKind, RunId
from trainplan.providers.errors import TransientError
from trainplan.providers.hardware import this_machine
from trainplan.workloads.job import TrainingJob

CLOUD = flat_provider_rates("aws", **{BUCKET: "0.02"})
MINUTE = NOON + timedelta(seconds=60)
START = {
    "event": "start", "time": (NOON + timedelta(seconds=10)).isoformat(), "images": 1000, "steps_per_epoch": 10,
    "epochs": 2, "total_steps": 20, "resumed_from_step": 0, "framework": "tensorflow", "framework_version": "2.20.0",
    "device_count": 1, "device_name": "AMD EPYC",
}  # fmt: skip
EPOCHS = [
    {"event": "epoch", "time": (NOON + timedelta(seconds=seconds)).isoformat(), "epoch": number, "step": 10 * number}
    for number, seconds in ((1, 30), (2, 52))
]
END = {
    "event": "end", "time": MINUTE.isoformat(), "step": 20, "images_per_second": 100.0,
    "hold_out_accuracy": 0.98, "hold_out_images": 360,
}  # fmt: skip


def a_story(*lines: dict[str, Any]) -> Story:
    story = Story()
    for line in lines:
        story.add(line)
    return story


def an_ending(seconds: float = 60) -> Ending:
    return Ending(asked_at=NOON, ended_at=NOON + timedelta(seconds=seconds), model_folder="/home/model")


def a_done_run(**changes: Any) -> Run:
    """Its machine was there for a minute."""
    target = a_target()
    made = (an_attempt(1, target, ended_at=MINUTE, cleared=True),)
    return a_run(Phase.DONE, **({"made": made, "outcome": Outcome.SUCCEEDED} | changes))


def a_receipt(**changes: Any) -> Receipt:
    estimate = estimate_record(a_machine_estimate())
    story = a_story(START, *EPOCHS, {"event": "phase", "name": "train", "seconds": 41.2345}, END)
    return write_receipt(a_done_run(**changes), story, estimate, an_ending())


# --- the receipt -------------------------------------------------------------------------------------------------


def test_a_receipt_holds_what_was_estimated_against_what_it_took() -> None:
    receipt = a_receipt()
    assert (receipt.estimated_seconds, receipt.actual_seconds) == (600.0, 60.0)
    assert (receipt.estimated_usd, receipt.actual_usd) == (0.02, 0.006)
    assert (receipt.estimated_images_per_second, receipt.actual_images_per_second) == (500.0, 100.0)
    assert (receipt.basis, receipt.attempts, receipt.outcome) == ("measured", 1, "succeeded")
    assert (receipt.steps, receipt.total_steps) == (20, 20)
    assert (receipt.accuracy, receipt.hold_out_images) == (0.98, 360)
    assert (receipt.device, receipt.framework) == ("1 x AMD EPYC", "tensorflow 2.20.0")
    assert receipt.phase_seconds == {"train": 41.234}


def test_what_it_cost_is_what_its_attempts_cost_and_not_the_time_between() -> None:
    target = a_target("36", download_usd=Decimal("0.5"))
    made = (
        an_attempt(1, target, ended_at=MINUTE, cleared=True),
        an_attempt(2, target, ref=None, ended_at=MINUTE, cleared=True),
        an_attempt(3, target, asked_at=NOON + timedelta(hours=5), ended_at=NOON + timedelta(hours=5, minutes=2)),
    )
    receipt = write_receipt(a_done_run(made=made), Story(), {}, an_ending(5 * 3600 + 120))
    assert receipt.actual_usd == pytest.approx(0.6 + 1.2 + 0.5)
    assert receipt.usd_by_resource == {"compute": 1.8, "disk": 0, "address": 0, "transfer": 0.5}
    assert receipt.attempts == 3
    assert not receipt.at_most
    assert "  billed      compute $1.80, transfer $0.50" in receipt_text(receipt).splitlines()


def test_a_receipt_says_at_most_where_nobody_told_when_something_ended() -> None:
    unknown = an_attempt(1, ended_at=MINUTE, ended_after=NOON, cleared=True)
    receipt = write_receipt(a_done_run(made=(unknown,)), Story(), {}, an_ending())
    assert receipt.at_most
    assert receipt.parts_at_most == ["compute"]
    assert "at most: when everything of it ended is not known" in receipt_text(receipt)
    nearly = an_attempt(1, ended_at=MINUTE, ended_after=MINUTE - timedelta(seconds=0.5), cleared=True)
    assert not write_receipt(a_done_run(made=(nearly,)), Story(), {}, an_ending()).at_most


def test_interruptions_are_counted_with_what_they_cost_in_steps() -> None:
    made = (
        an_attempt(1, end=EndKind.RECLAIMED, step=10, lost_steps=7),
        an_attempt(2, end=EndKind.STOPPED, step=10, lost_steps=100),
        an_attempt(3, ref=None),
        an_attempt(4, end=EndKind.DEVICE_LOST, step=20, lost_steps=5),
        an_attempt(5, end=EndKind.LOST),
        an_attempt(6, end=EndKind.DONE),
    )
    receipt = write_receipt(a_done_run(made=made), Story(), {}, an_ending())
    assert (receipt.interruptions, receipt.lost_steps, receipt.attempts) == (3, 12, 6)
    assert "interrupted 3 times, 12 steps were trained again" in receipt_text(receipt)


@pytest.mark.parametrize("kept", [0, 40])
def test_steps_that_were_lost_with_the_last_machine_are_not_kept_too(kept: int) -> None:
    made = (an_attempt(1, end=EndKind.LOST, step=kept, lost_steps=60), an_attempt(2, ref=None))
    run = replace(a_done_run(made=made), outcome=Outcome.FAILED)
    receipt = write_receipt(run, Story(last_step={"event": "step", "step": kept + 60}), {}, an_ending())
    assert (receipt.steps, receipt.lost_steps) == (kept, 60)
    assert [leg["steps"] for leg in receipt.placements] == [kept]


@pytest.mark.parametrize(("resumed", "lost"), [(20, 1), (15, 6)])
def test_steps_of_a_damaged_checkpoint_that_was_passed_over_are_trained_again(resumed: int, lost: int) -> None:
    made = (an_attempt(1, end=EndKind.LOST, step=20, lost_steps=1), an_attempt(2, end=EndKind.DONE))
    story = Story()
    story.add({"event": "start", "resumed_from_step": resumed})
    run = with_passed_over(a_done_run(made=made), {2: story})
    assert write_receipt(run, story, {}, an_ending()).lost_steps == lost
    assert run.attempts[0].step == min(20, resumed)
    assert with_passed_over(run, {2: story}) == run
    assert with_passed_over(a_done_run(made=made), {}) == a_done_run(made=made)


def test_a_node_that_was_lost_within_an_attempt_is_an_interruption() -> None:
    receipt = write_receipt(a_done_run(), Story(restarts=1, lost_steps=3), {}, an_ending())
    assert "  interrupted once, 3 steps were trained again" in receipt_text(receipt).splitlines()


def test_without_an_estimate_or_a_trainer_the_figures_are_unknown() -> None:
    receipt = write_receipt(a_done_run(), Story(), {}, an_ending())
    unknown = ["estimated_seconds", "estimated_usd", "estimated_images_per_second", "basis", "total_steps"]
    unknown += ["actual_images_per_second", "accuracy", "hold_out_images", "framework", "device"]
    assert {name: getattr(receipt, name) for name in unknown} == dict.fromkeys(unknown)
    assert receipt.steps == 0


def test_a_receipt_is_json_and_back() -> None:
    receipt = a_receipt()
    assert Receipt(**json.loads(json.dumps(receipt.to_json()))) == receipt


def test_a_receipt_of_an_earlier_version_is_still_one() -> None:
    kept = a_receipt().to_json()
    since = ("stored_bytes", "stored_usd_per_month", "data_stored_bytes", "data_stored_usd_per_month")
    for name in ("interruptions", "lost_steps", *since):
        del kept[name]
    assert Receipt(**kept) == a_receipt()


def test_what_stays_stored_and_costs_is_told() -> None:
    ending = replace(an_ending(), stays=Stays(run=stored_cost(15 * 10**9, CLOUD), data=stored_cost(150 * 10**9, CLOUD)))
    receipt = write_receipt(a_done_run(), Story(), {}, ending)
    assert (receipt.stored_bytes, receipt.stored_usd_per_month) == (15 * 10**9, 0.3)
    assert (receipt.data_stored_bytes, receipt.data_stored_usd_per_month) == (150 * 10**9, 3.0)
    assert receipt_text(receipt).splitlines()[-2:] == [
        "  stays       15 GB stored, $0.30 a month; plan cleanup --stored removes it",
        "  data set    150 GB stored, $3.00 a month; plan data remove ends it",
    ]
    without = write_receipt(a_done_run(), Story(), {}, replace(an_ending(), stays=Stays(run=stored_cost(7000, CLOUD))))
    assert "7.0 kB stored, under $0.01 a month; plan cleanup" in receipt_text(without).splitlines()[-1]
    assert Receipt(**json.loads(json.dumps(receipt.to_json()))) == receipt


def test_a_run_at_a_cloud_is_looked_up_in_its_storage_when_it_is_over(desk: Desk) -> None:
    desk.provider.name = "aws"
    address = f"s3://b/data/{'a' * 64}"
    model = {"preset": "vgg11", "image_size": 32, "classes": 2}
    job = a_job(model=model, data={"url": address, "images": 50_000, "size_bytes": 10**9})
    run, receipt = desk.launch(job, provider="aws")
    store = desk.provider.store(run.run_id)
    assert receipt.stored_bytes == sum(len(store.get(path)) for path in store.list()) > 0
    assert (receipt.data_stored_bytes, receipt.data_stored_usd_per_month) == (10**9, 0.023)


def test_a_store_that_does_not_answer_leaves_that_line_out(desk: Desk) -> None:
    desk.provider.name = "aws"
    run = desk.planned(provider="aws")
    run, _ = desk.runner().follow(run, desk.request())
    desk.provider.store = broken  # type: ignore[method-assign, assignment]
    assert desk.runner()._receipts._stays(run) is None
    assert any("lacks what stays stored" in event.text for event in desk.events_of(Message))


def broken(_: RunId) -> Any:
    raise TransientError("nobody answers")


def test_an_estimate_that_could_not_be_made_is_kept_as_none() -> None:
    assert estimate_record(None) == {}
    assert estimate_record(a_machine_estimate(time=None)) == {}
    assert estimate_record(a_machine_estimate(throughput=None)) == {}
    kept = estimate_record(a_machine_estimate())
    assert kept == {
        "seconds": 600.0, "low_seconds": 335.0, "high_seconds": 1130.0, "usd": 0.02, "images_per_second": 500.0,
        "basis": "measured",
    }  # fmt: skip


def test_the_time_of_a_former_life_is_added_and_its_money_counted_once() -> None:
    """A run that had ended and goes on: its attempts are all there, its first receipt has the time."""
    target = a_target("360")
    made = (
        an_attempt(1, target, ended_at=NOON + timedelta(seconds=40), cleared=True),
        an_attempt(2, target, asked_at=NOON + timedelta(days=1), ended_at=MINUTE + timedelta(days=1), cleared=True),
    )
    asked_at = NOON + timedelta(days=1)
    ending = Ending(asked_at=asked_at, ended_at=asked_at + timedelta(seconds=60), model_folder=None)
    receipt = write_receipt(a_done_run(made=made), Story(), {}, ending, {"actual_seconds": 40.0, "actual_usd": 4.0})
    assert receipt.actual_seconds == 100.0
    assert receipt.actual_usd == 10.0


@pytest.mark.parametrize(
    ("name", "receipt"),
    [
        ("succeeded", a_receipt()),
        ("stopped", write_receipt(
            a_done_run(
                made=(an_attempt(1, ref=None, cleared=True), an_attempt(2, ended_at=MINUTE, cleared=True)),
                outcome=Outcome.STOPPED, message="stopped, with a checkpoint",
            ),
            a_story(START), {}, Ending(asked_at=NOON, ended_at=MINUTE, model_folder=None),
        )),
    ],
)  # fmt: skip
def test_a_receipt_as_a_person_reads_it(golden: Golden, name: str, receipt: Receipt) -> None:
    golden.check(f"receipt-{name}.txt", receipt_text(receipt) + "\n")


# --- what a run teaches ------------------------------------------------------------------------------------------


def test_a_run_is_taken_apart_by_hand() -> None:
    """10 s to the trainer, 4 of compiling; 20 steps of 100 images at 100 a second; 8 s after the last epoch."""
    story = a_story(START, {"event": "phase", "name": "compile", "seconds": 4.0}, *EPOCHS, END)
    row = measurement_of(a_done_run(), story, an_ending(), "machine", "shape", batch=100)
    assert row is not None
    assert (row.images_per_second, row.setup_seconds, row.after_seconds) == (100.0, 14.0, 8.0)
    assert row.per_epoch_seconds == pytest.approx((60 - 14 - 8 - 20) / 2)
    assert (row.machine, row.shape, row.measured_at) == ("machine", "shape", MINUTE)


def test_a_stall_behind_the_last_step_is_not_counted_twice() -> None:
    """The same run, its steady rate pulled down by what came after: the parts still add up to the minute it took."""
    slow = END | {"images_per_second": 100.0 * 20 / 45}
    story = a_story(START, {"event": "phase", "name": "compile", "seconds": 4.0}, *EPOCHS, slow)
    row = measurement_of(a_done_run(), story, an_ending(), "machine", "shape", batch=100)
    assert row is not None
    assert (row.setup_seconds, row.per_epoch_seconds) == (14.0, 0.0)
    assert row.after_seconds == pytest.approx(60 - 14 - 45)


@pytest.mark.parametrize(("told", "others"), [({"others_share": 0.42}, 0.42), ({"others_share": 7}, 1.0), ({}, 0.0)])
def test_a_measurement_carries_the_load_under_which_it_was_taken(told: dict[str, float], others: float) -> None:
    row = measurement_of(a_done_run(), a_story(START, END | told), an_ending(), "machine", "shape", batch=100)
    assert row is not None
    assert row.others == others


def test_a_short_run_teaches_its_rate_alone() -> None:
    row = measurement_of(a_done_run(), a_story(START, END), an_ending(), "machine", "shape", batch=100)
    assert row is not None
    assert (row.images_per_second, row.setup_seconds, row.per_epoch_seconds, row.after_seconds) == (
        100.0, None, None, None,
    )  # fmt: skip


@pytest.mark.parametrize(("asked_before", "boot_seconds"), [(40, 40.0), (-200, None)])
def test_a_boot_that_ended_before_it_was_asked_for_tells_nothing(asked_before: int, boot_seconds: float | None) -> None:
    """This computer's clock is ahead of the machine's: a boot of 0 s would count for every later estimate."""
    story = a_story(START, END)
    assert story.began_at is not None
    asked = an_attempt(1, a_target(), asked_at=story.began_at - timedelta(seconds=asked_before))
    row = measurement_of(
        a_done_run(made=(asked,), until_steady=True), story, an_ending(), "aws/g4dn.xlarge", "shape", batch=100
    )
    assert row is not None
    assert row.boot_seconds == boot_seconds


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [START],
        [START, *EPOCHS],
        [START, *EPOCHS, END | {"images_per_second": None}],
        [START, *EPOCHS, END | {"images_per_second": 0.0}],
        [START | {"resumed_from_step": 10}, *EPOCHS, END],
    ],
)
def test_a_run_that_was_not_whole_teaches_nothing(lines: list[dict[str, Any]]) -> None:
    assert measurement_of(a_done_run(), a_story(*lines), an_ending(), "machine", "shape", batch=100) is None


def _like_a_real_one(machine: FakeMachine) -> Iterator[Sighting]:
    """Three seconds to the first line, two of compiling, steps, half a second of looking after each epoch, then four
    of testing and saving."""
    yield PENDING
    machine.clock.advance(3)
    machine.start()
    machine.clock.advance(2)
    machine.say("phase", name="compile", seconds=2.0)
    rate = 900.0
    for _ in range(machine.job.epochs):
        machine.clock.advance(0.5)
        machine.train(machine.steps_per_epoch, rate)
    machine.clock.advance(4)
    machine.end("done", rate)
    machine.write_output(MODEL)
    yield SIGHTING_OF_END[EndKind.DONE]


class NoPredictor:
    def predict(self, question: object) -> object:
        raise AssertionError(question)


def the_quote(desk: Desk, job: TrainingJob) -> MachineEstimate:
    """As `plan launch` would make it now."""
    predictor: Any = NoPredictor()
    return quote_this_machine(job, this_machine(), desk.settings, predictor, DeviceTable([]))


def digits(**changes: Any) -> TrainingJob:
    model = {"layers": [8, "M", 16, "M"], "dense": [16]}
    return a_job(data={"name": "digits"}, model=model, global_batch_size=32, epochs=30, **changes)


@pytest.mark.parametrize("job", [a_job(), digits()], ids=["cifar10", "digits"])
def test_the_second_run_takes_what_the_estimate_after_the_first_said(desk: Desk, job: TrainingJob) -> None:
    desk.scripts(_like_a_real_one)
    first, _ = desk.launch(job)
    assert first.outcome is Outcome.SUCCEEDED
    again = job.model_copy(update={"seed": 1})
    quote = the_quote(desk, again)
    assert quote.time is not None
    assert quote.throughput is not None
    assert (quote.throughput.basis, quote.throughput.images_per_second) == (Basis.MEASURED, 900.0)
    assert quote.throughput.evidence == (f"run {first.run_id} of 2026-11-21",)
    _, receipt = desk.launch(again)
    assert quote.time.total.total_seconds() == pytest.approx(receipt.actual_seconds, rel=0.01)


def test_three_times_the_epochs_take_three_times_the_training(desk: Desk) -> None:
    desk.scripts(_like_a_real_one)
    desk.launch(digits())
    longer = digits().model_copy(update={"epochs": 90})
    quote = the_quote(desk, longer)
    assert quote.time is not None
    _, receipt = desk.launch(longer)
    assert quote.time.total.total_seconds() == pytest.approx(receipt.actual_seconds, rel=0.01)


@pytest.mark.parametrize(
    "changes",
    [{"seed": 5}, {"epochs": 3}, {"optimizer": {"learning_rate": 0.3}}, {"name": "other"}, {"checkpoint_every": "1m"}],
)
def test_what_does_not_change_the_speed_keeps_the_measurement(desk: Desk, changes: dict[str, Any]) -> None:
    desk.scripts(_like_a_real_one)
    desk.launch()
    assert the_quote(desk, a_job(**changes)).throughput is not None


@pytest.mark.parametrize(
    "changes",
    [
        {"global_batch_size": 64},
        {"precision": "amp_bf16"},
        {"xla": True},
        {"framework": "jax"},
        {"model": {"preset": "vgg11"}},
        {"model": {"preset": "vgg16", "batch_norm": True}},
        {"model": {"preset": "vgg16", "image_size": 64}},
        {"optimizer": {"name": "adam"}},
        {"data": {"name": "cifar100"}},
    ],
)
def test_what_changes_the_speed_is_another_measurement(desk: Desk, changes: dict[str, Any]) -> None:
    desk.scripts(_like_a_real_one)
    desk.launch()
    with pytest.raises(AssertionError):  # the predictor is asked
        the_quote(desk, a_job(**changes))


def test_only_a_success_teaches(desk: Desk) -> None:
    for script in (ends(EndKind.FAILED), ends(EndKind.OUT_OF_MEMORY)):
        desk.scripts(script)
        desk.launch()
    desk.scripts(until_asked)
    desk.clock.at_sleep[len(desk.clock.sleeps) + 3] = ctrl_c
    desk.launch()
    assert load_measurements(desk.settings.measurements) == []


def _a_few_steps(machine: FakeMachine) -> Iterator[Sighting]:
    assert machine.request.max_steps is not None
    machine.start()
    machine.train(machine.request.max_steps, 700.0)
    machine.end("done", 700.0)
    yield SIGHTING_OF_END[EndKind.DONE]


def _measured(desk: Desk) -> tuple[Run, OwnMeasurement | None]:
    """As `plan measure` does."""
    desk.scripts(_a_few_steps)
    runner = desk.runner()
    run = replace(runner.draft(a_job(), [a_target("0")], None, None), model_folder="", max_steps=40)
    runner.record(run, a_job(), {})
    return runner.measure(run, desk.request())


def test_a_measuring_run_teaches_the_rate_and_brings_nothing_home(desk: Desk) -> None:
    run, row = _measured(desk)
    assert row is not None
    assert (run.outcome, row.images_per_second, row.setup_seconds) == (Outcome.SUCCEEDED, 700.0, None)
    assert load_measurements(desk.settings.measurements) == [row]
    assert desk.leaked == []
    quote = the_quote(desk, a_job())
    assert quote.throughput is not None
    assert (quote.throughput.images_per_second, quote.throughput.basis) == (700.0, Basis.MEASURED)


def test_a_measuring_run_does_not_replace_what_a_whole_run_taught(desk: Desk) -> None:
    desk.scripts(_like_a_real_one)
    desk.launch()
    _measured(desk)
    assert [row.setup_seconds is None for row in load_measurements(desk.settings.measurements)] == [False, True]
    quote = the_quote(desk, a_job())
    assert quote.throughput is not None
    assert quote.throughput.images_per_second == 900.0


def test_a_receipt_shows_what_validation_came_to() -> None:
    early = {"event": "early_end", "epoch": 2, "step": 20, "message": "training ended after epoch 2"}
    story = a_story(START | {"total_steps": 60}, *EPOCHS, early, END | {"hold_out_top5": 0.999, "best_epoch": 1})
    text = receipt_text(write_receipt(a_done_run(), story, {}, an_ending()))
    assert "98.00%   on 360 test images, top-5 99.90%, of epoch 1: the best validation" in text
    assert "steps       20 of 60, ended early after epoch 2" in text


def test_a_receipt_says_how_many_held_out_images_were_trained_on() -> None:
    end = END | {"hold_out_accuracy": 1.0, "hold_out_trained_on": 40}
    receipt = write_receipt(a_done_run(), a_story(START, *EPOCHS, end), {}, an_ending())
    assert "100.00%   on 360 test images\n" in receipt_text(receipt)
    assert "40 of them were trained on too: what it is on new images is not known" in receipt_text(receipt)
    assert "trained on too" not in receipt_text(replace(receipt, trained_on=None))


@pytest.mark.parametrize(("accuracy", "is_told"), [(0.25, True), (0.5, True), (0.51, False)])
def test_a_receipt_says_where_nothing_was_learned(accuracy: float, is_told: bool) -> None:
    end = END | {"hold_out_accuracy": accuracy, "hold_out_most_frequent": 0.5}
    receipt = write_receipt(a_done_run(), a_story(START, *EPOCHS, end), {}, an_ending())
    sentence = "no better than always guessing the commonest class (50.00%): nothing was learned"
    text = " ".join(receipt_text(receipt).split())
    assert (sentence in text) is is_told
    # The training images were learned: then something was.
    learned = " ".join(receipt_text(replace(receipt, training_accuracy=0.7)).split())
    assert ("commonest class (50.00%)" in learned) is is_told
    assert "nothing was learned" not in learned


GAPS = [
    ((0.45, 0.93, 0.34), "93.00% on the training images while training, and 34.00% on the same images afterwards"),
    ((0.45, 0.93, 0.94), "93.00% on the training images: the network fits these and not others (over-fitting)"),
    ((0.95, 0.60, None), "only 60.00% on the training images: augmentation or dropout"),
    ((0.70, 0.93, None), ""),
    ((0.45, None, None), ""),
]


@pytest.mark.parametrize(("accuracies", "sentence"), GAPS)
def test_a_gap_to_the_training_images_is_told_with_what_it_points_at(
    accuracies: tuple[float, float | None, float | None], sentence: str
) -> None:
    tested, training, again = accuracies
    end = END | {"hold_out_accuracy": tested, "training_accuracy": training, "training_tested_accuracy": again}
    text = receipt_text(write_receipt(a_done_run(), a_story(START, *EPOCHS, end), {}, an_ending()))
    assert sentence in " ".join(text.split())
    assert ("training images" in text) is bool(sentence)
    assert all(len(line) <= 80 for line in text.splitlines() if "training images" in line)


def test_the_receipt_of_a_simulated_run_says_so() -> None:
    receipt = replace(a_receipt(), simulated=True, accuracy=None)
    assert "simulated: nothing was rented, no net was trained" in receipt_text(receipt)
    assert "accuracy" not in receipt_text(receipt)
    assert receipt_from(receipt_record(receipt.to_json()) or {}) == receipt
